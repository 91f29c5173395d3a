"""Folding whole projections from the log and comparing them with what is served: for rebuilding and
verifying alike.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from foldlog.errors import ConfigurationError, LogCorrupt
from foldlog.log.port import Log
from foldlog.store.build import Made
from foldlog.views import Views
from foldlog.views.folding import Folding, Whole
from foldlog.views.refolding import refolded
from foldlog.views.served import Served
from foldlog_projections.fold import Projection
from foldlog_projections.own import family_of
from foldlog_projections.registry import FAMILIES


class RebuildProgress(NamedTuple):
    """How far it is: views `done` of `total`, records folded of those there are, and envelopes.

    `projection` and `key` are those of the view that was done last, "" before there is one.
    """

    done: int
    total: int
    envelopes: int
    projection: str
    key: str
    records: int
    of_records: int


OnProgress = Callable[[RebuildProgress], None]


class Refolds:
    """Every view of some projections, folded anew beside those that are served.

    `made` is what was done so far, with what it gave.

    Args:
        spare: told of a record that cannot be read, which is then passed over. None: it is raised.
    """

    def __init__(
        self,
        log: Log,
        views: Views,
        projections: Sequence[Projection[Any]],
        *,
        on_progress: OnProgress | None = None,
        spare: Callable[[LogCorrupt], None] | None = None,
    ) -> None:
        self._log = log
        self._served = Served(log, views, projections)
        self._on_progress = on_progress
        self._spare = spare
        self._folds: dict[str, list[Projection[Any]]] = {}
        for each in projections:
            self._folds.setdefault(family_of(each), []).append(each)
        self._counts: list[dict[str, int]] = []
        self._is_finished: Callable[[str], bool] = lambda name: False
        self._last = ("", "")
        self.made = Made()
        self.total = 0
        self.of_records = 0

    def resume(self, made: Made, is_finished: Callable[[str], bool]) -> None:
        """Go on where another has been: subjects that are finished are passed over."""
        self.made = made
        self._is_finished = is_finished
        self._served.differing += made.differing
        self._served.changed += made.changed

    async def look(self) -> None:
        """See what there is to do. Errors as `Log.counts`."""
        await self._served.look()
        done = sum(self.made.views.values())
        self.total, self.of_records = done, self.made.records
        for shard in range(self._log.namespace.shards):
            counts = {
                name: count
                for name, count in (await self._log.counts(shard)).items()
                if _family(name) in self._folds and not self._is_finished(name)
            }
            self._counts.append(counts)
            self.of_records += sum(counts.values())
            self.total += sum(len(self._folds[_family(name)]) for name in counts)

    async def shard(self, shard: int) -> AsyncGenerator[list[Whole]]:
        """Fold a shard; yield subjects when they are whole and compared, in between also none.

        Raises:
            LogUnavailable: the log could not be read.
            LogCorrupt: a record cannot be read, and none is spared.
        """
        folding = Folding(
            self._log.namespace,
            shard,
            self._counts[shard],
            lambda family: self._folds.get(family, ()),
            keeps=self._served.is_hot,
            spare=self._spare,
        )

        async def prepare(names: set[str]) -> None:
            await self._served.prepare(folding, names)

        after = self.made.after if shard == self.made.shard else 0
        begun = self.made.records, self.made.envelopes
        async with aclosing(
            refolded(self._log, folding, after=after, prepare=prepare)
        ) as all_wholes:
            async for wholes in all_wholes:
                for whole in wholes:
                    await self._take(whole)
                self.made.shard, self.made.after = shard, folding.floor - 1
                self.made.differing = self._served.differing
                self.made.changed = self._served.changed
                yield wholes
                self._tell(begun[0] + folding.tally.records, begun[1] + folding.tally.envelopes)
        self.made.shard, self.made.after = shard + 1, 0

    async def _take(self, whole: Whole) -> None:
        made = self.made
        for view in whole.views:
            try:
                await self._served.compare_hot(view)
            except LogCorrupt as error:  # as far as reads come it is served
                if self._spare is None:
                    raise
                self._spare(error)
            made.views[view.projection.name] = made.views.get(view.projection.name, 0) + 1
            self._last = view.projection.name, "/".join(whole.subject.keys)
        made.records += whole.records
        made.envelopes += whole.envelopes

    def _tell(self, records: int, envelopes: int) -> None:
        if self._on_progress is not None:
            done = sum(self.made.views.values())
            self._on_progress(
                RebuildProgress(done, self.total, envelopes, *self._last, records, self.of_records)
            )


def targets(name: str | None, own: Sequence[Projection[Any]]) -> list[Projection[Any]]:
    """The projections that are meant: all, or the one of that name.

    Raises:
        ConfigurationError: there is none.
    """
    known = {each.name: each for each in (*FAMILIES.values(), *own)}
    if name is None:
        return list(known.values())
    if name not in known:
        raise ConfigurationError(f"no projection {name!r}; there are {', '.join(known)}")
    return [known[name]]


def _family(name: str) -> str:
    return name.split(".", 4)[3]

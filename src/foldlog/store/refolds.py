"""Folding whole projections from the log and comparing them with what is served: for rebuilding and
verifying alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from foldlog.errors import ConfigurationError, LogCorrupt
from foldlog.log.port import Log
from foldlog.views import Views
from foldlog.views.comparison import Difference
from foldlog.views.fold import Fold
from foldlog.views.refolding import Refolded, Refolding
from foldlog.views.served import Served
from foldlog_projections.fold import Projection
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


class Compared(NamedTuple):
    """A view that was folded anew: how it differs from what is served, and how many of its
    envelopes a snapshot covers that does not.
    """

    fold: Fold[Any]
    differing: list[Difference]
    covered: int


class Refolds:
    """Every view of some projections, folded anew beside those that are served.

    Args:
        spare: called with what cannot be read, which is then passed over. None: it is raised.
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
            self._folds.setdefault(each.family, []).append(each)
        self._total = self._of_records = self._records = 0
        self.views = Counter[str]()
        self.envelopes = 0
        self.differing: list[Difference] = []

    async def shards(self) -> AsyncGenerator[tuple[int, Refolded, list[Compared]]]:
        """Yield each subject when it was folded and compared, with its shard.

        Raises:
            LogUnavailable: the log could not be read.
            LogCorrupt: a record cannot be read, and none is spared.
        """
        await self._served.look()
        shards = range(self._log.namespace.shards)
        counts = [await self._counts(shard) for shard in shards]
        self._of_records = sum(sum(each.values()) for each in counts)
        self._total = sum(len(self._folds[_family(name)]) for each in counts for name in each)
        refolding = Refolding(
            self._log,
            lambda family: self._folds.get(family, ()),
            keeps=self._served.is_hot,
            spare=self._spare,
        )
        for shard in shards:
            async with aclosing(refolding.shard(shard, counts[shard])) as pages:
                async for page in pages:
                    for whole in page:
                        yield shard, whole, await self._compared(whole)
                    if not page:
                        self._tell("", "")

    async def _counts(self, shard: int) -> dict[str, int]:
        counts = await self._log.counts(shard)
        return {name: count for name, count in counts.items() if _family(name) in self._folds}

    async def _compared(self, whole: Refolded) -> list[Compared]:
        compared: list[Compared] = []
        for fold in whole.folds:
            found: tuple[list[Difference], int] = [], 0
            try:
                found = await self._served.compare(fold)
            except LogCorrupt as error:  # as far as reads come it is served
                if self._spare is None:
                    raise
                self._spare(error)
            self.differing += found[0]
            self.views[fold.projection.name] += 1
            compared.append(Compared(fold, *found))
        self._records += whole.records
        self.envelopes += whole.envelopes
        if whole.folds:
            self._tell(whole.folds[-1].projection.name, "/".join(whole.subject.keys))
        return compared

    def _tell(self, projection: str, key: str) -> None:
        if self._on_progress is not None:
            self._on_progress(
                RebuildProgress(
                    self.views.total(),
                    self._total,
                    self.envelopes,
                    projection,
                    key,
                    self._records,
                    self._of_records,
                )
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

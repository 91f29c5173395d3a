"""Import whole files: a bounded number of conversations at a time, each checked and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from foldlog.batches import side_by_side
from foldlog.errors import (
    ImportFailed,
    InvalidId,
    PayloadError,
    PayloadTooLarge,
    SteeringValidationError,
)
from foldlog.importer.conversation import BrokenLine, Conversation
from foldlog.importer.planning import plan
from foldlog.importer.reading import Item, read_conversations
from foldlog.importer.report import ImportProgress, ImportReport
from foldlog.importer.saving import TraceTaken, save
from foldlog.opening import Store

OnProgress = Callable[[ImportProgress], None]

# An item that a store refuses is a broken item. Every other error is the store's and ends the run.
_REFUSED = (InvalidId, PayloadError, PayloadTooLarge, SteeringValidationError, TraceTaken)


async def import_conversations(
    store: Store,
    paths: Iterable[str | Path],
    *,
    prefix: str = "",
    on_progress: OnProgress | None = None,
    concurrency: int = 16,
) -> ImportReport:
    """Save every conversation of some files, and return what was imported and what was left out.

    An item's session and trace id is `<prefix><task_id>-<trial>`, and where it lacks either,
    `<prefix><index>`: its place among all items of this run, from 0. Importing again appends
    nothing, and completes an interrupted run. An item is left out and named in the report if it is
    broken, if the store cannot hold it, if its id occurred before in this run, or if its trace
    already holds another conversation. A file that cannot be read, or holds nothing, is left out as
    a whole. Files are read on the event loop, an item at a time.

    Args:
        store: the store.
        paths: JSON or JSONL files.
        prefix: what ids begin with. Give files without ids a different one each, unless one call
            imports them all.
        on_progress: called with an `ImportProgress` after each item.
        concurrency: how many items are saved at a time.

    Raises:
        ImportFailed: no file can be read.
        AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: what was saved until then stays;
            importing again is safe.
        ReadOnlyStore, StoreClosed: the store is of the past, or closed.
    """
    files = [Path(path) for path in paths]
    size = sum(each.stat().st_size for each in files if each.is_file())
    run = _Run(store, prefix, on_progress, total=size)
    await side_by_side(run.items(files), run.save, at_once=concurrency)
    return run.finished_report(files)


class _Run:
    """The state of one import: the ids it has seen and what it has counted."""

    def __init__(
        self, store: Store, prefix: str, on_progress: OnProgress | None, *, total: int
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._on_progress = on_progress
        self._total = total
        self._done = 0
        self._first: dict[str, str] = {}
        self._failures: list[ImportFailed] = []
        self._report = ImportReport()

    def items(self, paths: Iterable[Path]) -> Iterator[Item]:
        """The items of every file, counted through; a file that fails is a broken item, and so is
        an item with the id of an earlier one.
        """
        index = 0
        for path in paths:
            try:
                for item in read_conversations(path, first_index=index):
                    index += 1
                    yield item if isinstance(item, BrokenLine) else self._checked(item)
            except ImportFailed as error:
                self._failures.append(error)
                reason = str(error).removeprefix(f"{path}: ")
                yield BrokenLine(str(path), number=0, size=0, reason=reason)

    def _checked(self, item: Conversation) -> Item:
        first = self._first.get(item.name)
        if first is not None:
            name = self._prefix + item.name
            return _broken(item, f"id {name!r} was used before, at {first}")
        self._first[item.name] = f"{item.source}:{item.number}"
        return item

    async def save(self, item: Item) -> None:
        if isinstance(item, BrokenLine):
            self.leave_out(item)
            return
        try:
            saved = await save(self._store, plan(item, prefix=self._prefix))
        except _REFUSED as error:
            self.leave_out(_broken(item, str(error)))
            return
        report = self._report
        report.conversations += 1
        report.messages += len(item.messages)
        for total, counts in zip((report.appended, report.present), saved, strict=True):
            for sort, count in counts.items():
                total[sort] = total.get(sort, 0) + count
        self._advance(item.size)

    def leave_out(self, broken: BrokenLine) -> None:
        self._report.broken.append(broken)
        self._advance(broken.size)

    def _advance(self, size: int) -> None:
        self._done += size
        if self._on_progress is not None:
            total = max(self._total, self._done)  # nobody knows how much a pipe holds
            report = self._report
            progress = (self._done, total, report.conversations, len(report.broken))
            self._on_progress(ImportProgress(*progress))

    def finished_report(self, paths: list[Path]) -> ImportReport:
        if self._failures and len(self._failures) == len(paths):
            raise self._failures[0]
        # What no item accounts for: blank lines, what stands between the items of an array.
        if (rest := self._total - self._done) > 0:
            self._advance(rest)
        # Conversations finish in any order; the input's order is the one a person looks for.
        order = {str(path): place for place, path in enumerate(paths)}
        self._report.broken.sort(key=lambda broken: (order[broken.source], broken.number))
        return self._report


def _broken(item: Conversation, reason: str) -> BrokenLine:
    return BrokenLine(item.source, item.number, item.size, reason)

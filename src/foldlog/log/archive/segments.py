"""The segments of a namespace: files of sorted rows in a place, each under its digest."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

from foldlog.errors import ConfigurationError, LogCorrupt, LogUnavailable
from foldlog.log.archive.manifest import Manifest
from foldlog.log.archive.places import Place
from foldlog.log.archive.selection import REST, Selection
from foldlog.log.port import Stored
from foldlog.log.threads import run_to_end
from foldlog_projections.archive import Segment

_FOOTERS: Final = 64
"""Footers in memory, of 1 MiB at most."""

_PAGE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one subject that are read at once."""

_WINDOW_BYTES: Final = 64 * 1024 * 1024
"""Bytes of many subjects that are read, and sorted, at once."""

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_MISSES: Final = 3
"""So often a file is not there that the newest manifest names, before it counts as missing."""

T = TypeVar("T")


class SegmentGone(Exception):
    """A segment's file is not there: a newer manifest names others."""


class Page(NamedTuple):
    """Rows by their sequences: all of those asked for up to `upto`, but for `damaged` files."""

    upto: int
    rows: list[Stored]
    damaged: Sequence[LogCorrupt] = ()


class Segments:
    """The segments of one log in a place. Its questions run in threads.

    Without a place there are none, and nobody asks.

    Every question raises SegmentGone if a file is not there, LogCorrupt, which names the file, if
    one cannot be read that may hold what is asked for, and LogUnavailable if the place does not
    answer.
    """

    def __init__(self, place: Place | None) -> None:
        self.place = place
        self.misses: Counter[str] = Counter()
        self._parquet: Any = None if place is None else _parquet()
        self._footer = lru_cache(_FOOTERS)(self._read_footer)
        self._identity = ""

    @property
    def _place(self) -> Place:
        assert self.place is not None, "only a log with an archive has segments"
        return self.place

    async def identity(self, new: str = "", *, fresh: bool = False) -> str:
        """Return the archive's id: see `Place.identity`. `fresh`: as the place has it now."""
        if fresh or not self._identity:
            self._identity = await asyncio.to_thread(self._place.identity, new)
        return self._identity

    # --- reading ----------------------------------------------------------------------------------

    async def page(self, manifest: Manifest, which: Selection) -> Page:
        """Return the first of some rows, as many as fit in memory.

        Of all subjects it returns what can be read, and which files cannot.
        """
        return await _in_thread(manifest, partial(self._page, manifest.segments, which))

    def _page(self, segments: Sequence[Segment], which: Selection) -> Page:
        width = _width(segments, which)
        most = _WINDOW_BYTES if which.subject is None else _PAGE_BYTES
        while True:
            window = which._replace(upto=min(which.after + width, which.upto))
            damaged = list[LogCorrupt]() if which.is_everything else None
            rows, size = list[Stored](), 0
            for table in self._tables(segments, window, damaged=damaged):
                rows += self._parquet.unpack(table)
                size += table.nbytes
                if size > most and width > 1:
                    break
            else:
                rows = [row for row in rows if which.is_meant(row.subject)]
                return Page(window.upto, sorted(rows, key=lambda row: row.seq), damaged or ())
            if which.subject is not None:  # its rows come in their order
                return Page(rows[-1].seq, rows)
            width //= 2

    async def last(self, manifest: Manifest, which: Selection) -> Stored | None:
        """Return the last of these rows of one subject, or None."""

        def read() -> Stored | None:
            tables = self._tables(manifest.segments, which, newest_first=True)
            ends = (table.slice(len(table) - 1) for table in tables)
            return next((each for table in ends for each in self._parquet.unpack(table)), None)

        return await _in_thread(manifest, read)

    async def counts(self, manifest: Manifest, which: Selection) -> dict[str, int]:
        """Return how many of these rows each subject has; but for files that are damaged whole.

        Of a damaged file it counts what its list has, whatever the sequences.
        """

        def read() -> dict[str, int]:
            found = Counter[str]()
            for segment in manifest.segments:
                with suppress(LogCorrupt):  # which the reads of its subjects raise
                    found.update(self._count(segment, which))
            return dict(found)

        return await _in_thread(manifest, read)

    async def holding(self, segment: Segment, doomed: Sequence[Selection]) -> list[Selection]:
        """Return those that a segment has rows of, or may have if it cannot be read."""

        def read() -> list[Selection]:
            try:
                return [which for which in doomed if self._count(segment, which)]
            except LogCorrupt:
                return [which for which in doomed if which.may_be_in(segment)]

        return await asyncio.to_thread(read)

    def _count(self, segment: Segment, which: Selection) -> dict[str, int]:
        if not which.may_be_in(segment):
            return {}
        listed = self._list(segment)
        if listed is not None:
            counts: dict[str, int] = self._parquet.count_listed(listed, which)
            if not counts or which.covers(segment):
                return counts
        found = Counter[str]()
        try:
            for table in self._tables([segment], which, ()):
                found.update(self._parquet.count(table))
        except (LogCorrupt, SegmentGone):
            if listed is None:
                raise
            return counts
        return dict(found)

    async def sequence_at(self, manifest: Manifest, time: dt.datetime) -> int:
        """Return a sequence that ends what there was by that time."""

        def read() -> int:
            found, micros = 0, _micros(time)
            for last, run in groupby(manifest.segments, key=lambda each: each.last):
                files = list(run)
                if _micros(dt.datetime.fromisoformat(files[0].latest)) > micros:
                    tables = self._tables(files, Selection(), ("time",))
                    found = max([found, *(self._parquet.find_last(t, micros) for t in tables)])
                    break
                found = last
            return found

        return await _in_thread(manifest, read)

    async def damaged(self, segments: Sequence[Segment]) -> list[LogCorrupt]:
        """Look at each file, whole, or at its size in a bucket; return what is wrong, by file."""

        def look() -> list[LogCorrupt]:
            looked = ((s, self._place.damage(s.name, s.size_bytes, s.digest)) for s in segments)
            return [_damaged(segment, reason) for segment, reason in looked if reason]

        return await asyncio.to_thread(look)

    def _tables(
        self,
        segments: Sequence[Segment],
        which: Selection,
        more: Sequence[str] = REST,
        *,
        newest_first: bool = False,
        damaged: list[LogCorrupt] | None = None,
    ) -> Iterator[Any]:
        """Yield rows of one segment after the other, as `parquet.read` does.

        Args:
            damaged: takes in the error of each file that cannot be read; None: it is raised.
        """
        for segment in reversed(segments) if newest_first else segments:
            if not which.may_be_in(segment):
                continue
            try:
                with self._reading(segment), self._place.open(segment.name) as file:
                    yield from self._parquet.read(
                        file, self._footer(segment), which, more, newest_first=newest_first
                    )
            except (LogCorrupt, SegmentGone) as error:
                if not self._may_hold(segment, which):
                    continue
                if damaged is None or isinstance(error, SegmentGone):
                    raise
                damaged.append(error)

    def _may_hold(self, segment: Segment, which: Selection) -> bool:
        """Whether a file that cannot be read may have such rows, by the list of its subjects."""
        listed = self._list(segment)
        return listed is None or any(map(which.is_meant, self._parquet.count_listed(listed, which)))

    def _list(self, segment: Segment) -> Any:
        """The list of a segment's subjects; None if there is none that can be read."""
        try:
            with self._place.open(list_name(segment.name)) as file:
                return self._parquet.read_list(file, segment.listed)
        except self._parquet.ERRORS:  # the segment itself says the same, or is damaged, too
            return None

    def _read_footer(self, segment: Segment) -> Any:
        with self._place.open(segment.name) as file:
            return self._parquet.read_footer(file, segment.crc)

    @contextmanager
    def _reading(self, segment: Segment) -> Iterator[None]:
        try:
            yield
            self.misses.pop(segment.name, None)
        except FileNotFoundError as error:
            if self.misses[segment.name] >= _MISSES:
                raise _damaged(segment, "the file is missing") from error
            raise SegmentGone(segment.name) from error
        except self._parquet.ERRORS as error:
            if isinstance(error, MemoryError) or getattr(error, "errno", None):
                raise LogUnavailable(f"{segment.name} cannot be read now: {error}") from error
            # A file that is removed is overwritten first, under another name.
            if not (self._place.here.root / segment.name).exists():
                raise SegmentGone(segment.name) from error
            if self._place.here is not self._place:
                self._place.here.delete(segment.name)  # the bucket may have it whole
            raise _damaged(segment, str(error)) from error

    # --- writing ----------------------------------------------------------------------------------

    def pack(self, rows: Sequence[Stored]) -> Any:
        """Return rows in the form that `keep` takes."""
        return self._parquet.pack(rows)

    async def keep(self, manifest: Manifest, packed: Sequence[Any], last: int) -> list[Segment]:
        """Store rows as a run of segments, synced; none for no rows.

        Args:
            manifest: the manifest on which this is decided: see `sweep`.
            packed: the rows.
            last: they are about the sequences from the end of the archive up to this one.

        Raises:
            SegmentGone: the manifest has changed since. LogUnavailable: the place did not answer.
        """
        rows = self._parquet.sort(packed)
        return await self._store(manifest, rows, manifest.until + 1, last)

    async def merge(
        self,
        manifest: Manifest,
        segments: Sequence[Segment],
        *,
        without: Sequence[Selection] = (),
    ) -> list[Segment]:
        """Store the rows of some neighbours, but for some rows, as one run. As `keep`.

        Raises:
            LogCorrupt: a segment is damaged.
        """
        runs = (list(run) for _, run in groupby(segments, key=lambda each: each.last))
        sources = [self._parquet.leave_out(self._tables(run, Selection()), without) for run in runs]
        rows = self._parquet.merge(sources)
        return await self._store(manifest, rows, segments[0].first, segments[-1].last)

    async def _store(
        self, manifest: Manifest, rows: Iterator[Any], first: int, last: int
    ) -> list[Segment]:
        ended = threading.Event()
        work = partial(self._write, manifest, rows, first, last, ended)
        return await run_to_end(work, stopping=ended)

    def _write(
        self,
        manifest: Manifest,
        rows: Iterator[Any],
        first: int,
        last: int,
        ended: threading.Event,
    ) -> list[Segment]:
        here, folder, base = self._place.here, manifest.says.folder, f"{manifest.seq:016d}"
        draft, run = f".{base}-{secrets.token_hex(4)}", list[Segment]()
        try:
            groups = stop_when(ended, self._parquet.group(rows))
            files = self._parquet.write(here.draft(folder, draft), groups)
            latest = max((each.newest for each in files), default=(0, ""))[1]
            for each in stop_when(ended, files):
                with each.path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                name = f"{folder}/{base}-{first:016d}-{last:016d}-{digest[:12]}.parquet"
                segment = Segment(
                    name=name,
                    first=first,
                    last=last,
                    records=each.records,
                    raw_bytes=each.raw_bytes,
                    size_bytes=each.path.stat().st_size,
                    latest=latest,
                    digest=digest,
                    low=each.low,
                    high=each.high,
                    crc=each.crc,
                    listed=each.listed,
                )
                self._place.put(name, each.path)
                self._place.put(list_name(name), each.path.with_suffix(self._parquet.LIST))
                run.append(segment)
        except FileNotFoundError as error:  # swept while it was written: the manifest is another
            raise SegmentGone(str(error)) from error
        except self._parquet.ERRORS as error:
            raise LogUnavailable(f"a segment could not be written: {error}") from error
        finally:
            here.delete(f"{folder}/{draft}")
        return run

    async def sweep(self, manifest: Manifest) -> None:
        """Overwrite and remove files and drafts that no manifest names, nor will.

        A name says on which manifest its writer decided. One that is older than the newest can no
        longer be named.
        """
        await asyncio.to_thread(self._sweep, self._place, manifest)
        await self.forget(manifest)

    async def forget(self, manifest: Manifest) -> None:
        """Do so with copies on this machine of files that are elsewhere."""
        self._footer.cache_clear()
        if self._place.here is not self._place:
            await asyncio.to_thread(self._sweep, self._place.here, manifest)

    def _sweep(self, place: Place, manifest: Manifest) -> None:
        if not manifest.says.folder:  # nothing was archived yet
            return
        kept = {name for s in manifest.segments for name in (s.name, list_name(s.name))}
        for _ in range(2):  # what became a file out of a draft meanwhile is listed again
            names = place.names(manifest.says.folder)
            for name in sorted(names, key=lambda name: "/." not in name):
                decided_on = name.rpartition("/")[2].lstrip(".").partition("-")[0]
                copied = name.replace("/.", "/").rpartition(".")[0]  # if it is a copy under way
                is_old = decided_on.isdigit() and int(decided_on) < manifest.seq
                if is_old and not {name, copied} & kept:
                    place.delete(name)


async def _in_thread(manifest: Manifest, work: Callable[[], T]) -> T:
    """Return what it returns; without segments it reads nothing, and needs no thread."""
    return await asyncio.to_thread(work) if manifest.segments else work()


def list_name(segment: str) -> str:
    """Return the name of the file that lists a segment's subjects."""
    return segment.removesuffix(".parquet") + ".subjects"


def _width(segments: Sequence[Segment], which: Selection) -> int:
    """How many sequences are read at once: of all subjects, what is likely to fit in memory."""
    for segment in segments if which.subject is None else ():
        if which.may_be_in(segment):
            width = segment.last - which.after
            if which.is_everything:
                run = (each.raw_bytes for each in segments if each.last == segment.last)
                windows = sum(run) // _WINDOW_BYTES + 1
                width = min(width, (segment.last - segment.first) // windows + 1)
            return width
    return max(which.upto - which.after, 1)


def _micros(time: dt.datetime) -> int:
    return (time - _EPOCH) // dt.timedelta(microseconds=1)


def _damaged(segment: Segment, reason: str) -> LogCorrupt:
    span = f"records of sequences {segment.first} to {segment.last}"
    return LogCorrupt(segment.name, segment.last, f"{span} cannot be read: {reason}")


def _parquet() -> Any:
    try:
        from foldlog.log.archive import parquet
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "pyarrow is not installed: pip install 'foldlog[archive]'"
        ) from error
    return parquet


def stop_when(ended: threading.Event, items: Iterable[T]) -> Iterator[T]:
    """Yield items; raise LogUnavailable once that is set."""
    for item in items:
        if ended.is_set():
            raise LogUnavailable("the store was closed")
        yield item

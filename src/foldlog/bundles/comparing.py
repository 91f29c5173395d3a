"""Comparing a bundle with the log from which it was made."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path

from foldlog.bundles.manifest import Line, Manifest
from foldlog.bundles.reading import (
    MOST_FINDINGS,
    BundleFinding,
    BundleReport,
    lines_of,
    verify_bundle,
    where_of,
)
from foldlog.errors import LogRewound, PastErased, PayloadError, UnknownMoment
from foldlog.opening import Store
from foldlog.position import LogPosition
from foldlog.store import LogRecord
from foldlog.store.core import core_of

THE_LOG = "the log"


async def verify_bundle_with_log(
    store: Store,
    path: str | os.PathLike[str],
    *,
    public_key: bytes | None = None,
    authorities: bytes | None = None,
) -> BundleReport:
    """Check a bundle by itself, then against the log of a store; return what was found.

    Every record that the log has of the session, up to the bundle's position, has to be in the
    bundle and equal, and the bundle may have no other. Archived records are compared as well; what
    was erased since is a finding.

    Args:
        store: the store.
        path: the bundle.
        public_key: an Ed25519 key as PEM, with which the manifest has to be signed.
        authorities: certificates as PEM; one of them has to stand behind a time stamp on it.

    Raises:
        BundleRefused: a key or a certificate is none.
        ConfigurationError: `foldlog[bundle]` is not installed, and one was given.
        LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        OSError: the file cannot be read.
    """
    report = await asyncio.to_thread(
        verify_bundle, path, public_key=public_key, authorities=authorities
    )
    if report.manifest is None:
        return report
    found = list(report.findings)
    async with aclosing(_compare(store, Path(path), report.manifest)) as differences:
        async for each in differences:
            if len(found) >= MOST_FINDINGS:
                found.append(BundleFinding(THE_LOG, "more is different: comparing was ended"))
                break
            found.append(each)
    return report._replace(findings=tuple(found))


async def _compare(store: Store, path: Path, manifest: Manifest) -> AsyncGenerator[BundleFinding]:
    namespace, until = core_of(store).namespace.name, LogPosition.parse(manifest.position)
    if manifest.namespace != namespace:
        reason = f"it is of namespace {namespace!r:.80}, the bundle of {manifest.namespace!r:.80}"
        yield BundleFinding(THE_LOG, reason)
        return
    try:
        past = await store.at(until)  # what belongs to a session may change, so as of then
        records = past.records(session_id=manifest.session_id, until=until)
        async with aclosing(records), aclosing(_merged(path, records)) as differences:
            async for each in differences:
                yield each
    except PastErased as error:
        yield BundleFinding(THE_LOG, f"the session as it was then was erased since: {error.reason}")
    except (LogRewound, PayloadError, UnknownMoment) as error:
        yield BundleFinding(THE_LOG, str(error))


async def _merged(path: Path, records: AsyncGenerator[LogRecord]) -> AsyncGenerator[BundleFinding]:
    """Go through both in their order; yield what only one of them has, or has differently."""
    with path.open("rb") as file:
        lines: Iterator[tuple[int, Line]] = enumerate(lines_of(file), 1)
        bundled, logged = next(lines, None), await anext(records, None)
        shared, absent = 0, list[BundleFinding]()
        while bundled is not None or logged is not None:
            if logged is None or (bundled is not None and _place(bundled[1]) < _place(logged)):
                assert bundled is not None
                if len(absent) < MOST_FINDINGS:
                    absent.append(_absent(*bundled))
                bundled = next(lines, None)
            elif bundled is None or _place(logged) < _place(bundled[1]):
                where = f"shard {logged.shard}, sequence {logged.seq}"
                reason = f"the log has a record of {logged.kind} there that the bundle has not"
                yield BundleFinding(where, reason)
                logged = await anext(records, None)
            else:
                shared += 1
                if differs := _differing(bundled[1].record, logged):
                    reason = f"the log says otherwise: {', '.join(differs)}"
                    yield BundleFinding(where_of(*bundled), reason)
                bundled, logged = next(lines, None), await anext(records, None)
    if absent and not shared:
        words = "it was erased since, or was never there"
        yield BundleFinding(THE_LOG, f"it holds none of the bundle's records: {words}")
        return
    for finding in absent:
        yield finding


def _absent(number: int, line: Line) -> BundleFinding:
    reason = "the log has no such record of the session: it was erased since, or was never there"
    return BundleFinding(where_of(number, line), reason)


def _place(record: LogRecord | Line) -> tuple[int, int]:
    return record.shard, record.seq


def _differing(one: LogRecord, other: LogRecord) -> list[str]:
    fields = LogRecord.__struct_fields__
    return [each for each in fields if getattr(one, each) != getattr(other, each)]

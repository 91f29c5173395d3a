"""Verifying a bundle, by itself and against a log: nothing of it is run or written to the disk."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Final, NamedTuple

from foldlog.bundles.container import SIGNATURE, read_form
from foldlog.bundles.signing import is_signed
from foldlog.errors import ImportFailed, LogRewound, PastErased, PayloadError, UnknownMoment
from foldlog.exporting.lines import (
    BlobLine,
    Header,
    Manifest,
    decode_line,
    decode_record,
    encode_line,
)
from foldlog.exporting.reading import Checked, check, is_blob, read
from foldlog.opening import Store
from foldlog.position import LogPosition
from foldlog.store import LogRecord
from foldlog.store.core import core_of

THE_FILE, THE_LOG = "the file", "the log"

_MOST_FINDINGS: Final = 1_000


class BundleFinding(NamedTuple):
    """Something in a bundle that is not as it should be.

    Attributes:
        where: the part of the file.
        reason: what is wrong.
    """

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class BundleReport(NamedTuple):
    """What was found in a bundle.

    Attributes:
        findings: what is wrong.
        notes: what was not checked.
        holds: the export in it; None where it is not whole.
    """

    findings: tuple[BundleFinding, ...]
    notes: tuple[str, ...]
    holds: Checked | None

    @property
    def is_good(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def verify_bundle(path: str | os.PathLike[str], *, public_key: bytes | None = None) -> BundleReport:
    """Check all that a bundle says against what it holds, without the log; return what was found.

    It blocks. A file that is none, or cannot be read, is a finding, too.

    Args:
        path: the bundle.
        public_key: an Ed25519 key as PEM, with which it has to be signed.

    Raises:
        BundleRefused: the key is none.
        ConfigurationError: `foldlog[bundle]` is not installed, and a key was given.
    """
    findings, holds = list[BundleFinding](), None
    try:
        signature, reason = read_form(Path(path))
        if reason is not None:
            findings.append(BundleFinding(THE_FILE, reason))
        holds = check(Path(path), _check_contents)
    except ImportFailed as error:
        reason = str(error).removeprefix(f"{os.fspath(path)}: ")
        return BundleReport((*findings, BundleFinding(THE_FILE, reason)), (), None)
    if public_key is None:
        unchecked = "its signature was not checked: --key names whose it has to be"
        unsigned = "it is not signed: its author could have written another"
        return BundleReport(tuple(findings), (unchecked if signature else unsigned,), holds)
    manifest = encode_line(Manifest(True, holds.records, holds.blobs, holds.sha256))
    if signature is None:
        findings.append(BundleFinding(SIGNATURE, "there is none"))
    elif not is_signed(manifest, signature, public_key):
        findings.append(BundleFinding(SIGNATURE, "it is not that key's over this bundle"))
    return BundleReport(tuple(findings), ("signed with the key that was given",), holds)


def _check_contents(line: bytes) -> None:
    if not is_blob(line):
        decode_record(line)
        return
    blob = decode_line(line, BlobLine)
    if hashlib.sha256(blob.data).hexdigest() != blob.blob.partition("-")[0]:
        raise ImportFailed(f"the bytes of {blob.blob:.80} are not those that its name tells")


async def verify_bundle_with_log(
    store: Store, path: str | os.PathLike[str], *, public_key: bytes | None = None
) -> BundleReport:
    """Check a bundle by itself, then against the log of a store; return what was found.

    Every record that the log has of the session, up to the bundle's position, has to be in the
    bundle and equal, and the bundle may have no other. Archived records are compared as well; what
    was erased since is a finding.

    Args:
        store: the store.
        path: the bundle.
        public_key: an Ed25519 key as PEM, with which it has to be signed.

    Raises:
        BundleRefused: the key is none.
        ConfigurationError: `foldlog[bundle]` is not installed, and a key was given.
        LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
    """
    report = await asyncio.to_thread(verify_bundle, path, public_key=public_key)
    if report.holds is None:
        return report
    found = list(report.findings)
    async with aclosing(_differences(store, Path(path), report.holds.header)) as differences:
        async for each in differences:
            if len(found) == _MOST_FINDINGS:
                found.append(BundleFinding(THE_LOG, "more is different: comparing was ended"))
                break
            found.append(each)
    return report._replace(findings=tuple(found))


async def _differences(store: Store, path: Path, of: Header) -> AsyncGenerator[BundleFinding]:
    """Go through both in their order; yield what only one of them has, or has differently."""
    if of.namespace != (namespace := core_of(store).namespace.name):
        reason = f"it is of namespace {namespace!r:.80}, the bundle of {of.namespace!r:.80}"
        yield BundleFinding(THE_LOG, reason)
        return
    bundled = (each for each in read(path) if isinstance(each, LogRecord))
    ours = next(bundled, None)
    try:
        until = LogPosition.parse(of.until)
        past = await store.at(until)  # what belongs to a session may change, so as of then
        async with aclosing(past.records(session_id=of.session_id, until=until)) as records:
            async for logged in records:
                while ours is not None and _place(ours) < _place(logged):
                    yield _absent(ours)
                    ours = next(bundled, None)
                if ours is None or _place(ours) != _place(logged):
                    yield BundleFinding(
                        _where(logged), "the log has a record that the bundle lacks"
                    )
                    continue
                if ours != logged:
                    fields = LogRecord.__struct_fields__
                    differ = [e for e in fields if getattr(ours, e) != getattr(logged, e)]
                    yield BundleFinding(
                        _where(ours), f"the log says otherwise: {', '.join(differ)}"
                    )
                ours = next(bundled, None)
        while ours is not None:
            yield _absent(ours)
            ours = next(bundled, None)
    except PastErased as error:
        yield BundleFinding(THE_LOG, f"the session as it was then was erased since: {error.reason}")
    except (LogRewound, PayloadError, UnknownMoment) as error:
        yield BundleFinding(THE_LOG, str(error))


def _place(record: LogRecord) -> tuple[int, int]:
    return record.shard, record.seq


def _where(record: LogRecord) -> str:
    return f"shard {record.shard}, sequence {record.seq}"


def _absent(record: LogRecord) -> BundleFinding:
    reason = "the log has no such record of the session: it was erased since, or was never there"
    return BundleFinding(_where(record), reason)

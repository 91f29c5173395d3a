"""Making a bundle, and adding a time stamp to one."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from foldlog.bundles import anchors
from foldlog.bundles.container import Entry, Malformed, Writing, read_chunks, read_entries
from foldlog.bundles.manifest import ARTIFACTS, MANIFEST, RECORDS, Manifest, Tally
from foldlog.bundles.reading import MOST_MANIFEST_BYTES
from foldlog.errors import BundleRefused
from foldlog.opening import Store
from foldlog.position import LogPosition
from foldlog.store.blobs import BlobRef
from foldlog.store.copying import blob, blob_refs
from foldlog.store.core import core_of


class Bundle(NamedTuple):
    """A bundle that was made.

    Attributes:
        path: the file.
        manifest: what it holds.
        digest: the SHA-256 of the manifest: what a signature or a time stamp covers.
    """

    path: Path
    manifest: Manifest
    digest: str


async def write_bundle(
    store: Store,
    session_id: str,
    path: str | os.PathLike[str],
    *,
    until: LogPosition | None = None,
    private_key: bytes | None = None,
) -> Bundle:
    """Write all that the log holds of a session into one file, and return what it holds.

    The file proves itself without the log.

    The same session as of the same position gives the same bytes, unless an artifact was removed
    meanwhile. The store has no copy, so erasing the session does not reach the file.

    Args:
        store: the store.
        session_id: the session.
        path: where to; nothing may be there. Only the owner may read the file.
        until: the moment up to which it holds everything. None: now.
        private_key: an Ed25519 key, as PEM without a password, that signs the manifest.

    Raises:
        BundleRefused: the log holds nothing of the session, there is a file already, the bundle
            would exceed 2 GiB, or the key is none. There is no file then; so for all others.
        ConfigurationError: `foldlog[bundle]` is not installed, and a key was given.
        UnknownMoment: the log has no such position.
        PastErased: the session was erased since.
        LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        OSError: the file cannot be written.
    """
    target, position = Path(path), await store.position() if until is None else until
    past = store.at(position)  # what belongs to a session may change, so as of then
    tally = Tally(core_of(store).namespace.name, session_id, str(position))
    with _replacing(target) as file:
        try:
            writing = Writing(file)
            with writing.entry(RECORDS) as entry:
                async with aclosing(past.records(session_id=session_id, until=position)) as found:
                    async for record in found:
                        entry.write(tally.add(record).encode())
                        tally.open(record)
            refs = await blob_refs(past, session_id=session_id, until=position)
            named = [ref for ref in refs if tally.names(_sha256(ref))]
            included = await _write_artifacts(store, named, writing)
            manifest = tally.manifest(included)
            if not manifest.records:
                reason = f"the log holds nothing of it at {position}"
                raise BundleRefused(f"session {session_id!r:.80}", reason)
            with writing.entry(MANIFEST) as entry:
                entry.write(manifest.encode())
            if private_key is not None:
                with writing.entry(anchors.SIGNATURE) as entry:
                    entry.write(anchors.sign(manifest.encode(), private_key))
            writing.finish()
        except Malformed as error:
            raise BundleRefused(str(target), str(error)) from error
        await asyncio.to_thread(_sync, file)
    return Bundle(target, manifest, anchors.digest(manifest.encode()))


async def _write_artifacts(store: Store, refs: Sequence[BlobRef], writing: Writing) -> set[str]:
    """Write the bytes that are still there of those that records name; return their digests."""
    included = set[str]()
    for ref in sorted(refs, key=_sha256):
        sha256 = _sha256(ref)
        if sha256 not in included and (data := await blob(store, ref)) is not None:
            with writing.entry(ARTIFACTS + sha256) as entry:
                await asyncio.to_thread(entry.write, data)
            included.add(sha256)
    return included


def _sha256(ref: BlobRef) -> str:
    return ref.name.partition("-")[0]


def request_timestamp(path: str | os.PathLike[str]) -> bytes:
    """Return a request of RFC 3161 for a time stamp on a bundle, to be sent to an authority.

    Args:
        path: the bundle.

    Raises:
        BundleRefused: the file is no bundle.
        ConfigurationError: `foldlog[bundle]` is not installed.
        OSError: the file cannot be read.
    """
    with Path(path).open("rb") as file:
        return anchors.timestamp_request(_manifest(path, file)[1])


def add_timestamp(
    path: str | os.PathLike[str], response: bytes, *, session_id: str | None = None
) -> None:
    """Add an authority's answer to a bundle. Nothing else in it changes.

    Args:
        path: the bundle.
        response: what the authority answered to `request_timestamp`.
        session_id: whose bundle it has to be. None: anybody's.

    Raises:
        BundleRefused: the file is no bundle, or another session's, or has a time stamp, or the
            answer is none on this bundle. The file is as it was.
        ConfigurationError: `foldlog[bundle]` is not installed.
        OSError: the file cannot be read or written.
    """
    target = Path(path)
    with target.open("rb") as file:
        entries, manifest = _manifest(path, file)
        of = Manifest.decode(manifest).session_id
        if session_id not in (None, of):
            raise BundleRefused(os.fspath(path), f"it is of session {of!r:.80}")
        try:
            anchors.check_imprint(manifest, response)
        except anchors.BadAnchor as error:
            raise BundleRefused("the time stamp", str(error)) from None
        if any(each.name == anchors.TIMESTAMP for each in entries):
            raise BundleRefused(str(target), "it has a time stamp already")
        with _replacing(target, anew=False) as copy:
            file.seek(0)
            shutil.copyfileobj(file, copy)
            copy.seek(entries[-1].start + entries[-1].size)
            writing = Writing(copy, entries)
            with writing.entry(anchors.TIMESTAMP) as entry:
                entry.write(response)
            writing.finish()
            _sync(copy)


def _manifest(path: str | os.PathLike[str], file: IO[bytes]) -> tuple[list[Entry], bytes]:
    """A bundle's entries, and its manifest as it stands there."""
    try:
        entries = read_entries(file)
        [entry] = [each for each in entries if each.name == MANIFEST]
        if entry.size > MOST_MANIFEST_BYTES:
            raise Malformed("its manifest is too large")
        manifest = b"".join(read_chunks(file, entry))
        Manifest.decode(manifest)
        return entries, manifest
    except (ValueError, msgspec.MsgspecError) as error:
        reason = f"verify it first: {error}"
        raise BundleRefused(os.fspath(path), reason) from error


@contextmanager
def _replacing(target: Path, *, anew: bool = True) -> Iterator[IO[bytes]]:
    """A file that stands at `target` when the block ends, and nowhere if it fails."""
    if anew and target.exists():
        raise BundleRefused(str(target), "there is such a file already")
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())

"""Making a bundle."""

from __future__ import annotations

import asyncio
import os
import zipfile
from pathlib import Path

from foldlog.bundles.container import SIGNATURE, member, open_zip
from foldlog.bundles.signing import sign
from foldlog.errors import BundleRefused
from foldlog.exporting.newfile import NewFile
from foldlog.exporting.reading import MEMBER
from foldlog.exporting.writing import Exported, Writing
from foldlog.opening import Store
from foldlog.store.forks import When


async def write_bundle(
    store: Store,
    session_id: str,
    path: str | os.PathLike[str],
    *,
    until: When | None = None,
    private_key: bytes | None = None,
) -> Exported:
    """Write all that the log holds of a session into one new file, and return what it holds.

    The file proves itself without the log. The same session as of the same position gives the same
    bytes, unless a large value was removed meanwhile. The store has no copy, so erasing the session
    does not reach the file.

    Args:
        store: the store.
        session_id: the session.
        path: where to; nothing may be there. Only the owner may read the file.
        until: only what was stored up to that moment, as `Store.at` takes it. None: up to now.
        private_key: an Ed25519 key, as PEM without a password, that signs it.

    Raises:
        BundleRefused: the log holds nothing of the session, the bundle would exceed 2 GiB, or the
            key is none. There is no file then; so for all others.
        Misuse: there is such a file. Busy: another process writes it. ConfigurationError: it cannot
            be written, or `foldlog[bundle]` is not installed, and a key was given.
        InvalidId, UnknownMoment: the session id is empty, or there is no such moment.
        PastErased: the session was erased since.
        LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
    """
    writing, out = Writing(store, session_id, None, until), NewFile(Path(path))
    try:
        with open_zip(out.write) as bundle:
            with bundle.open(member(MEMBER), "w") as file:
                await writing.write(file.write)
            if private_key is not None:
                with bundle.open(member(SIGNATURE), "w") as file:
                    file.write(sign(writing.manifest, private_key))
        if not writing.records:
            reason = f"the log holds nothing of it at {writing.header.until}"
            raise BundleRefused(f"session {session_id!r:.80}", reason)
        await asyncio.to_thread(out.finish)
    except (RuntimeError, zipfile.LargeZipFile) as error:  # zipfile's own, of what it cannot hold
        raise BundleRefused(os.fspath(path), f"it would exceed 2 GiB: {error}") from error
    finally:
        await asyncio.to_thread(out.close)
    return writing.exported

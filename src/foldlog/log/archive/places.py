"""Where segments stand: a directory, or a bucket with a cache of whole files before it."""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from foldlog.disk import sync
from foldlog.errors import ConfigurationError, LogCorrupt, LogUnavailable

_CHUNK: Final = 1024 * 1024
_PART: Final = "part"

IDENTITY: Final = "foldlog-archive/id"
"""The file that has the id of an archive. Several logs may have one archive."""

_IDENTITY_DRAFT: Final = re.compile(r"[.][0-9a-f]{32}(?:[.]gone)*")

_MISSING: Final = "the file is missing"

_RETRIES: Final = {"max_retries": 3, "retry_timeout": dt.timedelta(seconds=30)}
"""Of one request to a bucket, unless the caller's options say otherwise."""


class Directory:
    """Files by name, `FOLDER/FILE`, in a directory on this machine or one that several share.

    Only its owner may read it. Its methods block.
    """

    def __init__(self, root: Path) -> None:
        self.root: Path = root.absolute()

    def __str__(self) -> str:
        return str(self.root)

    @property
    def here(self) -> Directory:
        """The directory of this machine in which its files are, or copies of them; and drafts."""
        return self

    def _inside(self, name: str) -> Path:
        """Return a path in this directory. Raises LogCorrupt: a link leads out of it."""
        path = self.root / name
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise LogCorrupt(name, 0, f"it is not in the archive {self.root}")
        return path

    def put(self, name: str, draft: Path) -> None:
        """Take a file out of a draft as `name`, whole or not at all, and for good on return.

        Raises:
            FileNotFoundError: somebody has removed the draft. LogUnavailable: it did not answer.
        """
        target = self._inside(name)
        with _answering(name):
            sync(draft)
            draft.rename(target)
            # The process that made a directory may have died before its name was on the disk.
            for each in (target.parent, self.root, self.root.parent):
                sync(each)

    def draft(self, folder: str, name: str) -> Path:
        """Make a directory for what becomes a file of that folder. Errors as `delete`."""
        draft = self._inside(folder) / name
        with _answering(name):
            for each in (self.root, draft.parent, draft):
                each.mkdir(parents=True, exist_ok=True, mode=0o700)
        return draft

    def open(self, name: str) -> BufferedReader:
        """Open a file, which the caller closes.

        Raises:
            FileNotFoundError: it is not there, or not any more. LogUnavailable: no answer.
        """
        return self._inside(name).open("rb")

    def delete(self, name: str) -> None:
        """Remove a file, here and in its cache on this machine; fine if there is none.

        Raises:
            LogUnavailable: it did not answer.
        """
        folder, _, file = name.rpartition("/")
        path = self._inside(folder) / file
        # Who reads it meanwhile finds it gone, not damaged.
        doomed = path.with_name(f".{path.name.lstrip('.')}.gone")
        with _answering(name), suppress(FileNotFoundError):
            path.rename(doomed)
            if doomed.is_symlink():
                doomed.unlink()
            elif doomed.is_dir():
                for each in doomed.iterdir():
                    _overwrite(each)
                    each.unlink()
                doomed.rmdir()
            else:
                _overwrite(doomed)
                doomed.unlink()
            sync(path.parent)

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and the drafts in a folder. Errors as `delete`."""
        directory = self._inside(folder)
        with _answering(folder):
            if not directory.is_dir():
                return []
            return [f"{folder}/{each.name}" for each in directory.iterdir()]

    def damage(self, name: str, size: int, digest: str) -> str:
        """Return what is wrong with a file of that size and SHA-256; "" for nothing.

        Errors as `delete`.
        """
        try:
            with _answering(name), self.open(name) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return _MISSING
        except LogCorrupt as error:
            return error.reason
        return "" if found == digest else "its content is not what was written"

    def identity(self, new: str = "") -> str:
        """Return the id of the archive that stands here; "" for none.

        Args:
            new: the id to give it where it has none. Of several that are given, one stays.

        Raises:
            LogUnavailable: it did not answer.
        """
        path = self._inside(IDENTITY)
        with _answering(IDENTITY):
            if new and not path.exists():
                draft = self.draft("", f".{new}")
                try:
                    (draft / path.name).write_text(new)
                    for each in (draft / path.name, draft):
                        sync(each)
                    draft.rename(path.parent)
                except OSError as error:  # somebody else was first, and may have removed the draft
                    was_first = error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT)
                    if not (was_first and path.exists()):
                        raise
                for name in os.listdir(self.root):  # also of processes that were killed
                    if _IDENTITY_DRAFT.fullmatch(name):
                        self.delete(name)
                sync(self.root)
            return path.read_text().strip() if path.exists() else ""


class Bucket:
    """As a directory, but in object storage by its URL: `s3://`, `gs://`, `az://`.

    What is read is cached as whole files.

    Args:
        url: the bucket, and a prefix in it.
        cache: a directory of this machine, for this bucket alone.
        max_cached: bytes that the cache may take, but for the file that is read; what was read
            longest ago goes first.
        options: what obstore takes for that kind of storage, such as `endpoint`.
    """

    def __init__(self, url: str, cache: Path, max_cached: int, options: dict[str, Any]) -> None:
        try:
            from obstore.exceptions import AlreadyExistsError, BaseError
            from obstore.store import from_url
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"{error.name} is not installed: pip install 'foldlog[archive]'"
            ) from error
        self._failed, self._taken, self._url = BaseError, AlreadyExistsError, url
        try:
            self._store = from_url(url, **{"retry_config": _RETRIES, **options})
        except (BaseError, TypeError, ValueError) as error:
            raise ConfigurationError(f"the archive {url} cannot be used: {error}") from error
        self._cache = Directory(cache)
        self._max_cached = max_cached

    def __str__(self) -> str:
        return self._url

    @property
    def here(self) -> Directory:
        return self._cache

    def put(self, name: str, draft: Path) -> None:
        import obstore

        with draft.open("rb") as content, self._asked(name):
            try:
                obstore.put(self._store, name, content)
            except FileNotFoundError as error:  # `open` has found the draft
                raise _no_bucket(error) from error
        self._cache.put(name, draft)
        self._shrink(self._cache.root / name)

    def open(self, name: str) -> IO[bytes]:
        path = self._cache.root / name
        with suppress(FileNotFoundError):
            os.utime(path)
            return path.open("rb")
        return self._copy(name, path)

    def _copy(self, name: str, path: Path) -> IO[bytes]:
        """Copy a file from the bucket; return the copy, open, however soon the cache drops it."""
        import obstore

        beside = self._cache.draft(name.rpartition("/")[0], f".{path.name}.{secrets.token_hex(4)}")
        try:
            with ExitStack() as stack:
                copy = stack.enter_context((beside / _PART).open("w+b"))
                with self._asked(name):
                    for chunk in obstore.get(self._store, name):
                        copy.write(chunk)
                copy.seek(0)
                self._cache.put(name, beside / _PART)
                self._shrink(path)
                stack.pop_all()
        finally:
            self._cache.delete(f"{path.parent.name}/{beside.name}")
        return copy

    def delete(self, name: str) -> None:
        import obstore

        self._cache.delete(name)
        with suppress(FileNotFoundError), self._asked(name):
            obstore.delete(self._store, name)

    def names(self, folder: str) -> list[str]:
        import obstore

        with self._asked(folder):
            pages = obstore.list(self._store, prefix=f"{folder}/")
            return [each["path"] for page in pages for each in page]

    def damage(self, name: str, size: int, digest: str) -> str:
        import obstore

        try:
            with self._asked(name):
                found = obstore.head(self._store, name)["size"]
        except FileNotFoundError:
            return _MISSING
        return "" if found == size else f"it has {found} bytes instead of {size}"

    def identity(self, new: str = "") -> str:
        import obstore

        with self._asked(IDENTITY):
            with suppress(FileNotFoundError):
                return bytes(obstore.get(self._store, IDENTITY).bytes()).decode().strip()
            if not new:
                return ""
            try:
                with suppress(self._taken):  # somebody else was first
                    obstore.put(self._store, IDENTITY, new.encode(), mode="create")
            except FileNotFoundError as error:
                raise _no_bucket(error) from error
        return self.identity()

    @contextmanager
    def _asked(self, name: str) -> Iterator[None]:
        try:
            with _answering(name):
                yield
        except self._failed as error:
            if isinstance(error, FileNotFoundError):
                raise
            reason = str(error).partition("\n")[0]
            raise LogUnavailable(f"the archive did not answer for {name}: {reason}") from error

    def _shrink(self, keep: Path) -> None:
        sizes = dict[Path, os.stat_result]()
        for each in self._cache.root.glob("*/[0-9]*"):
            with suppress(FileNotFoundError):  # another process shrinks it, too
                sizes[each] = each.stat()
        left = sum(each.st_size for each in sizes.values())
        for each in sorted(sizes.keys() - {keep}, key=lambda each: sizes[each].st_mtime):
            if left <= self._max_cached:
                return
            left -= sizes[each].st_size
            each.unlink(missing_ok=True)  # not overwritten: somebody may be reading it


Place: TypeAlias = Directory | Bucket


def place_of(
    where: str | os.PathLike[str], cache: Path, max_cached: int, options: dict[str, Any]
) -> Place:
    """Return the place that a path or a URL names.

    Raises:
        ConfigurationError: obstore is not installed, or knows no such storage.
    """
    name = os.fspath(where)
    if "://" not in name:
        return Directory(Path(name))
    return Bucket(name, cache, max_cached, options)


def _no_bucket(error: FileNotFoundError) -> LogUnavailable:
    return LogUnavailable(f"the archive has no such bucket: {error}")


@contextmanager
def _answering(name: str) -> Iterator[None]:
    """Have what the file system cannot do be an error of the store's; what is gone is gone."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LogUnavailable(f"the archive cannot be used for {name}: {error}") from error


def _overwrite(path: Path) -> None:
    """Have no block of the disk hold the bytes, where the file system writes in place."""
    handle = os.open(path, os.O_WRONLY)
    try:
        end, at = os.fstat(handle).st_size, 0
        while at < end:
            at += os.pwrite(handle, bytes(min(end - at, _CHUNK)), at)
        os.fsync(handle)
    finally:
        os.close(handle)

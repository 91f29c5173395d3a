"""Where segments stand: a directory, or a bucket with a cache of whole files before it."""

from __future__ import annotations

import datetime as dt
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Protocol

from foldlog.errors import ConfigurationError, LogUnavailable

_CHUNK: Final = 1024 * 1024
_PART: Final = "part"
_RETRIES: Final = {"max_retries": 3, "retry_timeout": dt.timedelta(seconds=30)}
"""Of one request to a bucket, unless the caller's options say otherwise."""


class Place(Protocol):
    """Files by name, `FOLDER/FILE`. Its methods block."""

    @property
    def here(self) -> Directory:
        """The directory of this machine in which its files are, or copies of them; and drafts."""
        ...

    def put(self, name: str, draft: Path) -> None:
        """Take a file out of a draft as `name`, whole or not at all, and for good on return.

        Raises:
            FileNotFoundError: somebody has removed the draft. LogUnavailable: it did not answer.
        """
        ...

    def open(self, name: str) -> IO[bytes]:
        """Open a file, which the caller closes.

        Raises:
            FileNotFoundError: it is not there, or not any more. LogUnavailable: no answer.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove a file, here and in its cache on this machine; fine if there is none.

        Raises:
            LogUnavailable: it did not answer.
        """
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and the drafts in a folder. Errors as `delete`."""
        ...


class Directory:
    """A directory on this machine, or one that several share. Only its owner may read it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def here(self) -> Directory:
        return self

    def put(self, name: str, draft: Path) -> None:
        target = self.root / name
        with _answering(name):
            _sync(draft)
            draft.rename(target)
            # The process that made a directory may have died before its name was on the disk.
            for each in (target.parent, self.root, self.root.parent):
                _sync(each)

    def draft(self, folder: str, name: str) -> Path:
        """Make a directory for what becomes a file of that folder. Errors as `delete`."""
        draft = self.root / folder / name
        with _answering(name):
            for each in (self.root, draft.parent, draft):
                each.mkdir(parents=True, exist_ok=True, mode=0o700)
        return draft

    def open(self, name: str) -> IO[bytes]:
        return (self.root / name).open("rb")

    def delete(self, name: str) -> None:
        path = self.root / name
        # Who reads it meanwhile finds it gone, not damaged.
        doomed = path.with_name(f".{path.name.lstrip('.')}.gone")
        with _answering(name), suppress(FileNotFoundError):
            path.rename(doomed)
            if doomed.is_dir():
                for each in doomed.iterdir():
                    _overwrite(each)
                    each.unlink()
                doomed.rmdir()
            else:
                _overwrite(doomed)
                doomed.unlink()
            _sync(path.parent)

    def names(self, folder: str) -> list[str]:
        directory = self.root / folder
        with _answering(folder):
            if not directory.is_dir():
                return []
            return [f"{folder}/{each.name}" for each in directory.iterdir()]


class Bucket:
    """Object storage by its URL: `s3://`, `gs://`, `az://`. What is read is cached as whole files.

    Args:
        url: the bucket, and a prefix in it.
        cache: a directory of this machine, for this bucket alone.
        max_cached: bytes that the cache may take, but for the file that is read; what was read
            longest ago goes first.
        options: what obstore takes for that kind of storage, such as `endpoint`.
    """

    def __init__(self, url: str, cache: Path, max_cached: int, options: dict[str, Any]) -> None:
        try:
            from obstore.exceptions import BaseError
            from obstore.store import from_url
        except ModuleNotFoundError as error:
            raise _not_installed(error) from error
        self._failed = BaseError
        try:
            self._store = from_url(url, **{"retry_config": _RETRIES, **options})
        except (BaseError, TypeError, ValueError) as error:
            raise ConfigurationError(f"the archive {url} cannot be used: {error}") from error
        self._cache = Directory(cache)
        self._max_cached = max_cached

    @property
    def here(self) -> Directory:
        return self._cache

    def put(self, name: str, draft: Path) -> None:
        import obstore

        with draft.open("rb") as content, self._asked(name):
            try:
                obstore.put(self._store, name, content)
            except FileNotFoundError as error:  # `open` has found the draft
                raise LogUnavailable(f"the archive has no such bucket: {error}") from error
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

    @contextmanager
    def _asked(self, name: str) -> Iterator[None]:
        try:
            with _answering(name):
                yield
        except self._failed as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise LogUnavailable(f"the archive did not answer for {name}: {error}") from error

    def _shrink(self, keep: Path) -> None:
        sizes = dict[Path, os.stat_result]()
        for each in self._cache.root.glob("*/*.parquet"):
            with suppress(FileNotFoundError):  # another process shrinks it, too
                sizes[each] = each.stat()
        left = sum(each.st_size for each in sizes.values())
        for each in sorted(sizes.keys() - {keep}, key=lambda each: sizes[each].st_mtime):
            if left <= self._max_cached:
                return
            left -= sizes[each].st_size
            each.unlink(missing_ok=True)  # not overwritten: somebody may be reading it


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


def _not_installed(error: ModuleNotFoundError) -> ConfigurationError:
    return ConfigurationError(f"{error.name} is not installed: pip install 'foldlog[archive]'")


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


def _sync(path: Path) -> None:
    """Have a file's content, or a directory's names, be on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""A directory whose changes are watched, and what a crash after any of them leaves of it.

A process that is killed leaves all it has written. When the power fails, a file has what was
synced, and of what was not any part: nothing, the beginning, zeros, or the last write without those
before it. A name is there, or gone, for certain only once its directory was synced.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

Image = dict[str, bytes]
"""What files hold, by their paths below the directory."""


class Made(NamedTuple):
    """A file was created. `node` is the file, whatever it is called later."""

    node: int
    path: str


class MadeDirectory(NamedTuple):
    path: str


class Wrote(NamedTuple):
    node: int
    offset: int
    data: bytes


class Cut(NamedTuple):
    node: int
    size: int


class Synced(NamedTuple):
    node: int


class SyncedDirectory(NamedTuple):
    path: str


class Unlinked(NamedTuple):
    path: str


class Renamed(NamedTuple):
    old: str
    new: str


Change = Made | MadeDirectory | Wrote | Cut | Synced | SyncedDirectory | Unlinked | Renamed


class Disk:
    """The directory after some changes. `files` were there before, for certain."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.names = {path: node for node, path in enumerate(files)}
        self._safe_names = dict(self.names)
        self._directories = {os.path.dirname(path) for path in files} | {"."}
        self._safe_directories = set(self._directories)
        self._now = {self.names[path]: data for path, data in files.items()}
        self._safe = dict(self._now)
        self._unsynced: dict[int, list[Wrote | Cut]] = {node: [] for node in self._now}

    def apply(self, change: Change) -> None:
        """Have a change happen."""
        match change:
            case Made(node, path):
                self.names[path] = node
                self._now[node] = self._safe[node] = b""
                self._unsynced[node] = []
            case MadeDirectory(path):
                self._directories.add(path)
            case Wrote(node) | Cut(node):
                self._now[node] = _changed(self._now[node], change)
                self._unsynced[node].append(change)
            case Synced(node):
                self._safe[node] = self._now[node]
                self._unsynced[node].clear()
            case SyncedDirectory(path):
                self._sync_directory(path)
            case Unlinked(path):
                del self.names[path]
            case Renamed(old, new):
                self.names[new] = self.names.pop(old)

    def killed(self) -> Image:
        """What is there when the process is killed now."""
        return {path: self._now[node] for path, node in self.names.items()}

    def torn(self, write: Wrote) -> Image:
        """What is there when the process is killed in the middle of a write."""
        half = write._replace(data=write.data[: len(write.data) // 2])
        found = self.killed()
        for path, node in self.names.items():
            if node == write.node:
                found[path] = _changed(found[path], half)
        return found

    def without_power(self) -> Iterator[tuple[str, Image]]:
        """What may be there when the power fails now: extremes, and how each came about."""
        safe = {
            path: node
            for path, node in self._safe_names.items()
            if os.path.dirname(path) in self._safe_directories
        }
        for names, about in ((safe, "names as synced"), (self.names, "names as they are")):
            for how, part in _PARTS.items():
                content = {
                    path: part(self._safe[node], self._now[node], self._unsynced[node])
                    for path, node in names.items()
                }
                yield f"{about}, {how}", content

    def _sync_directory(self, path: str) -> None:
        def inside(each: str) -> bool:
            return (os.path.dirname(each) or ".") == path and each != "."

        kept = {name: node for name, node in self._safe_names.items() if not inside(name)}
        self._safe_names = kept | {n: node for n, node in self.names.items() if inside(n)}
        self._safe_directories |= {each for each in self._directories if inside(each)}


def _changed(content: bytes, change: Wrote | Cut) -> bytes:
    if isinstance(change, Cut):
        return content[: change.size].ljust(change.size, b"\0")
    content = content.ljust(change.offset, b"\0")
    return content[: change.offset] + change.data + content[change.offset + len(change.data) :]


def _nothing(safe: bytes, now: bytes, unsynced: list[Wrote | Cut]) -> bytes:
    return safe


def _everything(safe: bytes, now: bytes, unsynced: list[Wrote | Cut]) -> bytes:
    return now


def _beginning(safe: bytes, now: bytes, unsynced: list[Wrote | Cut]) -> bytes:
    for number, change in enumerate(unsynced, 1):
        part = change
        if number == len(unsynced) and isinstance(change, Wrote):
            part = change._replace(data=change.data[: len(change.data) // 2])
        safe = _changed(safe, part)
    return safe


def _zeros(safe: bytes, now: bytes, unsynced: list[Wrote | Cut]) -> bytes:
    return safe.ljust(len(now), b"\0")


def _last_alone(safe: bytes, now: bytes, unsynced: list[Wrote | Cut]) -> bytes:
    return _changed(safe, unsynced[-1]) if unsynced else safe


_PARTS: dict[str, Callable[[bytes, bytes, list[Wrote | Cut]], bytes]] = {
    "nothing unsynced": _nothing,
    "everything": _everything,
    "a torn write": _beginning,
    "zeros": _zeros,
    "the last write alone": _last_alone,
}


def write_image(image: Image, root: Path) -> None:
    """Put files where they belong, in a directory that is empty or not there yet."""
    root.mkdir(exist_ok=True)
    for path, data in image.items():
        (root / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (root / path).write_bytes(data)


def read_image(root: Path) -> Image:
    """The files below a directory."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {os.fspath(path.relative_to(root)): path.read_bytes() for path in found}


@contextmanager
def watching(root: Path, note: Callable[[Change], None]) -> Iterator[None]:
    """Have `note` called after each change below `root` that is made by way of `os`."""
    nodes = {path: node for node, path in enumerate(read_image(root))}
    numbers = itertools.count(len(nodes))
    opened: dict[int, int | str] = {}  # by descriptor: a file, or a directory's path
    real: Any = {
        name: getattr(os, name)
        for name in ("open", "close", "pwrite", "ftruncate", "fsync", "unlink", "rename", "mkdir")
    }

    def below(path: Any) -> str | None:
        path = Path(os.fspath(path))
        return os.fspath(path.relative_to(root)) if path.is_relative_to(root) else None

    def open_(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        where = below(path)
        fd: int = real["open"](path, flags, *rest, **options)
        if where is not None and os.path.isdir(path):
            opened[fd] = where
        elif where is not None:
            if where not in nodes:
                nodes[where] = next(numbers)
                note(Made(nodes[where], where))
            opened[fd] = nodes[where]
        return fd

    def close(fd: int) -> None:
        opened.pop(fd, None)
        real["close"](fd)

    def pwrite(fd: int, data: Any, offset: int) -> int:
        written: int = real["pwrite"](fd, data, offset)
        node = opened.get(fd)
        if isinstance(node, int):
            note(Wrote(node, offset, bytes(data[:written])))
        return written

    def ftruncate(fd: int, size: int) -> None:
        real["ftruncate"](fd, size)
        node = opened.get(fd)
        if isinstance(node, int):
            note(Cut(node, size))

    def fsync(fd: int) -> None:
        # Not the real one: what is tested is whether it is called, and thousands of them take long.
        match opened.get(fd):
            case int(node):
                note(Synced(node))
            case str(path):
                note(SyncedDirectory(path))
            case None:
                real["fsync"](fd)

    def unlink(path: Any, **options: Any) -> None:
        real["unlink"](path, **options)
        where = below(path)
        if where is not None:
            del nodes[where]
            note(Unlinked(where))

    def rename(old: Any, new: Any, **options: Any) -> None:
        real["rename"](old, new, **options)
        before, after = below(old), below(new)
        if before is not None and after is not None:
            nodes[after] = nodes.pop(before)
            note(Renamed(before, after))

    def mkdir(path: Any, *rest: Any, **options: Any) -> None:
        real["mkdir"](path, *rest, **options)
        where = below(path)
        if where is not None:
            note(MadeDirectory(where))

    with pytest.MonkeyPatch.context() as patch:
        for name, call in {
            "open": open_,
            "close": close,
            "pwrite": pwrite,
            "ftruncate": ftruncate,
            "fsync": fsync,
            "unlink": unlink,
            "rename": rename,
            "mkdir": mkdir,
        }.items():
            patch.setattr(os, name, call)
        yield

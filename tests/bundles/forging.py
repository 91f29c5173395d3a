"""Taking bundles apart, and putting them together again as a forger would."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import foldlog
from foldlog.bundles import write_bundle
from foldlog.bundles.container import Writing
from foldlog.bundles.manifest import ARTIFACTS, MANIFEST, RECORDS, Line, Manifest, Tally
from tests.exporting.history import write

SESSION = "a"


@dataclass
class Parts:
    """A bundle in parts: lines as JSON objects, the manifest as one, artifacts by name."""

    lines: list[Any]
    manifest: dict[str, Any]
    artifacts: dict[str, bytes]
    anchors: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes) -> Parts:
        """Take a bundle apart, with a reader that is not foldlog's."""
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            held = {name: file.read(name) for name in file.namelist()}
        lines = [json.loads(line) for line in held[RECORDS].splitlines()]
        artifacts = {name: data for name, data in held.items() if name.startswith(ARTIFACTS)}
        anchors = {name: data for name, data in held.items() if name.startswith("anchor/")}
        return cls(lines, json.loads(held[MANIFEST]), artifacts, anchors)

    def built(self) -> bytes:
        """The file of these parts, in a bundle's form whatever they say."""
        return built(self.entries)

    @property
    def entries(self) -> list[tuple[str, bytes]]:
        """The entries of such a file, in order."""
        lines = b"".join(msgspec.json.encode(line) + b"\n" for line in self.lines)
        manifest = msgspec.json.format(msgspec.json.encode(self.manifest), indent=2) + b"\n"
        return [*{RECORDS: lines, **self.artifacts, MANIFEST: manifest, **self.anchors}.items()]

    def recomputed(self) -> bytes:
        """The file of these parts with every hash and count made anew: what a writer can do."""
        of = (self.manifest[name] for name in ("namespace", "session_id", "position"))
        tally = Tally(*of)
        read = [msgspec.convert(line, Line) for line in self.lines]
        lines = [tally.add(line.record) for line in read]
        for line in read:
            tally.open(line.record)
        manifest = tally.manifest({name.removeprefix(ARTIFACTS) for name in self.artifacts})
        self.lines = [msgspec.to_builtins(line) for line in lines]
        self.manifest = msgspec.to_builtins(manifest)
        return self.built()


def built(entries: Iterable[tuple[str, bytes]]) -> bytes:
    """A file in a bundle's form."""
    file = io.BytesIO()
    writing = Writing(file)
    for name, data in entries:
        with writing.entry(name) as entry:
            entry.write(data)
    writing.finish()
    return file.getvalue()


def altered(part: Callable[[Parts], Any], data: bytes) -> Parts:
    """A bundle's parts after a change."""
    parts = Parts.of(data)
    part(parts)
    return parts


def made(path: Path, **options: Any) -> tuple[bytes, Manifest]:
    """A bundle of a session with a bit of everything, on two shards."""

    async def make() -> Manifest:
        async with foldlog.memory_store(shards=2) as store:
            await write(store)
            return (await write_bundle(store, SESSION, path, **options)).manifest

    manifest = asyncio.run(make())
    return path.read_bytes(), manifest

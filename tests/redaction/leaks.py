"""A secret, hooks that keep it, and a log that remembers all that it was ever handed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import foldlog
from foldlog import Saving
from foldlog.envelope import Draft, pack
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append
from foldlog.subjects import Subject

SECRET = "4929-1234-5678-9012"
MASK = "[card]"
LEAKY: dict[str, Any] = {"text": f"card {SECRET}", "nested": [{"deep": (SECRET,)}]}


def masked(value: Any) -> Any:
    """`value` with the secret masked wherever it stands."""
    match value:
        case str():
            return value.replace(SECRET, MASK)
        case bytes():
            return value.replace(SECRET.encode(), MASK.encode())
        case Mapping():
            return {masked(key): masked(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(map(masked, value))
        case _:
            return value


class Hook:
    """Masks, and remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[Saving] = []

    def __call__(self, saving: Saving) -> Mapping[str, Any]:
        self.shown.append(saving)
        return {name: masked(value) for name, value in saving.values.items()}


def refusing(saving: Saving) -> Mapping[str, Any]:
    """A hook that raises where it meets the secret."""
    if SECRET in repr(saving.values):
        raise ValueError(SECRET)
    return saving.values


class Handed(MemoryLog):
    """A log in memory that remembers what was appended to it, also what was purged since.

    So do its blobs and its snapshots.
    """

    def __init__(self) -> None:
        super().__init__()
        self.drafts: list[Draft] = []
        self.bytes: list[bytes] = []
        put_blob, put_snapshot = self.blobs.put, self.snapshots.put

        async def blob(subject: str, name: str, data: bytes, **about: Any) -> None:
            self.bytes += [subject.encode(), name.encode(), data]
            await put_blob(subject, name, data, **about)

        async def snapshot(subject: Subject, number: int, data: bytes, edition: str = "") -> None:
            self.bytes += [subject.name.encode(), data]
            await put_snapshot(subject, number, data, edition)

        self.blobs.put = blob  # type: ignore[method-assign]
        self.snapshots.put = snapshot  # type: ignore[method-assign]

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        for append in appends:
            self.drafts += append.drafts
            self.bytes += [append.subject.name.encode(), pack(append.drafts)]
        return await super().append(appends, atomic=atomic)

    @property
    def types(self) -> set[str]:
        """The types of all envelopes."""
        return {draft.type for draft in self.drafts}

    def holds(self, text: str) -> bool:
        """Whether the text stands in anything, anywhere."""
        return any(text.encode() in each for each in self.bytes)


async def raw(store: foldlog.Store) -> bytes:
    """All records of a store's log as they are stored, and the names of their subjects."""
    found = []
    for shard in range(store._core.log.namespace.shards):
        async for page in store._core.log.scan(shard):
            for stored in page:
                found += [stored.subject.encode(), stored.data]
    return b"\n".join(found)

"""The records of a thread's checkpoints: see `foldlog_projections.langgraph.checkpoints`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import asdict

from foldlog import codec
from foldlog_projections.langgraph.bodies import Pieces, Since, Version

PUT: Final = "checkpoint.put"
WRITTEN: Final = "checkpoint.written"
REMOVED: Final = "checkpoint.removed"
PRUNED: Final = "checkpoint.pruned"
HELD: Final = "checkpoint.held"
RELEASED: Final = "checkpoint.released"
PART: Final = "checkpoint.part"
COPIED: Final = "checkpoint.copied"

Reason = Literal["gone", "held"]
"""Why a record has no effect: what it refers to was removed; or another run holds the thread."""

Typed = tuple[str | None, bytes]
"""What a serialiser made: the name of the form, and the bytes. None: `foldlog.codec` made them."""


def typed(form: str | None, data: bytes) -> Any:
    """Return a value that a serialiser wrote, or its bytes where only the serialiser reads them."""
    with suppress(ValueError, TypeError, msgspec.MsgspecError, RecursionError):
        if form is None:
            return codec.decode(data) if data else None
        if form in ("msgpack", "null"):
            return _of_langgraph.decode(data) if data else None
    return data


def _made_of(code: int, data: memoryview) -> Any:
    """What an object of LangGraph's MessagePack was made of: module, name, that, and a method."""
    parts = _of_langgraph.decode(data)
    return parts[2] if isinstance(parts, list) and len(parts) > 2 else parts


_of_langgraph: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(ext_hook=_made_of)


class Value(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A channel's new value: `form` as the serialiser names it, and the pieces of its bytes.

    `head` stands before the pieces. Ranges among them are of the value `since`, without its head:
    that of the same channel in that version.
    """

    form: str
    head: bytes
    pieces: Pieces
    since: Since = None

    def readable(self) -> dict[str, Any]:
        """What it says; what it adds to another value is bytes with something missing between."""
        parts = [self.head, *(each for each in self.pieces if isinstance(each, bytes))]
        whole = {} if self.since is not None else {"value": typed(self.form, b"".join(parts))}
        return {"form": self.form, "since": self.since} | whole


class Put(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """`checkpoint.put`: a checkpoint, with the values that its channels have since their version.

    `versions` and `seen` are what changed since the checkpoint `base` of the same namespace, of
    which `dropped` and `unseen` are left out. `base` is "" for none. It has no effect if the thread
    does not hold `base`, or has removed `parent`, or `under` in the root namespace.
    """

    key: str
    id: str
    rest: Typed
    metadata: Typed
    ns: str = ""
    parent: str | None = None
    base: str = ""
    under: str = ""
    versions: dict[str, Version] = {}
    dropped: tuple[str, ...] = ()
    seen: dict[str, dict[str, Version]] = {}
    unseen: tuple[str, ...] = ()
    values: dict[str, Value] = {}
    token: str = ""

    def readable(self) -> dict[str, Any]:
        """Its fields, with the values that the serialiser's bytes hold."""
        return asdict(self) | {"rest": typed(*self.rest), "metadata": typed(*self.metadata)}


class Write(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a task wrote to a channel. `index` is below 0 for what a later write replaces."""

    index: int
    channel: str
    form: str
    data: bytes

    def readable(self) -> dict[str, Any]:
        """Its fields, with the value that the serialiser's bytes hold."""
        return asdict(self) | {"data": typed(self.form, self.data)}


class Written(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """`checkpoint.written`: what a task wrote after a checkpoint, which may come later.

    It has no effect if the thread has removed the checkpoint.
    """

    key: str
    id: str
    task: str
    writes: tuple[Write, ...]
    ns: str = ""
    path: str = ""
    token: str = ""


class Removed(msgspec.Struct, frozen=True):
    """`checkpoint.removed`: these checkpoints go, by namespace, and what was written after them."""

    key: str
    ids: dict[str, tuple[str, ...]]
    token: str = ""


class Pruned(msgspec.Struct, frozen=True):
    """`checkpoint.pruned`: of all checkpoints, these alone stay."""

    key: str
    kept: dict[str, tuple[str, ...]]
    token: str = ""


class Part(msgspec.Struct, frozen=True):
    """`checkpoint.part`: the next bytes of what another thread holds; nothing shows them yet."""

    key: str
    copy: str
    data: bytes


class Copied(msgspec.Struct, frozen=True):
    """`checkpoint.copied`: the thread holds what the parts of a copy say, all of them at once.

    Without effect unless that many of them are there. `ids` are of its checkpoints, by namespace.
    """

    key: str
    copy: str
    parts: int
    ids: dict[str, tuple[str, ...]]
    token: str = ""


class Held(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """`checkpoint.held`: from now on only records with this token take effect.

    Until it is released, or, once `lease` seconds have passed since its latest record, until
    another run holds the thread or writes to it. A renewal takes effect only while it is held.
    `thread` is the thread that is held: of a fork it is the origin, and holds nobody back.
    """

    key: str
    token: str
    thread: str
    holder: str
    lease: float
    renews: bool = False
    takes: bool = False


class Released(msgspec.Struct, frozen=True):
    """`checkpoint.released`: the run with this token no longer holds the thread."""

    key: str
    token: str

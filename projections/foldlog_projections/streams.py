"""Streams over HTTP: bytes that are appended, at offsets by which readers resume.

The view folds to what is decided on: how far the stream goes, its writers, whether it is closed.
What was appended is read in pages of the records.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Content, Fold, Kind, fresh_id
from foldlog.words import Line, Shown, brief, clip

ZERO: Final = f"{0:016d}_{0:016x}"
"""The offset before everything. Others are greater, as texts, the further they are."""


class Opened(msgspec.Struct, frozen=True, omit_defaults=True):
    """`stream.opened`: the stream begins behind the offset `base`.

    `ttl` is in seconds, `expires_at` as its writer gave it. A fork begins where `source` is at
    `base`, or `sub` messages or bytes behind that; `source_id` is the source's `id`.
    """

    id: str
    content_type: str
    base: str = ZERO
    ttl: int | None = None
    expires_at: str = ""
    expires: float | None = None
    source: str = ""
    source_id: str = ""
    fork_offset: str = ""
    sub: int = 0


class Appended(msgspec.Struct, frozen=True, omit_defaults=True):
    """`stream.appended`: what is new up to `offset`, as `text` or, where it is none, as `data`.

    Of JSON it is messages with commas in between. `producer`, `epoch` and `number` are those of the
    request, as is `seq`, the Stream-Seq.
    """

    offset: str
    text: Content[str] = ""
    data: Content[bytes] = b""
    producer: str = ""
    epoch: int = 0
    number: int = 0
    seq: str = ""

    @property
    def body(self) -> bytes:
        """What was appended."""
        return self.data or self.text.encode()


class Closed(msgspec.Struct, frozen=True, omit_defaults=True):
    """`stream.closed`: nothing can be appended any more. `error` says why, where it went wrong."""

    producer: str = ""
    epoch: int = 0
    number: int = 0
    error: Content[str] = ""


class ForkedTo(msgspec.Struct, frozen=True):
    """`stream.forked`: the stream `path` may begin with what is here."""

    path: str


class Touched(msgspec.Struct, frozen=True):
    """`stream.touched`: it was read, so that its time to live begins anew."""


class Gone(msgspec.Struct, frozen=True):
    """`stream.gone`: it was deleted, and stays for the forks that begin with it."""


class Stream(msgspec.Struct):
    """What a stream is now. It is false, and `id` is "", where there is none.

    `opened` says how it was made, `tail` how far it goes. `producers` have the epoch and the last
    number of each. `used` is when it was last written or read, in Unix seconds.
    """

    id: str = ""
    opened: Opened | None = None
    tail: str = ZERO
    used: float = 0.0
    is_closed: bool = False
    is_gone: bool = False
    closer: tuple[str, int, int] = ("", 0, 0)
    error: str = ""
    seq: str = ""
    producers: dict[str, tuple[int, int]] = {}
    forks: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self.id)

    def advanced(self, record: Any, at: float) -> Stream:
        """It, after a record that was written at a time."""
        self.used = max(self.used, at)
        match record:
            case Opened() if not self.id:
                self.id, self.opened, self.tail = record.id, record, record.base
            case Appended():
                self.tail = max(self.tail, record.offset)
                self.seq = record.seq or self.seq
            case Closed():
                self.is_closed = True
                self.closer = (record.producer, record.epoch, record.number)
                self.error = record.error
            case ForkedTo():
                self.forks[record.path] = True
            case Gone():
                self.is_gone = True
        if isinstance(record, Appended | Closed) and record.producer:
            self.producers[record.producer] = (record.epoch, record.number)
        return self


def _apply(stream: Stream, record: Any, envelope: Recorded) -> Stream:
    return stream.advanced(record, envelope.ts)


def keys_of(path: str) -> tuple[str, str]:
    """The keys of a stream: `sessions/<session>/<name>` is that session's, others are nobody's."""
    first, _, rest = path.partition("/")
    session, _, name = rest.partition("/")
    if first == "sessions" and session and name:
        return f"session:{session}", name
    return f"path:{path}", "-"


def _id(record: Any, body: bytes) -> str:
    # An offset is the id of the record that ends there: a cursor for pages of the view.
    return record.offset if isinstance(record, Appended) else fresh_id(record, body)


def _line(sent: Appended) -> Line:
    return Line("sent", clip(brief(sent.text or sent.data)), tone="aside")


kind: Final = Kind(
    "streams",
    keys=("scope", "name"),
    owner="scope",
    records={
        "stream.opened": Opened,
        "stream.appended": Appended,
        "stream.closed": Closed,
        "stream.forked": ForkedTo,
        "stream.touched": Touched,
        "stream.gone": Gone,
    },
    fold=Fold(Stream, _apply, state=Stream, forgets_ids=True),
    id=_id,
    shown=Shown(
        {
            "stream.opened": "stream {scope} {name} opened",
            "stream.appended": _line,
            "stream.closed": "stream {scope} {name} closed",
            "stream.forked": Line("stream forked", tone="aside"),
            "stream.touched": Line("stream read", tone="aside"),
            "stream.gone": "stream {scope} {name} deleted",
        },
    ),
)

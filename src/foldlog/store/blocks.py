"""Blocks: what is saved and decided inside `atomic()`, until it is appended as one."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from foldlog.envelope import Draft, Recorded
from foldlog.errors import AppendConflict, AppendUnknown
from foldlog.kind import Key
from foldlog.store.spool import Spooled
from foldlog.subjects import Subject
from foldlog_projections.fold import Folded, copied_fold, step


@dataclass(slots=True)
class _Overlay:
    """A view as it will be: a copy of its fold at `head`, and how many drafts it has applied."""

    folded: Folded[Any]
    head: int
    applied: int = 0


@dataclass(slots=True)
class Block:
    """Drafts by subject: fewer messages, because one append has up to 1,000.

    `before` is appended first and by itself: it may live on other shards. `expected` has the views
    that the block decided on, each with the sequence at which it ended then; `is_decided` says that
    it decided anything. When the block has
    ended, `then` is awaited and `after` called if it is stored or will be, from the spool; `undo`,
    the last one first, if it came to nothing; and none if the outcome is unknown.

    A task started inside inherits the block's context and may outlive it: what it saves after the
    end is no longer part of the block, which is not `open` then.
    """

    owner: object
    drafts: dict[Subject, list[Draft]] = field(default_factory=dict)
    before: list[tuple[Subject, Sequence[Draft]]] = field(default_factory=list)
    expected: dict[Key[Any], int] = field(default_factory=dict)
    then: list[Callable[[], Awaitable[Any]]] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)
    undo: list[Callable[[], None]] = field(default_factory=list)
    is_decided: bool = False
    outcome: Literal["nothing", "stored", "unknown"] = "nothing"
    open: bool = True
    _overlays: dict[Key[Any], _Overlay] = field(default_factory=dict)

    def add(self, appends: Iterable[tuple[Subject, Sequence[Draft]]]) -> None:
        """Take in what is saved."""
        for subject, drafts in appends:
            self.drafts.setdefault(subject, []).extend(drafts)

    @contextmanager
    def appended(self) -> Iterator[None]:
        """Note what becomes of the append that is made inside."""
        try:
            yield
        except Spooled:
            self.outcome = "stored"
            raise
        except (AppendUnknown, asyncio.CancelledError):
            self.outcome = "unknown"
            raise
        self.outcome = "stored"

    def end(self) -> None:
        """Call what waits for the outcome."""
        if self.outcome == "stored":
            for then in self.after:
                then()
        elif self.outcome == "nothing":
            for undo in reversed(self.undo):
                undo()

    def overlaid(
        self, key: Key[Any], subject: Subject, folded: Folded[Any], head: int
    ) -> tuple[Folded[Any], int]:
        """Return a view with what the block has saved to it: itself, if that is nothing."""
        expected = self.expected.get(key, head)
        if expected != head:
            raise AppendConflict(subject.name, expected, head)
        drafts = self.drafts.get(subject)
        if drafts is None:
            return folded, head
        overlay = self._overlays.get(key)
        if overlay is None or overlay.head != head:
            overlay = self._overlays[key] = _Overlay(copied_fold(key.kind, folded), head)
        # A sequence of 0, and the time now: it is not stored yet, and what expires is as new.
        now = dt.datetime.fromtimestamp(time.time(), dt.UTC).isoformat()
        for each in drafts[overlay.applied :]:
            recorded = Recorded(each.id, each.type, each.v, each.ts, each.payload, None, 0, 0, now)
            step(key.kind, overlay.folded, recorded)
        overlay.applied = len(drafts)
        return overlay.folded, head


_current: Final[ContextVar[Block | None]] = ContextVar("block", default=None)


def open_block(owner: object) -> Block | None:
    """The block of a store that the caller is in."""
    block = _current.get()
    return block if block is not None and block.open and block.owner is owner else None


@contextmanager
def begun(owner: object) -> Iterator[Block]:
    """Be in a block of a store."""
    block = Block(owner)
    token = _current.set(block)
    try:
        yield block
    finally:
        block.open = False
        _current.reset(token)

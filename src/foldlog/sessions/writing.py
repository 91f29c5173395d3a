"""Reading and writing one session: the base of `Session`."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from pydantic import ValidationError

from foldlog.envelope import Draft
from foldlog.errors import AppendUnknown, LogUnavailable, RedactionFailed
from foldlog.kind import Key, Kind
from foldlog.sessions.decision import Decide, Decision
from foldlog.sessions.models import ContextPatch
from foldlog.sessions.queueing import queue_records
from foldlog.sessions.state import SessionState, brief_of, read_session
from foldlog.sessions.telemetry import Emitter, TaskTelemetrySink
from foldlog.store.blocks import Block, open_block
from foldlog.store.core import Capability, core_of
from foldlog.store.decisions import decide_drafts
from foldlog.store.operation import operation
from foldlog.store.payloads import drafting
from foldlog.store.primitives import At, Decided
from foldlog.store.store import BaseStore
from foldlog.store.waiting import list_key
from foldlog.subjects import checked_id
from foldlog.views import Consistency
from foldlog_projections import tasks
from foldlog_projections.runs import queues, runs
from foldlog_projections.sessions import session
from foldlog_projections.sessions.session import State

_OF_A_PATCH: Final = ContextPatch.model_fields.keys() - {
    *session.kind.records[session.QUEUED].content
}
"""Fields of a patch that are ids, versions and times, not content."""

F = TypeVar("F", bound=Callable[..., Any])


def named(method: F) -> F:
    """Have errors about a method's arguments name `Session`, wherever the method is written."""
    method.__qualname__ = f"Session.{method.__name__}"
    return method


def called(*, writes: bool = False) -> Callable[[F], F]:
    """Make a method a public call of sessions: see `foldlog.store.operation`."""

    def decorate(method: F) -> F:
        call: Any = operation(writes=writes, prefix="sessions.")
        return cast(F, call(named(method)))

    return decorate


class SessionWriter(Capability):
    """One session of a store: reads it, and appends what is decided on it."""

    def __init__(
        self, session_id: str, state_store: BaseStore, telemetry_sink: TaskTelemetrySink | None
    ) -> None:
        super().__init__(core_of(state_store))
        self._core.subject(session.kind, session_id)  # a bad id is refused before anything is read
        self.session_id = session_id
        self.worker: str = secrets.token_hex(8)
        self.telemetry: Emitter = Emitter(telemetry_sink)
        self._store = state_store
        self._stored = SessionState(session_id, {}, State)
        self._in_block: tuple[Block, SessionState] | None = None

    @property
    def _seen(self) -> SessionState:
        """What the last call saw. What it saw in a block counts outside once that is stored."""
        seen = self._in_block
        return seen[1] if seen and seen[0] is open_block(self._core) else self._stored

    async def _read(self, consistency: Consistency) -> SessionState:
        """Read the session, and return it as its views hold it: nothing is copied."""
        found = await read_session(self._store, self.session_id, consistency)
        block = open_block(self._core)
        if block is None:
            self._stored = found
        else:
            self._in_block = block, found
        return found

    def _adopt(self, block: Block) -> None:
        """Let what was seen in a block count outside: it is stored."""
        seen = self._in_block
        if seen is not None and seen[0] is block:
            self._stored, self._in_block = seen[1], None

    async def _write(
        self,
        decide: Decide,
        *,
        once: tuple[Kind[Any], Draft] | None = None,
        steered: str | None = None,
    ) -> bool:
        """Append what is decided, all of it or nothing; return whether anything was decided.

        Args:
            once: a third kind of the session's, and a draft: if that view has it, nothing is
                decided; and nobody else writes to it between the decision and the append. If the
                view has other content under its id, this raises IdTaken.
            steered: a task whose run may join its queue by this, or leave it.
        """
        made: Decision | None = None
        names = [] if steered is None else await self._runs_of(steered)

        def decision(saved: At, folded: At, *more: At) -> dict[Key[Any], Decided]:
            nonlocal made
            made = None
            if once is not None:
                subject = self._core.subject(once[0], self.session_id)
                if not self._core.unsaved(subject, [once[1]], more[len(names)].folded):
                    return {}
            state = SessionState(self.session_id, saved.folded.state, lambda: folded.folded.state)
            found = Decision(state)
            if decide(found) is False:
                return {}
            made = found
            decided = {kind(self.session_id): Decided(each) for kind, each in made.drafts.items()}
            shard = self._core.subject(session.kind, self.session_id).shard
            if made.waiting:
                decided[list_key(self._core, shard)] = Decided(made.waiting)
            known = {name: at.folded.state for name, at in zip(names, more, strict=False)}
            if queued := queue_records(made, known):
                decided[list_key(self._core, shard, queues.kind)] = Decided(queued)
            return decided

        keys: list[Key[Any]] = [tasks.kind(self.session_id), session.kind(self.session_id)]
        keys += [runs.kind(self.session_id, name) for name in names]
        if once is not None:
            keys.append(once[0](self.session_id))
        await decide_drafts(self._core, keys, decision)
        if made is not None:
            events = made.telemetry
            self._core.after_stored(lambda: self.telemetry.emit(events))
            if (block := open_block(self._core)) is not None:
                self._core.after_stored(functools.partial(self._adopt, block))
        try:
            # A read that need not ask the log sees this store's own appends.
            await self._read("session")
        except LogUnavailable as error:
            ids = [each.id for drafts in made.drafts.values() for each in drafts] if made else []
            if not ids:
                raise
            # LogUnavailable would tell the caller that nothing was appended.
            raise AppendUnknown(ids, f"appended, but not read back: {error}") from error
        return made is not None

    async def _runs_of(self, task_id: str) -> list[str]:
        """The run of a task, and the one that may wait for it: of a run, the task it came from."""
        saved = (await read_session(self._store, self.session_id, "session")).saved.get(task_id)
        parent = None if saved is None else brief_of(saved.payload).parent_id
        return [task_id, parent] if parent and parent != task_id else [task_id]

    # The store's `redact=`, before anything is decided: updates, telemetry and the context's hash
    # are made of what the hook returns.

    def _redacted(
        self, method: str, type: str, about: Mapping[str, Any], values: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Values as the hook leaves them, each of the form that it had. Raises RedactionFailed."""
        about = {"session_id": self.session_id, **about}
        return self._core.redaction.alike(f"Session.{method}", type, about, values)

    def _redacted_field(self, method: str, task_id: str, **one: Any) -> Any:
        """One field of a task's change, as the hook leaves it."""
        [found] = self._redacted(method, tasks.CHANGED, {"task_id": task_id}, one).values()
        return found

    @drafting("patch")
    def _redacted_patch(self, method: str, patch_id: str, patch: ContextPatch) -> ContextPatch:
        """A patch as the hook leaves it; fields that a subclass adds are content, too."""
        if not self._core.redaction:
            return patch
        fields = dict(patch)
        content = {name: value for name, value in fields.items() if name not in _OF_A_PATCH}
        about = {"patch_id": patch_id, "task_id": patch.task_id}
        found = self._redacted(method, session.QUEUED, about, content)
        try:
            return type(patch).model_validate({**fields, **found}, by_alias=False, by_name=True)
        except ValidationError:
            reason = "what it left is no patch"
            # Without its cause, which quotes the patch.
            raise RedactionFailed(session.QUEUED, f"Session.{method}", reason) from None


def new_id(name: str, given: str | None) -> str:
    """A new id, or the one that was given. Raises InvalidId."""
    return secrets.token_hex(8) if given is None else checked_id(given, name)

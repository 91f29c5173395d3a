"""Reading and writing one session: what `Session` is made on."""

from __future__ import annotations

import functools
import secrets
from typing import Any

from foldlog.errors import AppendUnknown, LogUnavailable
from foldlog.kind import Key, Kind
from foldlog.sessions.decision import Decide, Decision
from foldlog.sessions.emitter import Emitter
from foldlog.sessions.redacting import Redacting
from foldlog.sessions.state import SessionState, read_session
from foldlog.sessions.telemetry import TaskTelemetrySink
from foldlog.store.block import Block, open_block
from foldlog.store.primitives import At, Decided
from foldlog.store.store import BaseStore
from foldlog.store.waiting import list_key
from foldlog.views import Consistency
from foldlog_projections import session, tasks
from foldlog_projections.session import State


class SessionWriter:
    """One session of a store: reads it, and appends what is decided on it."""

    def __init__(
        self, session_id: str, state_store: BaseStore, telemetry_sink: TaskTelemetrySink | None
    ) -> None:
        state_store.subject(session.kind, session_id)  # a bad id is refused before anything is read
        self.session_id = session_id
        self.worker = secrets.token_hex(8)
        self.telemetry = Emitter(telemetry_sink)
        self.calls = state_store.calls
        self._store = state_store
        self._redacting = Redacting(state_store.redaction, session_id)
        self._stored = SessionState(session_id, {}, State())
        self._in_block: tuple[Block, SessionState] | None = None

    @property
    def _seen(self) -> SessionState:
        """What the last call saw. What it saw in a block counts outside once that is stored."""
        seen = self._in_block
        return seen[1] if seen and seen[0] is open_block(self._store) else self._stored

    async def _read(self, consistency: Consistency) -> SessionState:
        """Look at the session, and return it as its views hold it: nothing is copied."""
        found = await read_session(self._store, self.session_id, consistency)
        block = open_block(self._store)
        if block is None:
            self._stored = found
        else:
            self._in_block = block, found
        return found

    def _adopt(self, block: Block) -> None:
        """Have what was seen in a block count outside: it is stored."""
        seen = self._in_block
        if seen is not None and seen[0] is block:
            self._stored, self._in_block = seen[1], None

    async def _write(self, decide: Decide, *, once: tuple[Kind[Any], str] | None = None) -> bool:
        """Append what is decided, all of it or nothing; return False if nothing was to be decided.

        Args:
            once: a third kind of the session's, and an id. If that view holds the id, nothing is
                decided; and nobody writes to it between the decision and the append.

        Raises:
            AppendConflict: others wrote all the time.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: see `foldlog.errors`.
        """
        made: Decision | None = None

        def decision(saved: At, folded: At, third: At | None = None) -> dict[Key[Any], Decided]:
            nonlocal made
            made = None
            if third is not None and once is not None and once[1] in third.folded.seen:
                return {}
            found = Decision(SessionState(self.session_id, saved.folded.state, folded.folded.state))
            if decide(found) is False:
                return {}
            made = found
            decided = {kind(self.session_id): Decided(each) for kind, each in made.drafts.items()}
            if made.waiting:
                shard = self._store.subject(session.kind, self.session_id).shard
                decided[list_key(self._store, shard)] = Decided(made.waiting)
            return decided

        kinds: list[Kind[Any]] = [tasks.kind, session.kind]
        if once is not None:
            kinds.append(once[0])
        await self._store.decide_drafts([kind(self.session_id) for kind in kinds], decision)
        if made is not None:
            told = made.telemetry
            self._store.after_stored(lambda: self.telemetry.emit(told))
            if (block := open_block(self._store)) is not None:
                self._store.after_stored(functools.partial(self._adopt, block))
        try:
            # Own appends are seen by a read that need not ask the log.
            await self._read("session")
        except LogUnavailable as error:
            ids = [each.id for drafts in made.drafts.values() for each in drafts] if made else []
            if not ids:
                raise
            # A caller that hears that the log is away would believe that nothing was appended.
            raise AppendUnknown(ids, f"appended, but not read back: {error}") from error
        return made is not None

"""Spans into a store: each an event of its trace, and each trace in the sessions that it names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from foldlog import codec, kinds
from foldlog.batches import in_batches
from foldlog.errors import (
    ConfigurationError,
    InvalidId,
    PayloadError,
    PayloadTooLarge,
    RedactionFailed,
    SessionHasForks,
)
from foldlog.kind import Kind
from foldlog.models import StoredEvent
from foldlog.opening import Store
from foldlog.otlp.mapping import Mapped, mapped, operation, refusal
from foldlog.otlp.spans import Span
from foldlog.otlp.wire import TooMany
from foldlog_projections.traces import TraceSaved

_REFUSED: Final = (InvalidId, PayloadError, PayloadTooLarge, RedactionFailed)
"""What is wrong with a span, and not with the store: sending it again would not help."""

_OURS: Final = "otlp:"
"""How the content of a listing begins that no trajectory has made."""

_KNOWN: Final = 10_000
"""Traces whose sessions stay in memory. The events of others name theirs."""

MAX_TRACES: Final = 2_000
"""Traces of a batch at most: each is looked up in the log."""

_SLICE: Final = 16
"""Events that are saved, or views that are read, before other requests have their turn."""

_SHORT: Final = 1_000
"""Characters that a text of a span keeps which is too large as a whole."""


class Outcome(NamedTuple):
    """What became of a batch: how many spans were refused, and what its sender should know."""

    refused: int
    message: str


class _Several(Exception):
    """A session's list of traces has others, too."""


class Receiver:
    """Takes batches of spans into one store. Taking a batch again has no effect.

    Args:
        everything: also keeps spans that say nothing of generative AI.
    """

    def __init__(self, store: Store, *, everything: bool = False) -> None:
        self._store = store
        self._everything = everything
        self._known: dict[str, frozenset[str]] = {}
        self._placed = asyncio.Condition()
        self._placing = set[str]()

    def map(self, spans: Iterable[Span]) -> tuple[list[Mapped], list[str]]:
        """Return the spans to save, and why others are refused. Needs no event loop."""
        kept, refused = [], []
        for span in spans:
            if (reason := refusal(span)) is not None:
                refused.append(reason)
            elif self._everything or operation(span.attributes) is not None:
                kept.append(mapped(span))
        return sorted(kept, key=lambda each: each.event.ts), refused

    async def take(self, found: Sequence[Mapped], refused: Sequence[str]) -> Outcome:
        """Store what `map` has made. When it returns, all but the refused is on the log.

        Raises:
            TooMany: it has too many traces; nothing was stored.
            LogUnavailable, AppendFailed, AppendUnknown: some may be missing; take all again.
        """
        if len({each.event.trace_id for each in found}) > MAX_TRACES:
            raise TooMany(MAX_TRACES, "traces")
        async with self._alone({str(each.event.trace_id) for each in found}):
            await self._place(found)
        reasons, shortened = [*refused], list[str]()
        for some in in_batches(found, _SLICE):
            reasons += await self._save(some, shortened)
        said = [f"{len(reasons)} refused: {reasons[0]}"] if reasons else []
        said += [f"{len(shortened)} shortened: {shortened[0]}"] if shortened else []
        return Outcome(len(reasons), "; ".join(said))

    # --- events -----------------------------------------------------------------------------------

    async def _save(self, found: Sequence[Mapped], shortened: list[str]) -> list[str]:
        """Save events; return why some of them are refused."""
        if not found:
            return []
        try:
            await self._store.save_events(
                [each.event for each in found], ids=[each.id for each in found]
            )
        except _REFUSED as error:
            if len(found) > 1:
                half = len(found) // 2
                first = await self._save(found[:half], shortened)
                return first + await self._save(found[half:], shortened)
            short = shorten(found[0].event)
            if not isinstance(error, PayloadTooLarge) or short == found[0].event:
                return [str(error)]
            shortened.append(str(error))
            return await self._save([found[0]._replace(event=short)], shortened)
        return []

    # --- sessions ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def _alone(self, traces: set[str]) -> AsyncIterator[None]:
        """Place traces while no other batch places one of them."""
        async with self._placed:
            await self._placed.wait_for(lambda: not self._placing & traces)
            self._placing |= traces
        try:
            yield
        finally:
            async with self._placed:
                self._placing -= traces
                self._placed.notify_all()

    async def _place(self, found: Sequence[Mapped]) -> None:
        """List the traces of a batch in their sessions, before their events are saved.

        So an erasure of the session reaches all that is on the log, whenever a receiver is killed.
        """
        by_trace: dict[str, set[str]] = {}
        spans: dict[str, list[str]] = {}
        for id, session_id, event in found:
            trace_id = str(event.trace_id)
            if event.kind == "otel.span" and session_id is None:
                continue  # what is no span of generative AI makes no session
            spans.setdefault(trace_id, []).append(id)
            by_trace.setdefault(trace_id, set()).update([session_id] if session_id else [])
        by_session: dict[str, dict[str, str]] = {}
        for trace_id, sessions in (await self._sessions_of(by_trace)).items():
            # A session that was erased refuses a listing of content that it has had.
            content = _OURS + codec.fingerprint(tuple(spans[trace_id]))
            for session_id in sessions:
                by_session.setdefault(session_id, {})[trace_id] = content
        for session_id, contents in by_session.items():
            await self._list(session_id, contents)

    async def _list(self, session_id: str, contents: dict[str, str]) -> None:
        """List traces as the last ones of a session; the trajectory of one stays its own."""

        def listings(listed: dict[str, str]) -> list[TraceSaved]:
            kept = {id: old for id, old in listed.items() if not old.startswith(_OURS)}
            return [TraceSaved(id, kept.get(id, content)) for id, content in contents.items()]

        await self._store.decide(kinds.traces(session_id), listings, copy=False)

    async def _sessions_of(self, by_trace: dict[str, set[str]]) -> dict[str, frozenset[str]]:
        """The sessions that traces belong to: those that spans name, else one of the trace's own.

        Args:
            by_trace: the sessions that the spans of this batch name.
        """
        known = {id: self._known[id] for id in by_trace if id in self._known}
        silent = [id for id, named in by_trace.items() if not named and id not in known]
        for id, history in zip(silent, await self._views(kinds.events, silent), strict=True):
            payloads = (each.payload for each in history)  # of anything that a hook has made
            said = (each.get("session_id") for each in payloads if isinstance(each, dict))
            known[id] = frozenset(each for each in said if isinstance(each, str) and each)
        found: dict[str, frozenset[str]] = {}
        moved: list[str] = []
        for id, named in by_trace.items():
            others = known.get(id, frozenset()) - {id}
            found[id] = others | named or frozenset({id})
            if named and not others:
                moved.append(id)
        for id, listed in zip(moved, await self._views(kinds.traces, moved), strict=True):
            if id in listed and id not in found[id]:
                await self._leave(id)  # where it stood until a span named its session
        for id, sessions in found.items():
            self._known.pop(id, None)
            self._known[id] = sessions
        while len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        return found

    async def _views(self, kind: Kind[Any], ids: Sequence[str]) -> list[Any]:
        found = list[Any]()
        for start in range(0, len(ids), _SLICE):
            keys = [kind(id) for id in ids[start : start + _SLICE]]
            found += await self._store.views(keys, consistency="strong")
        return found

    async def _leave(self, trace_id: str) -> None:
        """Take a trace off the session that is called after it, if that holds nothing else."""

        def check(listed: dict[str, str]) -> None:
            if [*listed] != [trace_id]:
                raise _Several

        try:
            await self._store.erase(kinds.traces(trace_id), overwrite=False, check=check)
        except (_Several, SessionHasForks, ConfigurationError):
            return  # it is in use; or the server denies deleting, and the trace is listed twice


def shorten(event: StoredEvent) -> StoredEvent:
    """An event that is too large, without what makes it so: `left_out` names it."""
    payload: dict[str, Any] = {}
    for name, value in event.payload.items():
        if isinstance(value, str):
            payload[name] = value[:_SHORT]
        elif isinstance(value, int | float) or name in ("usage", "finish_reasons"):
            payload[name] = value
    payload["left_out"] = sorted(event.payload.keys() - payload.keys())
    return StoredEvent(
        event.trace_id,
        event.ts,
        event.kind[:_SHORT],
        (event.node_name or "")[:_SHORT] or None,
        event.node_id,
        payload,
    )

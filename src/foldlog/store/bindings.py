"""Remote bindings: which remote worker a trace is with (specification 2.11, section 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from foldlog.errors import Misuse
from foldlog.models import RemoteBinding
from foldlog.store.belonging import append_of_session
from foldlog.store.core import Capability
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import ID, MAPPING, Mapper
from foldlog.subjects import checked_id
from foldlog.views import Consistency
from foldlog_projections import bindings, routes
from foldlog_projections.bindings import BindingSaved, Bound, Key
from foldlog_projections.routes import Route

BINDINGS: Final = Mapper("binding", RemoteBinding, BindingSaved, task_id=ID, metadata=MAPPING)


class Bindings(Capability):
    """Bindings by trace, with an index by the router session that made them."""

    @operation(nothing, writes=True)
    async def save_remote_binding(
        self, binding: RemoteBinding, *, session_id: str | None = None
    ) -> None:
        """Save a binding. The last save of (trace, context, task) stands.

        Args:
            binding: the binding.
            session_id: the session that all bindings of the trace belong to, and are cleared with.
                The bindings of a session's own traces need none.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
        """
        record = BINDINGS.record(binding)
        saved = bindings.kind(record.trace_id)
        appends = [self._core.drafts("save_remote_binding", saved, record)]
        if record.router_session_id is not None:
            key = routes.kind(record.router_session_id)
            route = Route(record.trace_id, record.context_id, record.task_id)
            appends.append(self._core.drafts("save_remote_binding", key, route))
        await append_of_session(self._core, session_id, saved, *appends)

    @operation(list)
    async def list_bindings(
        self,
        *,
        router_session_id: str | None = None,
        trace_id: str | None = None,
        consistency: Consistency = "strong",
    ) -> list[RemoteBinding]:
        """Return the bindings of a router session, or of a trace, in the order of their first save.

        Args:
            router_session_id: the session of the router; [] for an unknown one.
            trace_id: the trace, in place of a session; [] for an unknown one.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            Misuse: both are given, or neither.
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        if trace_id is not None and router_session_id is None:
            of_trace = await self._core.read(bindings.kind, trace_id, consistency=consistency)
            return [_binding(bound) for bound in of_trace.state.values()]
        if trace_id is not None or router_session_id is None:
            raise Misuse("list_bindings takes router_session_id= or trace_id=: one of them")
        folded = await self._core.read(routes.kind, router_session_id, consistency=consistency)
        return await self._resolve_routes(list(folded.state), router_session_id, consistency)

    @operation(nothing)
    async def find_binding(
        self,
        *,
        router_session_id: str,
        agent_url: str,
        remote_skill: str,
        tenant_id: str | None = None,
        user_id: str | None = None,
        consistency: Consistency = "strong",
    ) -> RemoteBinding | None:
        """Return the matching binding that was saved last and has not ended, or None.

        A binding of a tenant never matches a caller that names no tenant; users are alike.

        Args:
            router_session_id: the session of the router.
            agent_url: where the remote agent is.
            remote_skill: which of its skills.
            tenant_id: must be the binding's, None included.
            user_id: must be the binding's, None included.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        folded = await self._core.read(routes.kind, router_session_id, consistency=consistency)
        newest_first = sorted(folded.state, key=folded.state.__getitem__, reverse=True)
        wanted = (agent_url, remote_skill, tenant_id, user_id)
        for binding in await self._resolve_routes(newest_first, router_session_id, consistency):
            found = (binding.agent_url, binding.remote_skill, binding.tenant_id, binding.user_id)
            if found == wanted and not binding.is_terminal:
                return binding
        return None

    @operation(nothing, writes=True)
    async def mark_binding_terminal(
        self, *, trace_id: str, context_id: str | None, task_id: str
    ) -> None:
        """End a binding, so that `find_binding` passes it over. An unknown one is left alone.

        Args:
            trace_id: whose binding.
            context_id: its context, or None.
            task_id: its remote task.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
        """
        # Without a look at what there is, which may still wait in the spool: see the fold.
        ended = Key(context_id, checked_id(task_id, "task_id"))
        key = bindings.kind(trace_id)
        await self._core.append_drafts(self._core.drafts("mark_binding_terminal", key, ended))

    async def _resolve_routes(
        self, routes_: Iterable[Route], router_session_id: str, consistency: Consistency
    ) -> list[RemoteBinding]:
        """The bindings at the end of routes, without those that now belong to another session."""
        wanted = list(routes_)
        traces = list(dict.fromkeys(route.trace_id for route in wanted))
        folds = await asyncio.gather(
            *(self._core.read(bindings.kind, trace, consistency=consistency) for trace in traces)
        )
        by_trace = dict(zip(traces, folds, strict=True))
        found = (by_trace[r.trace_id].state.get(Key(r.context_id, r.task_id)) for r in wanted)
        resolved = [_binding(bound) for bound in found if bound is not None]
        return [b for b in resolved if b.router_session_id == router_session_id]


def _binding(bound: Bound) -> RemoteBinding:
    binding = BINDINGS.restore(bound.saved)
    binding.is_terminal = binding.is_terminal or bound.ended
    return binding

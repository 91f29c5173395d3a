"""Remote bindings: which remote worker a trace is with (specification 2.11, section 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from foldlog.envelope import Draft, Recorded
from foldlog.models import RemoteBinding
from foldlog.store.guards import drafting, restoring
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import encode, load, mapping
from foldlog.store.primitives import Primitives
from foldlog.subjects import Subject, checked_id
from foldlog.views import Consistency
from foldlog_projections import bindings, routes
from foldlog_projections.bindings import BindingSaved, Bound, Key
from foldlog_projections.routes import Route


class Bindings(Primitives):
    """Bindings by trace, with an index by the router session that made them."""

    @operation(nothing, writes=True)
    async def save_remote_binding(self, binding: RemoteBinding) -> None:
        """Save a binding; the last save of (trace, context, task) stands.

        Raises:
            InvalidId: the trace, task or router session id is empty.
            PayloadError: a field cannot be held. Nothing was appended.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        await self.append_drafts(*self._binding_drafted(binding))

    @drafting("binding")
    def _binding_drafted(self, binding: RemoteBinding) -> list[tuple[Subject, list[Draft]]]:
        record = BindingSaved(
            trace_id=binding.trace_id,
            context_id=binding.context_id,
            task_id=checked_id(binding.task_id, "task_id"),
            agent_url=binding.agent_url,
            router_session_id=binding.router_session_id,
            remote_skill=binding.remote_skill,
            tenant_id=binding.tenant_id,
            user_id=binding.user_id,
            last_remote_task_id=binding.last_remote_task_id,
            is_terminal=binding.is_terminal,
            metadata=mapping(binding.metadata, "metadata"),
        )
        saved = self.drafted("save_remote_binding", bindings.kind(binding.trace_id), record)
        appends = [(self.subject(bindings.kind, binding.trace_id), [saved])]
        if binding.router_session_id is not None:
            index = self.subject(routes.kind, binding.router_session_id)
            route = Route(binding.trace_id, binding.context_id, binding.task_id)
            appends.append((index, [encode(routes.kind, route)]))
        return appends

    @operation(list)
    async def list_trace_bindings(
        self, trace_id: str, *, consistency: Consistency = "session"
    ) -> list[RemoteBinding]:
        """Return a trace's bindings in the order of their first save; [] for an unknown trace.

        Errors as `load_history`.
        """
        folded = await self.read(bindings.kind, trace_id, consistency=consistency)
        return [_binding(bound) for bound in folded.state.values()]

    @operation(list)
    async def list_bindings(
        self, *, router_session_id: str, consistency: Consistency = "strong"
    ) -> list[RemoteBinding]:
        """Return the bindings that a router session made, in the order of their first save.

        Errors as `load_history`.
        """
        folded = await self.read(routes.kind, router_session_id, consistency=consistency)
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
        """Return the binding saved last that fits and has not ended, or None.

        Tenant and user must be the same on both sides, None included: a binding of a tenant is
        never handed to a caller who names none.

        Errors as `load_history`.
        """
        folded = await self.read(routes.kind, router_session_id, consistency=consistency)
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

        Errors as `save_remote_binding`.
        """
        # Without a look at what there is, which may still wait in the spool: see the fold.
        ended = encode(bindings.kind, Key(context_id, checked_id(task_id, "task_id")))
        await self.append_drafts((self.subject(bindings.kind, trace_id), [ended]))

    async def _resolve_routes(
        self, routes_: Iterable[Route], router_session_id: str, consistency: Consistency
    ) -> list[RemoteBinding]:
        """The bindings at the end of routes, without those that now belong to another session."""
        wanted = list(routes_)
        traces = list(dict.fromkeys(route.trace_id for route in wanted))
        folds = await asyncio.gather(
            *(self.read(bindings.kind, trace, consistency=consistency) for trace in traces)
        )
        by_trace = dict(zip(traces, folds, strict=True))
        found = (by_trace[r.trace_id].state.get(Key(r.context_id, r.task_id)) for r in wanted)
        resolved = [_binding(bound) for bound in found if bound is not None]
        return [b for b in resolved if b.router_session_id == router_session_id]


def _binding(bound: Bound) -> RemoteBinding:
    binding = _saved_binding(bound.saved)
    binding.is_terminal = binding.is_terminal or bound.ended
    return binding


@restoring
def _saved_binding(item: Recorded) -> RemoteBinding:
    saved = load(BindingSaved, item.payload)
    return RemoteBinding(
        trace_id=saved.trace_id,
        context_id=saved.context_id,
        task_id=saved.task_id,
        agent_url=saved.agent_url,
        router_session_id=saved.router_session_id,
        remote_skill=saved.remote_skill,
        tenant_id=saved.tenant_id,
        user_id=saved.user_id,
        last_remote_task_id=saved.last_remote_task_id,
        is_terminal=saved.is_terminal,
        metadata=saved.metadata,
    )

"""Remote bindings: which remote worker a trace is with (specification 2.11, section 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from foldlog.envelope import Draft, Recorded, draft, upsert_id
from foldlog.models import RemoteBinding
from foldlog.store.guards import drafting, restoring
from foldlog.store.journal import Journal
from foldlog.store.payloads import BindingSaved, dump, load, mapping
from foldlog.subjects import Subject, checked_id
from foldlog.views import Consistency
from foldlog_projections import bindings, routes
from foldlog_projections.bindings import Bound, Key
from foldlog_projections.routes import Route


class Bindings:
    """Bindings by trace, with an index by the router session that made them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def save_remote_binding(self, binding: RemoteBinding) -> None:
        """Save a binding; the last save of (trace, context, task) stands.

        Raises:
            InvalidId: the trace, task or router session id is empty.
            PayloadError: a field cannot be held. Nothing was appended.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        await self._journal.append(*self._drafted(binding))

    @drafting("binding")
    def _drafted(self, binding: RemoteBinding) -> list[tuple[Subject, list[Draft]]]:
        body = dump(
            BindingSaved(
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
            ),
            "metadata",
        )
        subject = self._journal.subject(bindings, binding.trace_id)
        appends = [(subject, [draft("binding.saved", body, id=upsert_id(body))])]
        if binding.router_session_id is not None:
            index = self._journal.subject(routes, binding.router_session_id)
            route = dump(Route(binding.trace_id, binding.context_id, binding.task_id))
            appends.append((index, [draft("route.saved", route, id=upsert_id(route))]))
        return appends

    async def list_trace_bindings(
        self, trace_id: str, *, consistency: Consistency = "session"
    ) -> list[RemoteBinding]:
        """Return a trace's bindings in the order of their first save; [] for an unknown trace.

        Errors as `Events.load_history`.
        """
        folded = await self._journal.read(bindings, trace_id, consistency=consistency)
        return [_binding(bound) for bound in folded.state.values()]

    async def list_bindings(
        self, *, router_session_id: str, consistency: Consistency = "strong"
    ) -> list[RemoteBinding]:
        """Return the bindings that a router session made, in the order of their first save.

        Errors as `Events.load_history`.
        """
        folded = await self._journal.read(routes, router_session_id, consistency=consistency)
        return await self._resolve(list(folded.state), router_session_id, consistency)

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

        Errors as `Events.load_history`.
        """
        folded = await self._journal.read(routes, router_session_id, consistency=consistency)
        newest_first = sorted(folded.state, key=folded.state.__getitem__, reverse=True)
        wanted = (agent_url, remote_skill, tenant_id, user_id)
        for binding in await self._resolve(newest_first, router_session_id, consistency):
            found = (binding.agent_url, binding.remote_skill, binding.tenant_id, binding.user_id)
            if found == wanted and not binding.is_terminal:
                return binding
        return None

    async def mark_binding_terminal(
        self, *, trace_id: str, context_id: str | None, task_id: str
    ) -> None:
        """End a binding, so that `find_binding` passes it over. An unknown one is left alone.

        Errors as `save_remote_binding`.
        """
        # Without a look at what there is, which may still wait in the spool: see the fold.
        body = dump(Key(context_id, checked_id(task_id, "task_id")))
        ended = draft(bindings.TERMINAL, body, id=upsert_id(body))
        await self._journal.append((self._journal.subject(bindings, trace_id), [ended]))

    async def _resolve(
        self, routes_: Iterable[Route], router_session_id: str, consistency: Consistency
    ) -> list[RemoteBinding]:
        """The bindings at the end of routes, without those that now belong to another session."""
        wanted = list(routes_)
        traces = list(dict.fromkeys(route.trace_id for route in wanted))
        folds = await asyncio.gather(
            *(self._journal.read(bindings, trace, consistency=consistency) for trace in traces)
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

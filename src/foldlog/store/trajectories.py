"""Trajectories: a trace's planner run, and a session's traces (specification 2.11, section 10)."""

from __future__ import annotations

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog.models import Trajectory
from foldlog.store.core import Capability
from foldlog.store.operation import nothing, operation
from foldlog.store.ownership import lineage_of, origin_log
from foldlog.store.payloads import drafting, encode
from foldlog.store.primitives import checked_limit
from foldlog.store.restoring import load, restoring
from foldlog.subjects import checked_id
from foldlog.views import Consistency, refold
from foldlog_projections import traces, trajectory as trajectories
from foldlog_projections.traces import TraceSaved
from foldlog_projections.trajectory import TrajectorySaved


class Trajectories(Capability):
    """Trajectories by session and trace."""

    @operation(nothing, writes=True)
    async def save_trajectory(self, trace_id: str, session_id: str, trajectory: Trajectory) -> None:
        """Save a trajectory. The last save of a trace in a session stands.

        Args:
            trace_id: the trace that it is of.
            session_id: the session that the trace belongs to.
            trajectory: the whole trajectory.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
        """
        method = "save_trajectory"
        key = trajectories.kind(session_id, checked_id(trace_id, "trace_id"))
        subject = self._core.subject(key.kind, *key.keys)
        with drafting("trajectory"):
            record = self._core.redacted(method, key, TrajectorySaved(trajectory.serialise()))
            Trajectory.from_serialised(record.trajectory)  # what cannot be read back is not saved
        saved = encode(key.kind, record)
        # The trajectory first: a trace is listed only if there is something to get.
        entry = TraceSaved(trace_id, codec.digest(saved.payload))
        listed = self._core.drafts(method, traces.kind(session_id), entry)
        await self._core.append_drafts((subject, [saved]), listed)

    @operation(nothing)
    async def get_trajectory(
        self, trace_id: str, session_id: str, *, consistency: Consistency = "session"
    ) -> Trajectory | None:
        """Return a trace's trajectory, or None if it is unknown or of another session.

        Args:
            trace_id: the trace that it is of.
            session_id: the session that the trace belongs to.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        key = trajectories.kind(session_id, trace_id)
        saved = (await self._core.read(key.kind, *key.keys, consistency=consistency)).state
        while saved is None and (origin := (await lineage_of(self._core, session_id)).shared):
            # A fork that was made before forks shared trajectories by themselves.
            session_id, log = origin.session_id, origin_log(self._core, origin)
            subject = self._core.subject(trajectories.kind, session_id, trace_id)
            saved = (await refold(log, trajectories.kind, subject)).state
        return None if saved is None else _trajectory(saved)

    @operation(list)
    async def list_traces(
        self, session_id: str, limit: int = 50, *, consistency: Consistency = "session"
    ) -> list[str]:
        """Return a session's trace ids, the one whose trajectory was saved last first.

        Traces of received spans are among them, and may have no trajectory.

        Args:
            session_id: whose traces.
            limit: how many traces at most.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: `limit` is no integer.
        """
        folded = await self._core.read(traces.kind, session_id, consistency=consistency)
        return list(reversed(folded.state))[: max(checked_limit(limit), 0)]


@restoring
def _trajectory(item: Recorded) -> Trajectory:
    return Trajectory.from_serialised(load(TrajectorySaved, item.payload).trajectory)

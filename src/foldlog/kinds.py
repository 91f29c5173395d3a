"""The built-in kinds, for views and watchers of them and for kinds that fold their records.

    costs = foldlog.Kind("costs", of=foldlog.kinds.events, fold=foldlog.Fold(dict, add))
    async for item in store.watch(foldlog.kinds.tasks("trip")): ...

Their records are as `docs/reference/log-format.md` says. The store's methods append to them.
"""

from __future__ import annotations

from foldlog_projections.artifacts import kind as artifacts
from foldlog_projections.belongings import kind as belongings
from foldlog_projections.bindings import kind as bindings
from foldlog_projections.events import kind as events
from foldlog_projections.langgraph.checkpoints import kind as checkpoints
from foldlog_projections.memory import kind as memory
from foldlog_projections.messages import kind as messages
from foldlog_projections.pauses import kind as pauses
from foldlog_projections.planner import kind as planner
from foldlog_projections.runs.runs import kind as runs
from foldlog_projections.steering import kind as steering
from foldlog_projections.streams import kind as streams
from foldlog_projections.tasks import kind as tasks
from foldlog_projections.traces import kind as traces
from foldlog_projections.trajectory import kind as trajectory
from foldlog_projections.updates import kind as updates

__all__ = [
    "artifacts",
    "belongings",
    "bindings",
    "checkpoints",
    "events",
    "memory",
    "messages",
    "pauses",
    "planner",
    "runs",
    "steering",
    "streams",
    "tasks",
    "traces",
    "trajectory",
    "updates",
]

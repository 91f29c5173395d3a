"""The questions, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from benchmarks.bench import Bench
from benchmarks.scenarios import (
    agents,
    archive,
    bulk,
    checkpoints,
    cold,
    durable,
    frameworks,
    keyed,
    langgraph,
    memory,
    one_save,
    page,
    projectors,
    reads,
    rebuild,
    replicated,
    saves,
    scoped,
    shards,
    sql,
    steering,
    streams,
    workers,
)

SCENARIOS: Final[dict[str, Callable[[Bench], Awaitable[None]]]] = {
    "saves": saves.run,
    "shards": shards.run,
    "one-save": one_save.run,
    "bulk": bulk.run,
    "reads": reads.run,
    "keyed": keyed.run,
    "cold": cold.run,
    "archive": archive.run,
    "rebuild": rebuild.run,
    "checkpoints": checkpoints.run,
    "agents": agents.run,
    "langgraph": langgraph.run,
    "frameworks": frameworks.run,
    "scoped": scoped.run,
    "durable": durable.run,
    "durable-openai": durable.run_openai,
    "workers": workers.run,
    "sleepers": workers.run_asleep,
    "steering": steering.run,
    "streams": streams.run,
    "page": page.run,
    "projectors": projectors.run,
    "sql": sql.run,
    "memory": memory.run,
    # Last: its three servers stay up until the run ends.
    "replicated": replicated.run,
}

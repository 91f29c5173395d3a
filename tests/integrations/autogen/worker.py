"""AutoGen in another process. Run as a script; says one JSON value per line.

worker.py PATH NAMESPACE WHAT RUN OPTIONS

WHAT is "writers" or "helpers" (agents on a runtime), "round robin", "selector" or "swarm" (teams).
It goes on from the last checkpoint of the run, if there is one. OPTIONS is a JSON object:

    halt: [WHERE, WHAT]   says so when it comes there, and waits for a line of input

At its end it says ["end", ...]: what the agents have done by name, or who said what.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from autogen_core import DefaultTopicId, SingleThreadedAgentRuntime

import foldlog
from foldlog.integrations.autogen import RuntimeCheckpoints, TeamCheckpoints
from tests.integrations.autogen.agents import (
    Draft,
    Halt,
    Work,
    lines_of,
    make_team,
    register_helpers,
    register_writers,
)


def say(*value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def halting(options: dict[str, Any]) -> Halt:
    async def halt(where: str, what: str) -> None:
        say(where, what)
        if options.get("halt") == [where, what]:
            say("halted")
            await asyncio.to_thread(sys.stdin.readline)

    return halt


async def run_agents(store: foldlog.Store, what: str, run_id: str, halt: Halt) -> None:
    runtime = SingleThreadedAgentRuntime()
    checkpoints = RuntimeCheckpoints(store, run_id)
    async with checkpoints.attached(runtime):
        await (register_writers if what == "writers" else register_helpers)(runtime, halt)
        restored = await checkpoints.restore()
        runtime.start()
        if restored is None:
            first = Draft("begin", 1) if what == "writers" else Work(1)
            topic = "ann" if what == "writers" else "work"
            await runtime.publish_message(first, DefaultTopicId(type=topic))
        await runtime.stop_when_idle()
        state = await runtime.save_state()
    say("end", {agent_id: held["done"] for agent_id, held in sorted(state.items())})


async def run_team(store: foldlog.Store, kind: str, run_id: str, halt: Halt) -> None:
    runtime = SingleThreadedAgentRuntime()
    said = await TeamCheckpoints(store, run_id).transcript()
    team, condition = make_team(runtime, said, kind=kind, halt=halt)
    checkpoints = await TeamCheckpoints.attach(store, run_id, team, runtime, condition)
    runtime.start()
    restored = await checkpoints.restore()
    result = await checkpoints.run(task="a poem" if restored is None else None)
    await runtime.stop_when_idle()
    say("end", result.stop_reason, lines_of(await checkpoints.transcript()))


async def main(path: str, namespace: str, what: str, run_id: str, options: str) -> None:
    halt = halting(json.loads(options))
    async with foldlog.connect(path=path, namespace=namespace) as store:
        run = run_agents if what in ("writers", "helpers") else run_team
        await run(store, what, run_id, halt)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""A process that runs a pipeline. Run as a script; speaks one JSON value per line.

worker.py PATH NAMESPACE STATE EFFECTS OPTIONS

Every step appends its name to the file EFFECTS when it really happens, and is told as
["did", NAME]. OPTIONS is a JSON object:

    halt_in: NAME      says ["in", NAME] when that step has had its effect, and hears a line
                       before it returns; whoever never writes one can kill it there
    halt_after: NAME   the same, when the step is on record: ["after", NAME]
    ask: true          asks the user before it pays
    checkpoint: true   saves a checkpoint before it halts after a step
    auto: true         saves checkpoints by itself
    mode, resume_from, tags, fare: as their names say
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from foldlog.integrations.rh_agents import StateBackend
from foldlog.runs import RunPaused, StepUnknown

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

import foldlog
from foldlog.integrations.rh_agents import (
    AutoCheckpointConfig,
    EventType,
    Execution,
    ReplayMode,
    StateMetadata,
)

OFFERS = b"offer " * 100_000
"""What searching finds: large enough to be an artifact."""


def say(*value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


class Pipeline:
    """Search, pick, perhaps ask, pay."""

    def __init__(self, effects: Path, options: dict[str, Any]) -> None:
        self.effects = effects
        self.options = options

    async def __call__(self, run: Execution) -> dict[str, Any]:
        offers = await self.do(run, "search", OFFERS, event_type=EventType.LLM, artifact=True)
        run.storage["offers"] = len(offers)
        fare = {"seat": "12A", "fare": self.options.get("fare", 100)}
        picked = await self.do(run, "pick", fare, event_type=EventType.TOOL)
        run.storage["seat"] = picked["seat"]
        await self.halt_after(run, "pick")
        answer = await run.ask("approve", picked) if self.options.get("ask") else "unasked"
        paid = await self.do(run, "pay", {"answer": answer})
        await self.halt_after(run, "pay")
        return {"offers": len(offers), "picked": picked, "paid": paid}

    async def do(self, run: Execution, name: str, result: Any, **options: Any) -> Any:
        return await run.step(name, self.effect(name, result), **options)

    def effect(self, name: str, result: Any) -> Callable[[], Awaitable[Any]]:
        async def step() -> Any:
            with self.effects.open("a") as file:
                file.write(f"{name}\n")
            say("did", name)
            if self.options.get("halt_in") == name:
                await halt("in", name)
            return result

        return step

    async def halt_after(self, run: Execution, name: str) -> None:
        if self.options.get("halt_after") == name:
            if self.options.get("checkpoint"):
                await run.save_checkpoint()
            await halt("after", name)


async def halt(where: str, name: str) -> None:
    say(where, name)
    await asyncio.to_thread(sys.stdin.readline)


async def main(path: str, namespace: str, state_id: str, effects: str, given: str) -> None:
    options = json.loads(given)
    tags = options.get("tags")
    async with foldlog.connect(path=path, namespace=namespace) as store:
        execution = StateBackend(store).execution(
            state_id,
            metadata=StateMetadata(tags=tags, pipeline_name="booking") if tags else None,
            replay_mode=ReplayMode(options.get("mode", "normal")),
            resume_from_address=options.get("resume_from"),
            auto_checkpoint_config=AutoCheckpointConfig(enabled=options.get("auto", False)),
        )
        try:
            async with execution as run:
                result = await Pipeline(Path(effects), options)(run)
            say("done", result)
        except RunPaused as paused:
            say("paused", paused.step, paused.question)
        except StepUnknown as unknown:
            say("stuck", unknown.step)
        except foldlog.AppendConflict:
            say("conflict")
        if execution.validation.compared:
            say("mismatches", *([m.address, m.path] for m in execution.validation.mismatches))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""PenguiFlow in another process. Run as a script; says one JSON value per line.

worker.py PATH NAMESPACE pause SESSION TRACE    runs a planner until it pauses; says the token
worker.py PATH NAMESPACE resume TOKEN ANSWER    resumes it; says what it answers, or "gone"
worker.py PATH NAMESPACE talk SESSION QUERY     one turn with short-term memory; says "ok"
worker.py PATH NAMESPACE work SESSION           a session whose background task finishes, and one
                                                that never does; says what it has done so far
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from penguiflow.planner import PlannerPause
from penguiflow.planner.memory import ShortTermMemoryConfig
from penguiflow.sessions import SessionManager, TaskResult, TaskType, UpdateType

from foldlog.integrations.penguiflow import PenguiFlowStateStore
from tests.integrations.penguiflow.agents import answer, call, context, planner


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def pause(store: PenguiFlowStateStore, session: str, trace: str) -> None:
    agent, _ = planner(
        store, call("echo", text="first"), call("ask", text="really?"), pause_enabled=True
    )
    paused = await agent.run("do it", tool_context=context(session, trace))
    assert isinstance(paused, PlannerPause)
    say(paused.resume_token)


async def resume(store: PenguiFlowStateStore, token: str, reply: str) -> None:
    agent, script = planner(
        store, call("echo", text="second"), answer("all done"), pause_enabled=True
    )
    try:
        finished = await agent.resume(token, user_input=reply)
    except KeyError:
        say("gone")
        return
    say({"answer": finished.payload["raw_answer"], "was_told": reply in script.heard[0]})


async def talk(store: PenguiFlowStateStore, session: str, query: str) -> None:
    memory = ShortTermMemoryConfig(strategy="truncation")
    agent, _ = planner(store, answer(f"you said {query}"), short_term_memory=memory)
    await agent.run(query, tool_context=context(session, f"trace of {query}"))
    say("ok")


async def work(store: PenguiFlowStateStore, session_id: str) -> None:
    session = await SessionManager(state_store=store).get_or_create(session_id)

    async def short(runtime: Any) -> TaskResult:
        runtime.emit_update(UpdateType.PROGRESS, {"label": "half way"})
        return TaskResult(payload={"sum": 3}, digest=["added"])

    async def endless(runtime: Any) -> TaskResult:
        runtime.emit_update(UpdateType.PROGRESS, {"label": "begun"})
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("an event that nobody sets was set")

    begun = asyncio.Event()
    await session.run_task(short, task_type=TaskType.BACKGROUND, task_id="short", query="1 + 2")
    await session.spawn_task(endless, task_type=TaskType.BACKGROUND, task_id="endless")
    await begun.wait()
    # Reads see the writes begun before them, and what they list is on disk.
    updates = await session.list_updates()
    say([[update.update_id, update.task_id, update.update_type.value] for update in updates])
    await asyncio.Event().wait()


async def main(path: str, namespace: str, command: str, *arguments: str) -> None:
    commands = {"pause": pause, "resume": resume, "talk": talk, "work": work}
    async with PenguiFlowStateStore(path=path, namespace=namespace, on_error="raise") as store:
        await commands[command](store, *arguments)
        started = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*started)  # planners save by tasks that nobody awaits


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

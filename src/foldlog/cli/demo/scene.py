"""A session that is under way, for `foldlog demo --ui`: tasks, costs, a file, and what waits."""

from __future__ import annotations

import time
from base64 import b64decode
from typing import Final

from foldlog import Message
from foldlog.models import (
    ArtifactScope,
    PlannerEvent,
    SteeringEvent,
    SteeringEventType,
    TaskType,
    UpdateType,
)
from foldlog.opening import Store
from foldlog.runs import RunPaused
from foldlog.sessions import ContextPatch, MergeStrategy, Session

SESSION: Final = "club-outing"
_TRACE: Final = "club-outing-1"

_ANSWER: Final = """Two ways to get eleven people to the coast on Saturday:

| | leaves | arrives | all together |
|---|---|---|---|
| **regional train** | 08:12 | 09:54 | €143 |
| **two minibuses** | 08:30 | 09:50 | €198 and fuel |

1. The train is cheaper, and nobody has to drive back in the dark.
2. Bicycles travel free after 09:00 only, so *four of them* would come later.

I would book the train. `group_ticket("coast", 11)` holds the price until tonight."""

_CHART: Final = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAALQAAABQAgMAAADNdrc1AAAACVBMVEX///8oUMi0w+p8G/4DAAAAP0lEQVR42mNgGAVDDn"
    "CtgoBR1aOqh49qJqiahlHVeFVrQRgrRlVTTXUoBASMqh5VPap6VPWo6lHV5KkeBagAAH9uWGngy6ZuAAAAAElFTkSuQmCC"
)
"""A picture of four prices, as PNG."""

_SEATS: Final = "The train it is. Is there **room for two wheelchairs**?"


async def play(store: Store) -> None:
    """Save the session. Playing it again has no effect on what is there."""
    async with store.session(SESSION) as session:
        if session.state.tasks:
            return
        await session.update_context(
            llm_context={"goal": "an outing to the coast for eleven", "budget_eur": 200},
            tool_context={"user_id": "mira"},
        )
        await _talk(store, "mira", "user", "We are eleven and want to see the coast on Saturday.")
        await session.spawn_task(task_id="outing", query="Plan the club's outing", trace_id=_TRACE)
        await session.start_task("outing")
        await _look_for_fares(store, session)
        await _talk(store, "planner", "assistant", _ANSWER)
        await store.save_memory_state(
            f"cycling-club:mira:{SESSION}", {"prefers": ["train"], "avoid": ["early mornings"]}
        )
        await store.artifact_store.put_bytes(
            _CHART,
            mime_type="image/png",
            filename="prices.png",
            scope=ArtifactScope(session_id=SESSION, trace_id=_TRACE),
        )
        await session.steer(
            SteeringEvent(
                session_id=SESSION,
                task_id="outing",
                event_type=SteeringEventType.INJECT_CONTEXT,
                payload={"text": "Two of us use wheelchairs.", "by": "mira"},
            )
        )
        await _talk(store, "mira", "user", _SEATS)
        await session.spawn_task(
            task_id="tickets", query="Reserve the seats", parent_task_id="outing", priority=5
        )
        await session.start_task("tickets")
        await session.report("tickets", {"text": "Asking the railway for two wheelchair places"})
        await session.pause_task("tickets", reason="Pay €143 now, before the offer ends tonight?")
        await store.save_feedback(_TRACE, score=1, comment="Clear and quick.", author="mira")
    try:
        async with store.run("outing-lunch", session_id=SESSION) as run:
            question = {"question": "Where do we eat?", "options": ["Harbour café", "Picnic"]}
            await run.ask("lunch", question, wait=0)
    except RunPaused:
        pass  # it goes on when somebody has answered


async def _look_for_fares(store: Store, session: Session) -> None:
    """Two tasks beside the conversation; one ends with a patch that waits for approval."""
    await session.create_group("search", group_id="search")
    for task_id in ("trains", "buses"):
        await session.spawn_task(
            task_id=task_id,
            task_type=TaskType.BACKGROUND,
            query=f"Find {task_id} to the coast",
            parent_task_id="outing",
            group_id="search",
            trace_id=_TRACE,
        )
        await session.start_task(task_id)
    given = session.get_task("trains").context_snapshot
    for step, (tool, cost, latency, tokens) in enumerate(
        (("search_trains", 0.0031, 820.0, 1240), ("group_fares", 0.0012, 310.0, 480))
    ):
        call = {"name": tool, "arguments": {"to": "coast", "people": 11}}
        await session.report("trains", call, update_type=UpdateType.TOOL_CALL, step_index=step)
        await store.save_planner_event(
            _TRACE,
            PlannerEvent(
                "tool_call",
                time.time(),
                step,
                thought="The group fare needs at least ten travellers." if step else None,
                node_name=tool,
                latency_ms=latency,
                token_estimate=tokens,
                extra={"cost_usd": cost},
            ),
        )
    await session.report("buses", {"text": "The depot does not answer"}, progress={"done": 0.5})
    await session.fail_task("buses", "the depot's booking system answered 503 three times")
    patch = ContextPatch(
        task_id="trains",
        source_context_version=given.context_version,
        source_context_hash=given.context_hash,
        digest=["Group ticket for eleven: €143, held until tonight"],
        facts={"train": "08:12", "price_eur": 143},
    )
    await session.complete_task(
        "trains",
        result={"price_eur": 143, "seats": 11},
        patch=patch,
        strategy=MergeStrategy.HUMAN_GATED,
    )
    await session.seal_group("search")


async def _talk(store: Store, author: str, role: str, text: str) -> None:
    body = {"role": role, "content": text}
    message = Message(f"{author} {len(text)}", "openai", body, role=role, author=author)
    await store.append_messages(SESSION, [message])

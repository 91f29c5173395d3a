from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from foldlog.importer import Conversation, ImportPlan, plan
from foldlog.importer.conversation import parse_item
from foldlog.importer.planning import text_of
from foldlog.models import (
    PlannerEvent,
    SteeringEventType,
    StoredEvent,
    TaskStatus,
    TaskType,
    TrajectoryStep,
    UpdateType,
)


def conversation(messages: list[dict[str, Any]], **fields: Any) -> Conversation:
    return parse_item({"messages": messages, **fields}, source="f", number=1, index=0, size=0)


def call(call_id: str | None, name: str, arguments: object) -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def assistant(text: str | None, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "tool_calls": list(calls)}


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Lisbon and Porto?", "extra": [1]},
    assistant(
        "Looking.", call("a", "weather", '{"city": "Lisbon"}'), call("b", "weather", "Porto")
    ),
    {"role": "tool", "tool_call_id": "b", "content": "rain"},
    {"role": "tool", "tool_call_id": "a", "content": "sun"},
    {"role": "assistant", "content": "Sun and rain."},
    {"role": "user", "content": "Thanks!"},
]


def planned(**fields: Any) -> ImportPlan:
    return plan(conversation(MESSAGES, task_id="w", trial=1, **fields), prefix="x/")


def test_every_message_becomes_one_event_that_holds_it_unchanged() -> None:
    assert planned().events == [
        StoredEvent("x/w-1", float(place), f"message.{message['role']}", None, None, message)
        for place, message in enumerate(MESSAGES)
    ]


def test_user_messages_become_steering() -> None:
    first, second = planned().steering
    assert first.payload == {"text": "Weather in Lisbon and Porto?"}
    assert second.payload == {"text": "Thanks!"}
    assert first.event_type is SteeringEventType.USER_MESSAGE
    assert (first.session_id, first.trace_id, first.source) == ("x/w-1", "x/w-1", "user")
    assert first.created_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_answers_and_tool_calls_become_updates_in_order() -> None:
    updates = planned().updates
    assert [(each.update_type, each.content, each.step_index) for each in updates] == [
        (UpdateType.RESULT, {"text": "Looking."}, 0),
        (
            UpdateType.TOOL_CALL,
            {"tool_call_id": "a", "name": "weather", "arguments": {"city": "Lisbon"}},
            0,
        ),
        (UpdateType.TOOL_CALL, {"tool_call_id": "b", "name": "weather", "arguments": "Porto"}, 1),
        (UpdateType.RESULT, {"text": "Sun and rain."}, 2),
    ]


def test_every_tool_call_becomes_a_planner_event() -> None:
    first, second = planned().planner_events
    assert first == PlannerEvent(
        event_type="tool_call",
        ts=2.0,
        trajectory_step=0,
        thought="Looking.",
        node_name="weather",
        extra={
            "tool_call_id": "a",
            "name": "weather",
            "arguments": {"city": "Lisbon"},
            "message": 2,
            "call": 0,
        },
    )
    assert (second.trajectory_step, second.extra["call"]) == (1, 1)


def test_the_trajectory_pairs_calls_with_what_the_tools_answered() -> None:
    info = {"domain": "weather"}
    trajectory = planned(reward=1.0, info=info).trajectory
    assert trajectory.query == "Weather in Lisbon and Porto?"
    assert trajectory.steering_inputs == ["Thanks!"]
    assert trajectory.metadata == {"task_id": "w", "trial": 1, "reward": 1.0, "info": info}
    assert [step.observation for step in trajectory.steps] == ["sun", "rain", None]
    assert trajectory.steps[2] == TrajectoryStep(
        action={
            "thought": None,
            "next_node": "final_response",
            "args": {"answer": "Sun and rain."},
        }
    )


@pytest.mark.parametrize(
    ("reward", "status"),
    [
        (1.0, TaskStatus.COMPLETE),
        (1, TaskStatus.COMPLETE),
        (None, TaskStatus.COMPLETE),
        (0.0, TaskStatus.FAILED),
        (0.5, TaskStatus.FAILED),
        (float("nan"), TaskStatus.FAILED),
    ],
)
def test_the_foreground_task_runs_and_ends_by_its_reward(
    reward: float | None, status: TaskStatus
) -> None:
    wanted = planned(reward=reward)
    started, ended = wanted.started, wanted.ended
    assert (started.status, ended.status) == (TaskStatus.RUNNING, status)
    assert started.task_id == ended.task_id == wanted.updates[0].task_id
    assert ended.task_type is TaskType.FOREGROUND
    assert (ended.error is not None) is (status is TaskStatus.FAILED)
    assert started.updated_at == started.created_at == ended.created_at
    assert ended.updated_at == datetime(1970, 1, 1, 0, 0, 6, tzinfo=UTC)
    assert ended.context_snapshot.query == "Weather in Lisbon and Porto?"


def test_the_same_conversation_gives_the_same_plan() -> None:
    assert planned(reward=1.0) == planned(reward=1.0)


def test_no_two_objects_of_a_plan_share_an_id() -> None:
    wanted = planned()
    ids = [event.event_id for event in wanted.steering]
    ids += [update.update_id for update in wanted.updates]
    assert len(ids) == len(set(ids))


def test_calls_that_say_nothing_of_themselves_are_kept_apart() -> None:
    odd = [assistant(None, {}, call(None, "f", None)), {"role": "tool", "content": "one"}]
    wanted = plan(conversation(odd))
    assert [event.node_name for event in wanted.planner_events] == [None, "f"]
    assert wanted.planner_events[0] != wanted.planner_events[1]
    assert [step.observation for step in wanted.trajectory.steps] == ["one", None]


def test_a_single_function_call_counts_as_a_tool_call() -> None:
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    [update] = plan(conversation([old])).updates
    assert update.content == {"tool_call_id": None, "name": "f", "arguments": {}}


def test_a_conversation_without_users_still_has_a_task_and_a_trajectory() -> None:
    wanted = plan(conversation([{"role": "developer", "content": "x"}]))
    assert (wanted.steering, wanted.updates, wanted.planner_events) == ([], [], [])
    assert wanted.events[0].kind == "message.developer"
    assert wanted.trajectory.query == ""
    assert wanted.ended.description is None


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("plain", "plain"),
        ([], ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "image_url", "image_url": {}}, "raw"], "[image_url]\nraw"),
        ([{}, 3], "[part]\n"),
        ({"odd": 1}, ""),
    ],
)
def test_the_text_of_a_message(content: object, text: str) -> None:
    assert text_of({"role": "user", "content": content}) == text
    assert text_of({"role": "user"}) == ""

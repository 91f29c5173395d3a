from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from foldlog import Message
from foldlog.importer import Conversation, ImportPlan, plan
from foldlog.importer.conversation import parse_item
from foldlog.importer.planning import text_of
from foldlog.models import (
    SteeringEventType,
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


def test_every_message_becomes_one_message_that_holds_it_unchanged() -> None:
    assert planned().objects["messages"] == [
        Message(f"{place}", "openai", message, role=message["role"])
        for place, message in enumerate(MESSAGES)
    ]


def test_user_messages_become_steering() -> None:
    first, second = planned().objects["steering"]
    assert first.payload == {"text": "Weather in Lisbon and Porto?"}
    assert second.payload == {"text": "Thanks!"}
    assert first.event_type is SteeringEventType.USER_MESSAGE
    assert (first.session_id, first.trace_id, first.source) == ("x/w-1", "x/w-1", "user")
    assert first.created_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_answers_and_tool_calls_become_updates_in_order() -> None:
    updates = planned().objects["updates"]
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


def test_the_trajectory_pairs_calls_with_what_the_tools_answered() -> None:
    info = {"domain": "weather"}
    trajectory = planned(reward=1.0, info=info).objects["trajectories"][0]
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
    started, [ended] = wanted.started, wanted.objects["tasks"]
    assert (started.status, ended.status) == (TaskStatus.RUNNING, status)
    assert started.task_id == ended.task_id == wanted.objects["updates"][0].task_id
    assert ended.task_type is TaskType.FOREGROUND
    assert (ended.error is not None) is (status is TaskStatus.FAILED)
    assert started.updated_at == started.created_at == ended.created_at
    assert ended.updated_at == datetime(1970, 1, 1, 0, 0, 6, tzinfo=UTC)
    assert ended.context_snapshot.query == "Weather in Lisbon and Porto?"


def test_the_same_conversation_gives_the_same_plan() -> None:
    assert planned(reward=1.0) == planned(reward=1.0)


def test_no_two_objects_of_a_plan_share_an_id() -> None:
    wanted = planned()
    ids = [event.event_id for event in wanted.objects["steering"]]
    ids += [update.update_id for update in wanted.objects["updates"]]
    assert len(ids) == len(set(ids))


def test_calls_that_say_nothing_of_themselves_are_kept_apart() -> None:
    odd = [assistant(None, {}, call(None, "f", None)), {"role": "tool", "content": "one"}]
    wanted = plan(conversation(odd))
    one, other = wanted.objects["updates"]
    assert [each.content["name"] for each in (one, other)] == [None, "f"]
    assert one.update_id != other.update_id
    [trajectory] = wanted.objects["trajectories"]
    assert [step.observation for step in trajectory.steps] == ["one", None]


def test_a_single_function_call_counts_as_a_tool_call() -> None:
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    [update] = plan(conversation([old])).objects["updates"]
    assert update.content == {"tool_call_id": None, "name": "f", "arguments": {}}


def test_a_conversation_without_users_still_has_a_task_and_a_trajectory() -> None:
    wanted = plan(conversation([{"role": "developer", "content": "x"}]))
    assert (wanted.objects["steering"], wanted.objects["updates"]) == ([], [])
    assert wanted.objects["messages"][0].role == "developer"
    assert wanted.objects["trajectories"][0].query == ""
    assert wanted.objects["tasks"][0].description is None


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

"""Snapshots by themselves: differences, versions, migrations, and when a checkpoint is due."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.integrations.rh_agents import (
    AutoCheckpointConfig,
    EventType,
    IncompatibleState,
    Migrations,
    StateDiff,
    StateSnapshot,
)
from tests.integrations.rh_agents.build import event, snapshot


def test_two_snapshots_are_compared_by_events_storage_and_artifacts() -> None:
    before = snapshot(
        "s",
        event("search", result=1),
        event("book", result=2),
        storage={"seat": "12A", "meal": None, "fare": 1},
        artifact_refs={"map": "a1", "photo": "a2"},
    )
    after = snapshot(
        "s",
        event("search", result=1),
        event("book", result=3),
        event("pay"),
        storage={"seat": "14C", "fare": 1, "class": "economy"},
        artifact_refs={"map": "a1", "receipt": "a3"},
    )
    assert StateSnapshot.diff(before, after) == StateDiff(
        new_events=[event("book", result=3), event("pay")],
        removed_events=[event("book", result=2)],
        changed_storage={
            "seat": ("12A", "14C"),
            "meal": (None, None),
            "class": (None, "economy"),
        },
        new_artifacts=["receipt"],
        removed_artifacts=["photo"],
    )


def test_a_snapshot_does_not_differ_from_itself() -> None:
    same = snapshot("s", event("a"), event("a"), storage={"k": [1]}, artifact_refs={"x": "y"})
    assert StateSnapshot.diff(same, same.model_copy(deep=True)) == StateDiff()


def test_an_event_that_happened_twice_is_new_once() -> None:
    once, twice = snapshot("s", event("a")), snapshot("s", event("a"), event("a"))
    assert StateSnapshot.diff(once, twice).new_events == [event("a")]
    assert StateSnapshot.diff(twice, once).removed_events == [event("a")]


def test_states_of_another_shape_have_no_events_and_no_storage() -> None:
    odd = snapshot("s").model_copy(
        update={"execution_state": {"history": 1, "storage": {"data": 2}}}
    )
    full = snapshot("s", event("a"), storage={"k": 1})
    assert StateSnapshot.diff(odd, full).new_events == [event("a")]
    assert StateSnapshot.diff(full, odd).changed_storage == {"k": (1, None)}


@pytest.mark.parametrize(
    ("version", "current", "compatible"),
    [
        ("1.0.0", "1.0.0", True),
        ("1.0.0", "1.4.2", True),
        ("1.4.2", "1.0.0", True),
        ("1", "1.2", True),
        ("1.0.0", "2.0.0", False),
        ("2.0.0", "1.0.0", False),
        ("0.1.0", "0.1.9", True),
        ("0.1.0", "0.2.0", False),
        ("10.0.0", "1.0.0", False),
        ("draft", "1.0.0", False),
        ("1.0.0-rc1", "1.0.0", False),
    ],
)
def test_versions_are_compatible_semantically(version: str, current: str, compatible: bool) -> None:
    assert snapshot(version=version).is_compatible(current) is compatible


def test_a_version_of_todays_that_is_none_is_refused() -> None:
    with pytest.raises(foldlog.ConfigurationError, match="newest"):
        snapshot().is_compatible("newest")


# --- migrations ---------------------------------------------------------------------------------


def renaming(migrations: Migrations, old: str, new: str) -> None:
    """A step that leaves a trace of itself."""

    @migrations.step(old, new)
    def _(found: StateSnapshot) -> StateSnapshot:
        found.execution_state.setdefault("path", []).append(f"{old}>{new}")
        return found


def test_an_old_snapshot_is_taken_to_todays_version_by_the_fewest_steps() -> None:
    migrations = Migrations("2.0.0")
    for old, new in [
        ("1.0.0", "1.1.0"),
        ("1.1.0", "1.2.0"),
        ("1.2.0", "2.0.0"),
        ("1.1.0", "2.0.0"),
    ]:
        renaming(migrations, old, new)
    migrated = migrations.migrate(snapshot(version="1.0.0"))
    assert migrated.version == "2.0.0"
    assert migrated.execution_state["path"] == ["1.0.0>1.1.0", "1.1.0>2.0.0"]
    today = snapshot(version="2.0.0")
    assert migrations.migrate(today) == today


def test_a_snapshot_without_a_way_to_today_is_refused_unless_it_is_compatible() -> None:
    migrations = Migrations("2.1.0")
    renaming(migrations, "1.0.0", "1.5.0")
    with pytest.raises(IncompatibleState) as refused:
        migrations.migrate(snapshot("old", version="1.0.0"))
    assert (refused.value.state_id, refused.value.version) == ("old", "1.0.0")
    assert refused.value.current == "2.1.0"
    compatible = snapshot(version="2.0.0")
    assert migrations.migrate(compatible) == compatible


def test_a_step_is_registered_once_and_leads_somewhere() -> None:
    migrations = Migrations("2.0.0")
    renaming(migrations, "1.0.0", "2.0.0")
    for old, new in [("1.0.0", "2.0.0"), ("1.0.0", "1.0.0")]:
        with pytest.raises(foldlog.Misuse):
            migrations.step(old, new)


# --- automatic checkpoints ----------------------------------------------------------------------


def test_automatic_checkpoints_follow_what_they_are_asked_to() -> None:
    asked = AutoCheckpointConfig(enabled=True, checkpoint_after_events=[EventType.AGENT, "review"])
    assert [t for t in (*EventType, "review", "other") if asked.applies_to(t)] == [
        EventType.AGENT,
        EventType.LLM,
        EventType.TOOL,
        "review",
    ]
    assert asked.applies_to("other", is_artifact=True)
    bare = AutoCheckpointConfig(
        enabled=True,
        checkpoint_after_artifacts=False,
        checkpoint_after_llm=False,
        checkpoint_after_tools=False,
    )
    assert not any(bare.applies_to(type, is_artifact=True) for type in EventType)
    assert not any(AutoCheckpointConfig().applies_to(type, is_artifact=True) for type in EventType)

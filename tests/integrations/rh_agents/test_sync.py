"""The blocking backends: from any thread, within a running loop, and under an execution that
knows nothing of foldlog.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.integrations.rh_agents import (
    Migrations,
    StateSnapshot,
    StateStatus,
    SyncArtifactBackend,
    SyncStateBackend,
)
from tests.integrations.rh_agents.build import event, snapshot
from tests.integrations.rh_agents.foreign import (
    ForeignEventType,
    ForeignMetadata,
    ForeignState,
    ForeignStatus,
)
from tests.support.fresh import fresh_python


@pytest.fixture
def place(embedded_path: Path, namespace: str) -> dict[str, Any]:
    """Where the backends of a test connect to."""
    return {"path": embedded_path, "namespace": namespace}


@pytest.fixture
def states(place: dict[str, Any]) -> Iterator[SyncStateBackend]:
    with SyncStateBackend(**place) as backend:
        yield backend


@pytest.fixture
def artifacts(place: dict[str, Any]) -> Iterator[SyncArtifactBackend]:
    with SyncArtifactBackend(**place, codec="pickle") as backend:
        yield backend


def test_states_are_saved_found_and_removed(states: SyncStateBackend) -> None:
    assert states.load_state("s") is None
    assert states.update_state(snapshot("s")) is False
    assert states.exists("s") is False
    assert states.save_state(snapshot("s", event("a"), metadata={"tags": ["t"]})) is True
    assert states.exists("s") is True
    assert states.load_state("s") == snapshot("s", event("a"), metadata={"tags": ["t"]})
    assert states.update_state(snapshot("s", status=StateStatus.PAUSED)) is True
    assert [found.state_id for found in states.list_states(status=StateStatus.PAUSED)] == ["s"]
    assert states.list_states(["t"], None, None, 5) == []
    assert states.delete_state("s") is True
    assert states.delete_state("s") is False
    assert states.exists("s") is False


def test_artifacts_are_saved_and_removed(artifacts: SyncArtifactBackend) -> None:
    given = snapshot("any object")
    assert artifacts.exists("a") is False
    assert artifacts.load_artifact("a") is None
    assert artifacts.save_artifact("a", given) is True
    assert artifacts.exists("a") is True
    assert artifacts.load_artifact("a") == given
    assert artifacts.delete_artifact("a") is True
    assert artifacts.delete_artifact("a") is False
    assert (artifacts.list_artifacts(), artifacts.get_size("a")) == ([], None)
    artifacts.save_artifact("b", b"x")
    artifacts.save_artifact("c", given)
    assert artifacts.list_artifacts() == ["b", "c"]
    assert artifacts.get_size("b") == len(pickle.dumps(b"x", protocol=pickle.HIGHEST_PROTOCOL))
    assert artifacts.get_size("unknown") is None
    artifacts.delete_artifact("c")
    assert artifacts.collect_garbage(older_than=0).artifact_ids == ("b",)


def test_a_pickle_is_not_read_by_a_backend_that_was_not_asked_to(place: dict[str, Any]) -> None:
    with SyncArtifactBackend(**place, codec="pickle") as pickles:
        pickles.save_artifact("a", snapshot())
    with SyncArtifactBackend(**place) as safe:
        with pytest.raises(foldlog.ConfigurationError):
            safe.load_artifact("a")
        with pytest.raises(foldlog.PayloadError):
            safe.save_artifact("b", snapshot())
    with pytest.raises(foldlog.ConfigurationError):
        SyncArtifactBackend(**place, codec="yaml")


def test_old_snapshots_are_migrated(place: dict[str, Any], states: SyncStateBackend) -> None:
    migrations = Migrations("1.1.0")

    @migrations.step("1.0.0", "1.1.0")
    def mark(old: StateSnapshot) -> StateSnapshot:
        old.execution_state["migrated"] = True
        return old

    states.save_state(snapshot("s"))
    with SyncStateBackend(**place, migrations=migrations) as today:
        found = today.load_state("s")
    assert found is not None
    assert (found.version, found.execution_state["migrated"]) == ("1.1.0", True)


# --- threads, loops and ends --------------------------------------------------------------------


async def test_it_serves_code_within_a_running_loop(place: dict[str, Any]) -> None:
    with SyncStateBackend(**place) as states:
        states.save_state(snapshot("s"))
        assert states.load_state("s") == snapshot("s")


def test_many_threads_share_one(states: SyncStateBackend) -> None:
    threads = [
        threading.Thread(target=states.save_state, args=(snapshot(f"s{n}"),)) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {found.state_id for found in states.list_states()} == {f"s{n}" for n in range(8)}


def test_what_is_closed_stays_closed(place: dict[str, Any]) -> None:
    before = set(threading.enumerate())
    unused, used = SyncStateBackend(**place), SyncStateBackend(**place)
    used.save_state(snapshot("s"))
    assert set(threading.enumerate()) > before
    for backend in (unused, used):
        backend.close()
        backend.close()
        with pytest.raises(foldlog.StoreClosed):
            backend.load_state("s")
    assert set(threading.enumerate()) <= before


def test_who_cannot_connect_says_so_and_tries_again() -> None:
    states = SyncStateBackend("nats://127.0.0.1:9", timeout=0.2)
    for _ in range(2):
        with pytest.raises(foldlog.LogUnavailable):
            states.load_state("s")
    states.close()


def test_a_process_that_never_closes_ends_and_leaves_what_it_saved(
    place: dict[str, Any], states: SyncStateBackend
) -> None:
    code = (
        "import sys\n"
        "from foldlog.integrations.rh_agents import SyncStateBackend\n"
        "from foldlog.integrations.rh_agents import StateSnapshot\n"
        "states = SyncStateBackend(path=sys.argv[1], namespace=sys.argv[2])\n"
        "states.save_state(StateSnapshot.model_validate_json(sys.argv[3]))\n"
    )
    given = snapshot("s", event("a"))
    arguments = [str(place["path"]), place["namespace"], given.model_dump_json()]
    assert fresh_python(code, *arguments) == ""
    assert states.load_state("s") == given


def test_a_call_from_its_own_thread_is_an_error_and_not_the_end(place: dict[str, Any]) -> None:
    migrations = Migrations("1.1.0")
    refused: list[str] = []

    @migrations.step("1.0.0", "1.1.0")
    def look(old: StateSnapshot) -> StateSnapshot:
        for call in (lambda: states.load_state("other"), states.close):
            with pytest.raises(foldlog.Misuse) as error:
                call()
            refused.append(str(error.value))
        return old

    with SyncStateBackend(**place, migrations=migrations) as states:
        states.save_state(snapshot("s"))
        assert states.load_state("s") is not None
    assert len(refused) == 2
    assert "own thread" in refused[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_a_store_of_its_own(states: SyncStateBackend) -> None:
    states.save_state(snapshot("parent"))
    child = os.fork()
    if child == 0:
        saved = False
        try:
            saved = states.save_state(snapshot("child"))
            states.close()
        finally:
            os._exit(0 if saved else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert {found.state_id for found in states.list_states()} == {"parent", "child"}


# --- others' executions -------------------------------------------------------------------------


def test_an_execution_of_another_library_is_saved_and_loaded(
    states: SyncStateBackend, artifacts: SyncArtifactBackend
) -> None:
    began = ForeignState(execution_stack=["agent"]).use(states, artifacts)
    began.run("search", ForeignEventType.TOOL_CALL, lambda: {"flights": 3, "legs": (1, 2)})
    began.storage.data["seat"] = "12A"
    began.storage.artifacts["model"] = snapshot("an object of theirs")
    assert began.save_checkpoint() is True
    began.run("book", ForeignEventType.LLM_CALL, lambda: "ok")
    assert began.save_checkpoint(ForeignStatus.PAUSED, ForeignMetadata(tags=["vip"])) is True

    found = ForeignState.load_from_state_id(began.state_id, states, artifacts)
    assert found is not None
    assert found.model_dump(mode="json") == began.model_dump(mode="json")
    assert found.storage.artifacts == {"model": snapshot("an object of theirs")}
    [paused] = states.list_states(tags=["vip"], status=StateStatus.PAUSED)
    assert paused.state_id == began.state_id
    assert ForeignState.load_from_state_id("unknown", states) is None
    assert ForeignState().save_checkpoint() is False


def test_what_another_library_cannot_write_either_is_refused(states: SyncStateBackend) -> None:
    began = ForeignState().use(states)
    began.run("search", ForeignEventType.TOOL_CALL, object)
    with pytest.raises(foldlog.PayloadError, match="object"):
        began.save_checkpoint()
    assert states.list_states() == []

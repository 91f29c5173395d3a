"""`foldlog replay` with its moments and paces, and `foldlog diff`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

import foldlog
from foldlog.cli import describe, trace as pacing
from foldlog.cli.difference import Change, differences
from foldlog.scoped import Scope
from tests.cli.support import Cli
from tests.conftest import OpenStore
from tests.support.build import event, planner_event, task, update
from tests.support.stores import fresh_namespace

Recorded = tuple[Cli, list[str]]
Work = Callable[[foldlog.Store], Awaitable[Any]]


def do(cli: Cli, work: Work) -> Any:
    """Do something with the store that the commands look at, and return what it gives."""
    _, path, _, namespace = cli.options

    async def run() -> Any:
        async with foldlog.connect(path=Path(path), namespace=namespace) as store:
            return await work(store)

    return asyncio.run(run())


def kinds(cli: Cli, *options: str) -> list[str]:
    return [record["kind"] for record in cli("replay", "t", "--json", *options).records]


async def three_events(store: foldlog.Store) -> list[str]:
    """Save events at 0, 10 and 20 seconds; return the position after each."""
    positions = []
    for n in range(3):
        await store.save_event(event("t", 10.0 * n, kind=f"kind-{n}"))
        positions.append(str(await store.position()))
    return positions


@pytest.fixture(scope="module")
def recorded(embedded_path: Path) -> tuple[Cli, list[str]]:
    """Commands on a namespace with three events, and the position after each. For reading only."""
    cli = Cli(embedded_path, fresh_namespace())
    return cli, do(cli, three_events)


# --- replay -------------------------------------------------------------------------------------


def test_replay_at_a_position_shows_what_was_on_record_then(recorded: Recorded) -> None:
    cli, positions = recorded
    assert [kinds(cli, "--at", position) for position in positions] == [
        ["kind-0"],
        ["kind-0", "kind-1"],
        ["kind-0", "kind-1", "kind-2"],
    ]


def test_replay_at_a_time_goes_by_the_clock_of_the_log(recorded: Recorded) -> None:
    cli, _ = recorded
    assert kinds(cli, "--at", "2001-01-01") == []
    assert len(kinds(cli, "--at", "9000-01-01T00:00:00Z")) == 3


def test_replay_until_a_time_goes_by_the_events_own_clock(recorded: Recorded) -> None:
    cli, _ = recorded
    assert kinds(cli, "--until", "1970-01-01T00:00:10Z") == ["kind-0", "kind-1"]
    assert kinds(cli, "--until", "1970-01-01 00:00:10", "--tail", "1") == ["kind-1"]


def test_replay_at_an_events_id(cli: Cli) -> None:
    async def work(store: foldlog.Store) -> None:
        await store.save_event(event("t", kind="before"))
        await store.save_update(update("u-1"))
        await store.save_event(event("t", kind="after"))

    do(cli, work)
    assert kinds(cli, "--at", "u-1") == ["before"]


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (["--at", "@nonsense"], 1, "a position looks like @1234"),
        (["--at", "@999999"], 1, "ends at"),
        (["--at", "2001-99-01"], 2, "is no time"),
        (["--at", "nobody"], 1, "no such event"),
        (["--until", "soon"], 2, "is no time"),
        (["--speed", "0"], 2, "above 0"),
        (["--speed", "1", "--delay", "1"], 2, "one pace"),
    ],
)
def test_what_makes_no_sense_is_refused(
    recorded: Recorded, options: list[str], code: int, reason: str
) -> None:
    cli, _ = recorded
    result = cli("replay", "t", *options)
    assert result.code == code
    assert reason in result.stderr.replace("\n", " ")


async def test_at_a_speed_events_come_as_far_apart_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(pacing.asyncio, "sleep", sleep)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 100.0)
    events = [event("t", ts) for ts in (5.0, 5.0, 6.0, 25.0, float("inf"))]
    places = [place async for place, _ in pacing.timed(events, 10.0)]
    assert places == [1, 2, 3, 4, 5]
    assert slept == pytest.approx([0.0, 0.0, 0.1, 2.0])


# --- diff ---------------------------------------------------------------------------------------


async def two_moments(store: foldlog.Store) -> list[str]:
    await store.save_task(task("t1", status=foldlog.TaskStatus.PENDING))
    await store.save_event(event("trace", 1.0))
    await store.save_memory_state("key", {"n": 1})
    before = str(await store.position())
    await store.save_task(task("t1", status=foldlog.TaskStatus.RUNNING))
    await store.save_update(update("u1"))
    await store.save_event(event("trace", 0.5, kind="earlier by its own clock"))
    await store.save_memory_state("key", {"n": 2})
    return [before, str(await store.position())]


def test_diff_of_two_moments_tells_what_changed_in_between(cli: Cli) -> None:
    before, after = do(cli, two_moments)
    document = cli("diff", before, after, "--json").document
    changes = document["differences"]
    assert [(c["kind"], c["id"], c["how"]) for c in changes["session"]] == [
        ("task", "t1", "changed"),
        ("update", "u1", "added"),
    ]
    assert changes["session"][0]["values"] == {"status": ["PENDING", "RUNNING"]}
    assert [(c["kind"], c["how"]) for c in changes[""]] == [
        ("event", "added"),
        ("memory", "changed"),
    ]
    assert changes[""][1]["values"] == {"n": [1, 2]}
    assert cli("diff", before, "now", "--json").document["differences"] == changes
    assert cli("diff", after, "now").stdout == f"{after} and now are the same\n"


def test_diff_for_people_is_a_line_for_each_difference(cli: Cli) -> None:
    before, after = do(cli, two_moments)
    lines = cli("diff", before, after, "--session", "session").stdout.splitlines()
    assert lines[:3] == ["session session", "  ~ task t1", "      status: PENDING -> RUNNING"]
    assert lines[3:5] == ["  + update u1", "      task_id: task"]
    assert "      content.id: u1" in lines
    assert [line for line in lines if "{" in line] == []


def test_diff_of_two_sessions_leaves_out_whose_things_are(cli: Cli) -> None:
    async def work(store: foldlog.Store) -> None:
        await store.save_task(task("t1"))
        await store.save_update(update("u1"))
        await store.fork("session", to="other")

    do(cli, work)
    assert cli("diff", "session", "other", "--json").document["differences"] == {}

    async def diverge(store: foldlog.Store) -> str:
        position = str(await store.position())
        await store.save_update(update("u2", "other"))
        await store.save_planner_event("t", planner_event())
        return position

    position = do(cli, diverge)
    [change] = cli("diff", "session", "other", "--json").document["differences"]["other"]
    assert (change["kind"], change["id"], change["how"]) == ("update", "u2", "added")
    [change] = cli("diff", "other", "session", "--json").document["differences"]["session"]
    assert (change["kind"], change["id"], change["how"]) == ("update", "u2", "removed")
    document = cli("diff", "session", "other", "--at", position, "--json").document
    assert document["differences"] == {}


class Note(pydantic.BaseModel):
    text: str


async def everything_of(store: foldlog.Store, session: str, value: str) -> None:
    """What belongs to a session without being its tasks, updates and the like."""
    async with store.session(session) as opened:
        await opened.update_context(llm_context={"value": value})
    await store.save_memory_state(f"acme:ann:{session}", {"value": value})
    await store.scoped.write(Scope.session(session), "key", value)
    await store.scoped.write(Scope.custom("shared"), "key", value, session_id=session)
    await store.save_planner_state("token", {"value": value}, session_id=session)
    manager = store.agents.repository.create_manager(Note, session_id=session)
    async with manager.turn("writer") as turn:
        turn.update("note", Note(text=value))
    async with store.run("run", session_id=session) as run:
        await run.step(f"keep {value}", str, value)
    await store.append(notes("list"), Noted(value))
    await store.belong(session, notes("list"))


class Noted(msgspec.Struct, frozen=True):
    text: str


notes = foldlog.Kind("notes", keys=("name",), records={"note.saved": Noted}, fold=foldlog.last)


async def test_diff_sees_every_kind_that_belongs_to_a_session(reopen: OpenStore) -> None:
    store = await reopen(kinds=[notes])
    await everything_of(store, "session", "old")
    before = await store.position()
    await everything_of(store, "session", "new")
    sides = [await describe.session(each, "session") for each in (store.at(before), store)]
    changed = {c.kind: c for c in differences(*sides)}
    assert {(c.kind, c.id) for c in changed.values()} >= {
        ("memory", "acme:ann"),
        ("agent", "default writer note"),
        ("run", "run"),
        ("note", "list"),
        ("pause", "token"),
        ("session", ""),
    }
    assert {c.id for c in differences(*sides) if c.kind == "scoped"} == {
        "session key",
        "custom:shared key",
    }
    assert changed["memory"].values == {"value": ["old", "new"]}
    assert changed["agent"].values == {"state.text": ["old", "new"]}
    assert changed["session"].values["context.llm_context.value"] == ["old", "new"]
    assert changed["note"].values == {"text": ["old", "new"]}
    everything = [await describe.everything(each) for each in (store.at(before), store)]
    assert list(differences(everything[0]["session"], everything[1]["session"]))
    lists = {"waiting", "state", "belonging", "trace"}
    assert not lists & {*everything[1][""], *everything[1]["session"]}
    assert list(differences(everything[0][""], everything[1][""])) == []


async def test_diff_of_a_fork_and_its_origin_shows_what_went_on(reopen: OpenStore) -> None:
    store = await reopen(kinds=[notes])
    await everything_of(store, "session", "old")
    await store.save_event(event("session:session", 1.0))
    await store.fork("session", to="fork")
    sides = [await describe.session(store, each) for each in ("session", "fork")]
    assert list(differences(*sides)) == []
    assert {"session", "memory", "scoped", "agent", "run", "note", "event"} <= sides[1].keys()
    await store.save_memory_state("acme:ann:fork", {"value": "new"})
    await store.scoped.write(Scope.session("fork"), "key", "new")
    sides = [await describe.session(store, each) for each in ("session", "fork")]
    assert [(c.kind, c.id) for c in differences(*sides)] == [
        ("memory", "acme:ann"),
        ("scoped", "session key"),
    ]


def test_diff_says_what_is_gone(cli: Cli) -> None:
    async def work(store: foldlog.Store) -> str:
        await store.save_update(update("u1"))
        position = str(await store.position())
        await store.clear_session("session")
        return position

    position = do(cli, work)
    shown = cli("diff", position, "now", "--session", "session").stdout
    assert "- gone session  it was cleared at sequence" in shown


@pytest.mark.parametrize(
    "options", [["now", "session"], ["a", "b", "--session", "s", "--at", "now"]]
)
def test_diff_of_unlike_things_is_refused(cli: Cli, options: list[str]) -> None:
    assert cli("diff", *options).code == 2


def test_differences_are_found_inside() -> None:
    a = {"task": {"x": {"same": 1, "list": [1, {"deep": "old"}], "gone": 1}, "y": 1}}
    b = {"task": {"x": {"same": 1, "list": [1, {"deep": "new"}, 3], "flag": True}, "z": 1.0}}
    assert list(differences(a, b)) == [
        Change(
            "task",
            "x",
            "changed",
            {
                "list[1].deep": ["old", "new"],
                "list[2]": [None, 3],
                "gone": [1, None],
                "flag": [None, True],
            },
        ),
        Change("task", "z", "added", 1.0),
        Change("task", "y", "removed", 1),
    ]
    assert list(differences(b, b)) == []

"""What a command says of an id, a directory or a namespace that is not there; what Tab offers."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import foldlog
from foldlog.cli.app import app
from foldlog.cli.lines import fields
from foldlog.scoped import Scope
from foldlog.sessions import Session
from tests.cli.support import Cli, run, run_process, start
from tests.support.stores import fresh_namespace

UNKNOWN = {
    "answer": ["task/bike-repair-0/x/1f", "approve"],
    "bundle": ["bike-repair-1"],
    "confirm": ["step/bike-repair-0/x/book/1f"],
    "diff": ["bike-repair-0", "bike-repair-1"],
    "erase": ["bike-repair-1", "--yes"],
    "export": ["copy", "--session", "bike-repair-1"],
    "fork": ["bike-repair-1"],
    "history": ["bike-repair-1"],
    "rebuild": ["--projection", "event"],
    "replay": ["bike-repair-1"],
    "retract": ["step/bike-repair-0/x/book/1f"],
    "show": ["bike-repair-1"],
    "steer": ["bike-repair-1", "t", "pause"],
    "tasks": ["bike-repair-1"],
    "traces": ["bike-repair-1"],
    "updates": ["bike-repair-1"],
    "verify": ["--projection", "event"],
    "waiting": ["--session", "bike-repair-1"],
    "watch": ["bike-repair-1"],
}
"""Commands that take an id, each with one that is not there."""
MAKING = {"demo", "import", "restore", "serve", "schedule", "start", "worker"}
"""Commands that make a data directory and a namespace."""

NAMES = [str(each.name) for each in app.registered_commands]


@pytest.mark.parametrize("name", sorted(UNKNOWN))
def test_an_unknown_id_is_an_error_that_names_a_near_one(
    imported: Cli, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = imported(name, *UNKNOWN[name])
    assert (result.code, result.stdout) == (1, "")
    near = {"rebuild": "'events'", "verify": "'events'"}
    near |= dict.fromkeys(("answer", "confirm", "retract"), "`foldlog waiting` lists")
    assert near.get(name, "did you mean 'bike-repair-0'") in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_session_and_a_trace_are_not_mixed_up(cli: Cli) -> None:
    cli.start_task("trip", "t")
    history = cli("history", "trip", "--json").records
    assert {each["kind"] for each in history} == {"session.task", "session.update"}
    assert cli("traces", "trip").stdout == "session:trip\n"
    assert "trace session:trip: " in cli("replay", "trip").stdout

    async def keep(session: Session) -> None:
        await session.update_context(llm_context={"city": "Oslo"})

    cli.in_session("bare", keep)
    result = cli("history", "bare")
    assert "session 'bare' has that name, and it has no traces" in result.stderr


@pytest.mark.parametrize("name", sorted(set(NAMES) - MAKING))
def test_reading_what_is_not_there_is_an_error_and_makes_nothing(
    embedded_path: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the directory, nor the namespace, nor a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    args = {
        **UNKNOWN,
        "backup": ["copy"],
        "doctor": ["--json"],
        "queue": ["pause", "default"],
        "project": ["tests.projectors.filling", "--to", "sqlite:///x"],
        "sql": ["select 1"],
        "ui": ["--no-browser"],
        "unschedule": ["daily"],
        "verify-bundle": ["file", "--against-log"],
    }.get(name, [])
    for path in (tmp_path / "none", tmp_path / "empty"):
        result = run(name, *args, "--path", path)
        assert result.code == 1
        assert f"there is no data directory {path}" in result.stderr + result.stdout
    namespace = fresh_namespace()
    result = run(name, *args, "--path", embedded_path, "--namespace", namespace)
    assert result.code == 1
    assert f"there is no namespace '{namespace}'" in result.stderr + result.stdout
    left = sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*"))
    assert left == ["empty", "file"]


@pytest.mark.parametrize("name", ["import", "restore"])
def test_a_file_that_is_not_there_makes_no_store(name: str, tmp_path: Path) -> None:
    result = run(name, tmp_path / "nofile", "--path", tmp_path / "data")
    assert (result.code, result.stdout) == (1, "")
    assert "nofile: " in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_watcher_may_wait_for_the_first_writer(cli: Cli) -> None:
    with cli.start("watch", "later", "--wait", "--limit", "1", "--json") as watch:
        while "later" not in cli("sessions").stdout:
            cli.start_task("later", "t")
        assert watch.stdout is not None
        assert '"session_id": "later"' in watch.stdout.readline()
        assert watch.wait(60) == 0


# --- the Tab key --------------------------------------------------------------------------------


def asking(*words: str) -> dict[str, str]:
    """What bash sets to ask for what the last word may be."""
    return {
        "_FOLDLOG_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["foldlog", *words]),
        "COMP_CWORD": str(len(words)),
    }


def completed(*words: str, **environment: str) -> list[str]:
    """What bash is offered for the last word."""
    result = run_process(**asking(*words), **environment)
    assert result.stderr == ""
    return result.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["history", "bike"], ["bike-repair-0"]),
        (["tasks", "night"], ["night-shift-0"]),
        (["updates", "night-shift-0", "--task", "n"], ["night-shift-0:foreground"]),
        (["steer", "night-shift-0", ""], ["night-shift-0:foreground"]),
        (["steer", "s", "t", "re"], ["redirect", "resume", "reject"]),
        (["watch", "--kind", "st"], ["steering"]),
        (["watch", "--kind", "events", "session:bike"], []),
        (["verify", "--projection", "traj"], ["trajectory"]),
        (["history", "nobody"], []),
    ],
)
def test_what_tab_offers(imported: Cli, words: list[str], offered: list[str]) -> None:
    path, namespace = (str(imported.place[name]) for name in ("path", "namespace"))
    place = ["--path", path, "--namespace", namespace]
    result = run(**asking(words[0], *place, *words[1:]))
    assert (result.stdout.split(), result.stderr) == (offered, "")


def test_tab_starts_and_makes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data"
    assert completed("steer", "s", "t", "re") == ["redirect", "resume", "reject"]
    assert completed("tasks", "b", FOLDLOG_PATH=str(path)) == []
    assert not path.exists()
    with start("serve", "--path", path, "--json") as serve:
        assert serve.stdout is not None
        serve.stdout.readline()
        assert completed("tasks", "b", FOLDLOG_PATH=str(path)) == []
        assert "no namespace" in run("tasks", "b", "--path", path, "--namespace", "other").stderr
        serve.terminate()
        serve.wait(60)
    before = {each: each.stat().st_mtime_ns for each in path.rglob("*")}
    assert completed("tasks", "b", FOLDLOG_PATH=str(path)) == []
    assert {each: each.stat().st_mtime_ns for each in path.rglob("*")} == before
    assert completed("tasks", "b", FOLDLOG_URL="nats://127.0.0.1:1") == []


# --- how it looks -------------------------------------------------------------------------------


def test_help_is_in_groups_and_connection_options_come_last() -> None:
    shown = run("--help").stdout
    places = [shown.index(f" {group} ─") for group in ("Begin", "Read", "Operate")]
    assert places == sorted(places)
    one = run("history", "--help").stdout
    assert one.index("--tail") < one.index(" Where the log is ─") < one.index("--url")


@pytest.mark.parametrize("width", ["60", "80"])
def test_times_are_not_wrapped(imported: Cli, width: str) -> None:
    for args in (["tasks", "night-shift-0"], ["sql", "select created_at, content from updates"]):
        shown = run(*args, *imported.options, COLUMNS=width)
        assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z", shown.stdout)


def test_show_lists_what_every_part_of_the_store_holds(cli: Cli) -> None:
    async def used() -> None:
        async with foldlog.connect(**cli.place) as store:
            async with store.session("trip") as session:
                await session.update_context(llm_context={"city": "Oslo"})
            await store.scoped.write(Scope.session("trip"), "hotel", "Grand")
            await store.scoped.write(Scope.custom("all"), "seat", "7a")
            async with store.run("run", session_id="trip") as opened:
                await opened.step("book", str, 7)

    asyncio.run(used())
    lines = cli("show", "trip", "--all").stdout.splitlines()
    assert "    context.llm_context.city: Oslo" in lines
    assert {"session", "run run", "scoped session hotel"} <= set(lines)
    shown = {line.split(":")[0].strip() for line in lines[lines.index("run run") + 1 :]}
    assert {"steps.book.phase", "steps.book.arguments.0", "steps.book.result"} <= shown
    assert not shown & {"epoch", "tenure", "process", "steps.book.attempt", "steps.book.digest"}
    assert cli("show", "trip", "--kind", "scoped", "--json").document.keys() == {"scoped"}
    assert "scoped custom:all seat" in cli("show").stdout
    assert cli("show", "trip", "--kind", "run", "--json").document.keys() == {"run"}
    assert "did you mean 'scoped'?" in cli("show", "trip", "--kind", "scope").stderr


def test_fields_are_lines() -> None:
    value = {"a": {"b": [1, 2], "c": None}, "d": [{"e": ""}, {"e": "x\x1b"}], "f": 0, "g": False}
    assert list(fields(value)) == ["a.b: [1,2]", "d[1].e: x\\x1b", "f: 0", "g: false"]
    assert list(fields("as it is")) == ["as it is"]

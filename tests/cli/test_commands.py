"""Each command does what its page says, on the conversations that come along."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.cli.app import app
from foldlog.importer import demo_transcript
from foldlog.sessions import ContextPatch, MergeStrategy, Session
from tests.cli.support import Cli, run

COMMANDS = [
    "demo",
    "import",
    "ui",
    "sessions",
    "show",
    "tasks",
    "updates",
    "traces",
    "history",
    "replay",
    "watch",
    "diff",
    "sql",
    "mcp",
    "project",
    "waiting",
    "answer",
    "confirm",
    "retract",
    "steer",
    "fork",
    "start",
    "worker",
    "queues",
    "queue",
    "schedule",
    "unschedule",
    "export",
    "backup",
    "restore",
    "bundle",
    "verify-bundle",
    "serve",
    "doctor",
    "verify",
    "rebuild",
    "archive",
    "erase",
]
SHARED = ["--url", "--path", "--namespace", "--json"]


def conversation(name: str) -> dict[str, Any]:
    """One of the bundled conversations, by its session."""
    for line in demo_transcript().read_text("utf-8").splitlines():
        item: dict[str, Any] = json.loads(line)
        if f"{item['task_id']}-{item['trial']}" == name:
            return item
    raise LookupError(name)


def messages(name: str) -> list[dict[str, Any]]:
    """The messages of a bundled conversation."""
    item = conversation(name)
    found: list[dict[str, Any]] = item.get("traj") or item["messages"]
    return found


def test_these_are_the_commands() -> None:
    """The ones that are tested here, in the order of the help."""
    assert [each.name for each in app.registered_commands] == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_the_shared_options_and_says_what_it_does(name: str) -> None:
    """Where the log is and what the output is for are said alike everywhere."""
    result = run(name, "--help")
    assert result.code == 0
    assert [option for option in SHARED if option not in result.stdout] == []


def test_the_help_names_every_command() -> None:
    shown = run("--help").stdout
    assert [name for name in COMMANDS if f" {name} " not in shown] == []


# --- import -----------------------------------------------------------------------------------


def test_import_counts_and_a_second_one_appends_nothing(cli: Cli) -> None:
    """As JSON and as a table."""
    first = cli("import", demo_transcript(), "--json").document
    assert first["conversations"] == 6
    assert first["appended"]["messages"] == first["messages"] > 0
    assert first["broken"] == []

    second = cli("import", demo_transcript(), "--json").document
    assert set(second["appended"].values()) == {0}
    assert second["present"] == first["appended"]

    table = cli("import", demo_transcript()).stdout.splitlines()
    assert ["messages", "0", str(first["messages"])] in [line.split() for line in table]


def test_a_broken_line_is_named_and_the_rest_goes_on(cli: Cli, tmp_path: Path) -> None:
    """With its file and number; the exit code says that something was left out."""
    good = demo_transcript().read_text("utf-8").splitlines()
    file = tmp_path / "some.jsonl"
    file.write_text("\n".join([good[0], '{"messages": [', good[1]]), "utf-8")

    result = cli("import", file)
    assert result.code == 1
    assert f"{file}:2: not JSON" in result.stderr
    assert cli("sessions").ids == ["bike-repair-0", "library-renewal-0"]

    broken = cli("import", file, "--json")
    assert broken.code == 1
    assert [(b["source"], b["number"]) for b in broken.document["broken"]] == [(str(file), 2)]


def test_a_file_that_is_missing_is_named_and_the_others_are_imported(
    cli: Cli, tmp_path: Path
) -> None:
    """On standard error, in both forms; the counts are those of what was imported."""
    missing = tmp_path / "none.jsonl"
    result = cli("import", missing, demo_transcript(), "--json")
    assert result.code == 1
    assert result.stderr == f"foldlog: left out: {missing}: No such file or directory\n"
    assert result.document["conversations"] == 6
    assert result.document["appended"]["messages"] == result.document["messages"] > 0
    assert [(b["source"], b["number"]) for b in result.document["broken"]] == [(str(missing), 0)]

    again = cli("import", demo_transcript(), missing)
    assert again.code == 1
    assert "6 conversations" in again.stdout
    assert again.stderr == result.stderr


def test_an_integer_too_long_to_read_is_named_with_its_line(cli: Cli, tmp_path: Path) -> None:
    """Python reads 4,300 digits, however large the integers are that the log holds."""
    good = demo_transcript().read_text("utf-8").splitlines()[0]
    long = '{"messages": [{"role": "user", "content": "hi", "n": ' + "9" * 5000 + "}]}"
    reason = "Exceeds the limit (4300 digits) for integer string conversion"
    lines = tmp_path / "some.jsonl"
    lines.write_text(f"{good}\n{long}\n", "utf-8")
    result = cli("import", lines)
    assert result.code == 1
    assert result.stderr.startswith(f"foldlog: left out: {lines}:2: {reason}")
    assert cli("sessions").ids == ["bike-repair-0"]

    document = tmp_path / "some.json"
    document.write_text(f"[\n{good},\n{long}\n]\n", "utf-8")
    result = cli("import", document)
    assert result.code == 1
    assert result.stderr.startswith(f"foldlog: {document}: {reason}")


def test_a_prefix_names_other_sessions(cli: Cli) -> None:
    """So that one file can be imported for two purposes."""
    assert cli("import", demo_transcript(), "--prefix", "a/").code == 0
    assert "a/bike-repair-0" in cli("sessions", "--json").document


def test_a_file_that_cannot_be_read_is_one_line(cli: Cli, tmp_path: Path) -> None:
    """No traceback."""
    result = cli("import", tmp_path / "none.jsonl")
    assert result.code == 1
    assert result.stderr.startswith("foldlog: ")
    assert result.stderr.count("\n") == 1


# --- reading ----------------------------------------------------------------------------------


def test_sessions_and_traces(imported: Cli) -> None:
    """One a line for people, an array for programs."""
    names = imported("sessions").ids
    assert len(names) == 6
    assert imported("sessions", "--json").document == names
    traces = ["night-shift-0", "session:night-shift-0"]
    assert imported("traces", "night-shift-0").stdout.split() == traces
    assert imported("traces", "night-shift-0", "--json").document == traces
    assert imported("traces", "night-shift-0", "--limit", "1", "--json").document == traces[:1]


@pytest.mark.parametrize("command", ["history", "replay"])
def test_history_as_json_is_what_was_imported(imported: Cli, command: str) -> None:
    """Every message, in order, equal; --tail takes the last ones."""
    wanted = messages("telescope-night-1")
    records = imported(command, "telescope-night-1", "--json").records
    assert [record["payload"] for record in records] == wanted
    assert [record["kind"] for record in records] == [f"message.{m['role']}" for m in wanted]

    tail = imported(command, "telescope-night-1", "--tail", "2", "--delay", "0", "--json")
    assert [record["payload"] for record in tail.records] == wanted[-2:]
    assert imported(command, "telescope-night-1", "--tail", "0", "--json").stdout == ""


def test_history_for_people_is_a_line_an_event(imported: Cli) -> None:
    """Not wrapped, so that it can be searched."""
    lines = imported("history", "telescope-night-1").stdout.splitlines()
    assert len(lines) == len(messages("telescope-night-1"))
    assert all("message." in line for line in lines)


def test_replay_for_people_shows_the_texts_as_they_were_written(imported: Cli) -> None:
    """With every event's place."""
    shown = imported("replay", "night-shift-0").stdout
    count = len(messages("night-shift-0"))
    assert f"trace night-shift-0: {count} events" in shown
    assert f"{count}/{count}  message.assistant" in shown
    assert "content: Checkout answers 503 since 02:10. What is going on?" in shown


def test_replay_that_is_not_for_a_terminal_breaks_no_line(cli: Cli) -> None:
    """Whoever searches it finds a long text whole, and it is not padded with blanks either."""
    text = "a word and another " * 50 + "end"
    message = {"role": "user", "content": f"{text}\n\nshort", "nested": {"text": text}}

    async def save() -> None:
        async with foldlog.connect(**cli.place) as store:
            await store.save_event(
                foldlog.StoredEvent("0", 0.0, "message.user", None, None, message)
            )

    asyncio.run(save())
    assert cli("replay", "0").stdout.splitlines() == [
        "trace 0: 1 event",
        "",
        "1/1  message.user  1970-01-01 00:00:00.000Z",
        "    role: user",
        f"    content: {text}",
        "    ",
        "    short",
        f'    nested: {{"text":"{text}"}}',
    ]


def test_tasks(imported: Cli) -> None:
    """The foreground task ended as the reward says."""
    for session, status in [("bike-repair-0", "COMPLETE"), ("library-renewal-0", "FAILED")]:
        (task,) = imported("tasks", session, "--json").document
        assert (task["task_id"], task["status"]) == (f"{session}:foreground", status)
        assert status in imported("tasks", session).stdout


def test_updates_page_by_cursor(imported: Cli) -> None:
    """After a known id the next ones, without one the latest."""
    everything = imported("updates", "night-shift-0", "--json").document
    ids = [update["update_id"] for update in everything]
    page = imported("updates", "night-shift-0", "--since", ids[0], "--limit", "2", "--json")
    assert [update["update_id"] for update in page.document] == ids[1:3]
    latest = imported("updates", "night-shift-0", "--limit", "2", "--json").document
    assert [update["update_id"] for update in latest] == ids[-2:]
    assert imported("updates", "night-shift-0", "--all", "--json").document == everything
    assert len(imported("updates", "night-shift-0").stdout.splitlines()) == len(ids)


# --- steering and watching --------------------------------------------------------------------


def test_what_was_steered_can_be_watched(cli: Cli) -> None:
    """The id that is printed is the one that arrives; saving it again has no effect."""
    cli.start_task("s", "t")
    steer = ["steer", "s", "t", "user-message"]
    event_id = cli(*steer, "--text", "Stop?").stdout.strip()
    again = cli(*steer, "--text", "Stop?", "--event-id", event_id, "--json").document
    redirect = ["redirect", "--payload", '{"goal": "cheaper"}', "--source", "agent"]
    other = cli("steer", "s", "t", *redirect).stdout.strip()
    seen = cli("watch", "s", "--kind", "steering", "--limit", "2", "--json").records
    assert [event["event_id"] for event in seen] == [event_id, other]
    assert seen[0] == {**again, "created_at": seen[0]["created_at"]}
    assert (seen[0]["payload"], seen[1]["payload"]) == ({"text": "Stop?"}, {"goal": "cheaper"})
    assert seen[1]["source"] == "agent"

    watch = ["watch", "s", "--kind", "steering", "--since", event_id, "--limit", "1"]
    assert '{"goal":"cheaper"}' in cli(*watch).stdout


def test_what_waits_is_listed_and_answered(cli: Cli) -> None:
    """One line each; the decision is printed, and a second one is refused by what the first was."""

    async def pause(session: Session) -> None:
        await session.pause_task("t", reason="Go on?")

    cli.start_task("s", "t", pause)
    [item] = cli("waiting", "--json").document
    assert (item["session_id"], item["asked"]["reason"]) == ("s", "Go on?")
    assert f"  {item['id']}  " in cli("waiting", "--session", "s").stdout
    assert cli("waiting", "--after", item["id"]).stdout == ""
    assert cli("waiting", "--follow", "--limit", "1", "--json").records == [item]
    assert item["id"] in cli("waiting", "--follow", "--limit", "1").stdout

    assert cli("answer", item["id"], "approve").stdout == "resumed\n"
    assert cli("tasks", "s", "--json").document[0]["status"] == "RUNNING"
    again = cli("answer", item["id"], "reject")
    assert (again.code, again.stdout) == (1, "")
    assert "was answered before: the task is now RUNNING" in again.stderr
    assert cli("waiting", "--json").document == []


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        (["approve"], True),
        (["reject"], False),
        (["--text", "7a"], "7a"),
        (["--value", '{"seat": 7}'], {"seat": 7}),
    ],
)
def test_a_question_is_answered_from_a_shell(cli: Cli, args: list[str], answer: Any) -> None:
    """With yes, no, a text, or JSON."""
    assert asyncio.run(cli.asked("run", "seat")) is None
    [item] = cli("waiting", "--json").document
    assert cli("answer", item["id"], *args, "--json").document["decision"] == "answered"
    assert f"was answered before: answered {answer!r}\n" in cli("answer", item["id"], *args).stderr
    assert asyncio.run(cli.asked("run", "seat")) == answer


def test_a_pause_that_is_answered_is_printed(cli: Cli) -> None:
    """Nobody else can have it any more."""
    asyncio.run(cli.paused("token", {"reason": "await_input"}))
    [item] = cli("waiting", "--json").document
    decision, state = cli("answer", item["id"], "approve").stdout.split("\n", 1)
    assert (decision, json.loads(state)) == ("consumed", {"reason": "await_input"})


def test_what_only_a_framework_can_answer_is_refused_and_waits_on(cli: Cli) -> None:
    """By answer, confirm and retract, in one line that says where."""
    where = "your program: run the agent with deferred_tool_results="
    asyncio.run(cli.paused("token", {"reason": "deferred_tools", "answer_in": where}))
    [item] = cli("waiting", "--json").document
    for words in (["answer", "approve"], ["confirm"], ["retract"]):
        refused = cli(words[0], item["id"], *words[1:])
        assert (refused.code, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
        assert item["id"] in refused.stderr
        assert where in refused.stderr
    assert cli("waiting", "--json").document == [item]


def test_watching_updates_and_events(imported: Cli) -> None:
    """What is there comes first, in log order."""
    updates = imported("updates", "bike-repair-0", "--json").document
    count = str(len(updates))
    assert imported("watch", "bike-repair-0", "--limit", count, "--json").records == updates
    events = imported("watch", "bike-repair-0", "--kind", "events", "--limit", "3", "--json")
    assert [event["payload"] for event in events.records] == messages("bike-repair-0")[:3]


def test_steering_that_breaks_the_rules_is_refused(cli: Cli) -> None:
    """Before anything is saved, on one line."""
    result = cli("steer", "s", "t", "INJECT_CONTEXT")
    assert result.code == 1
    assert "INJECT_CONTEXT requires 'text'" in result.stderr
    assert result.stderr.count("\n") == 1
    assert "there is no namespace" in cli("sessions").stderr


def test_a_payload_over_the_limits_is_cut_and_that_is_said(cli: Cli) -> None:
    """What is saved is what is printed."""
    cli.start_task("s", "t")
    result = cli("steer", "s", "t", "USER_MESSAGE", "--text", "x" * 5000)
    assert "cut to the limits" in result.stderr
    (saved,) = cli("watch", "s", "--kind", "steering", "--limit", "1", "--json").records
    assert saved["payload"] == {"text": "x" * 4096}


@pytest.mark.parametrize(
    "args",
    [
        ["steer", "s", "t", "SHOUT"],
        ["steer", "s", "t", "CANCEL", "--payload", "{"],
        ["steer", "s", "t", "CANCEL", "--source", "robot"],
        ["steer", "s", "t", "CANCEL", "--payload", "[]"],
        ["watch", "t", "--kind", "events", "--since", "x"],
        ["watch", "t", "--kind", "weather"],
        ["updates", "s", "--all", "--since", "x"],
        ["waiting", "--follow", "--after", "x"],
        ["answer", "task/s/t/1f"],
        ["answer", "task/s/t/1f", "perhaps"],
        ["answer", "task/s/t/1f", "approve", "--text", "yes"],
        ["answer", "task/s/t/1f", "--value", "{"],
        ["history", "t", "--tail", "-1"],
        ["history"],
        ["nonsense"],
        ["sessions", "--url", ""],
        ["sessions", "--url", "nats://127.0.0.1:4222"],
    ],
    ids=" ".join,
)
def test_a_command_line_that_makes_no_sense(cli: Cli, args: list[str]) -> None:
    """Exit code 2, as every program has it; the last one names a URL and a path."""
    result = cli(*args)
    assert result.code == 2
    assert "Usage: foldlog" in result.stderr
    assert result.stdout == ""


def test_who_may_steer_is_named() -> None:
    """By the refusal of everybody else."""
    result = run("steer", "s", "t", "CANCEL", "--source", "robot")
    assert result.code == 2
    assert [who for who in ("user", "system", "agent") if f"'{who}'" not in result.stderr] == []


def test_an_empty_place_is_not_the_default_one() -> None:
    """As from a variable that is not set: nobody meant the working directory."""
    for option in ("--url", "--path"):
        result = run("sessions", option, "")
        assert result.code == 2
        assert "it is empty" in result.stderr


def test_streams_and_traces_are_served_by_a_command_each(tmp_path: Path) -> None:
    """Both would want a port of one server."""
    refused = run("serve", "--path", tmp_path / "data", "--http", "0", "--otlp")
    assert refused.code == 2
    assert "--http and --otlp" in refused.stderr
    assert not (tmp_path / "data").exists()


def test_a_credentials_file_is_for_a_server_at_a_url() -> None:
    """The embedded server makes its own."""
    result = run("sessions", "--creds", __file__)
    assert result.code == 2
    assert "--creds" in result.stderr


# --- operating --------------------------------------------------------------------------------


def test_rebuild(imported: Cli) -> None:
    """Every view, or those of one projection; an unknown one is an error."""
    report = imported("rebuild", "--json").document
    assert report["views"] == sum(report["projections"].values())
    assert report["projections"]["events"] == 6
    assert report["differing"] == []
    assert imported("rebuild", "--projection", "tasks", "--json").document["views"] == 6
    assert f"{report['views']} views from" in imported("rebuild").stdout

    unknown = imported("rebuild", "--projection", "weather")
    assert unknown.code == 1
    assert "no projection 'weather'" in unknown.stderr


def test_verify(imported: Cli) -> None:
    """What is served is what the log says, of all views or of one projection's."""
    report = imported("verify", "--json")
    assert report.code == 0
    assert report.document["projections"]["events"] == 6
    assert (report.document["differing"], report.document["findings"]) == ([], [])
    shown = imported("verify", "--projection", "tasks")
    assert "what is served is what the log says" in shown.stdout
    assert imported("verify", "--projection", "weather").code == 1


def test_doctor(imported: Cli) -> None:
    """The embedded server is in good health, and can be seen to be."""
    report = imported("doctor", "--json")
    assert report.code == 0
    checks = {check["name"]: check["verdict"] for check in report.document["checks"]}
    assert report.document["healthy"] is True
    assert checks["durability"] == checks["API level"] == "ok"
    assert "nats-server 2." in imported("doctor").stdout


def test_doctor_says_what_keeps_it_from_looking() -> None:
    """A server that does not answer fails one check; the password in its URL is not repeated."""
    result = run("doctor", "--url", "nats://user:secret@127.0.0.1:1", "--json")
    assert result.code == 1
    checks = {check["name"]: check for check in result.document["checks"]}
    assert checks["foldlog"]["verdict"] == "ok"
    assert checks["connection"]["verdict"] == "fail"
    assert "nats://127.0.0.1:1" in checks["connection"]["found"]
    assert "secret" not in result.stdout + result.stderr


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """A mistyped path must not look like an empty store."""
    path = tmp_path / "none"
    result = run("sessions", "--path", path)
    assert result.code == 1
    assert f"there is no data directory {path}" in result.stderr
    assert not path.exists()


def test_foreign_text_cannot_move_the_cursor(cli: Cli) -> None:
    """Ids and texts are anybody's; escapes are shown, not obeyed."""
    cli.start_task("s\x1b[2J", "t")
    cli("steer", "s\x1b[2J", "t", "USER_MESSAGE", "--text", "a\x9b31mb")
    assert cli("sessions").stdout == "s\\x1b[2J  a\\x9b31mb\n"
    shown = cli("watch", "s\x1b[2J", "--kind", "steering", "--limit", "1").stdout
    assert "a\\x9b31mb" in shown


# --- steering moves what it names ---------------------------------------------------------------


def test_steering_moves_the_task(cli: Cli) -> None:
    cli.start_task("s", "t")
    for command, status in (("pause", "PAUSED"), ("resume", "RUNNING"), ("cancel", "CANCELLED")):
        assert cli("steer", "s", "t", command).code == 0
        [task] = cli("tasks", "s", "--json").document
        assert task["status"] == status
    result = cli("steer", "s", "t", "cancel")
    assert result.code == 1
    assert "it has ended" in result.stderr


def test_steering_decides_about_a_patch(cli: Cli) -> None:
    async def gate(session: Session) -> None:
        patch = ContextPatch(task_id="t", digest=["found it"])
        await session.apply_context_patch(
            patch=patch, strategy=MergeStrategy.HUMAN_GATED, patch_id="p"
        )

    async def look(session: Session) -> None:
        assert session.state.outcome("p") == "applied"
        assert not session.pending_patches

    cli.start_task("s", "t", gate)
    payload = '{"patch_id": "p"}'
    assert cli("steer", "s", "t", "approve", "--payload", payload).code == 0
    cli.in_session("s", look)
    again = cli("steer", "s", "t", "approve", "--payload", payload)
    assert "nothing to decide" in again.stderr


def test_steering_of_nothing_is_refused(cli: Cli) -> None:
    result = cli("steer", "nowhere", "t", "pause")
    assert result.code == 1
    assert "there is no namespace" in result.stderr
    cli.start_task("s", "task")
    assert "no session 'nowhere'" in cli("steer", "nowhere", "t", "pause").stderr
    assert "did you mean 'task'?" in cli("steer", "s", "tusk", "pause").stderr
    assert cli("sessions").stdout == "s  task\n"


def test_the_command_line_is_read_without_what_commands_load() -> None:
    """Help, and a mistyped option, are answered at once."""
    heavy = {"nats", "pydantic", "rich", "foldlog.store", "foldlog.models", "importlib.metadata"}
    assert not heavy.intersection(loaded("import foldlog.cli.app"))
    assert not heavy.intersection(loaded("call('--version')"))
    assert not (heavy - {"rich"}).intersection(loaded("call('--help')"))


def test_a_command_that_reads_loads_what_it_needs(imported: Cli) -> None:
    """A second that is spent on imports is a second that everybody waits, each time."""
    args = ", ".join(map(repr, ["history", "night-shift-0", *imported.options]))
    found = loaded(f"call({args})")
    assert "foldlog.opening.store" in found
    heavy = {"duckdb", "numpy", "obstore", "opentelemetry", "pyarrow", "sqlite3", "starlette"}
    facades = {f"foldlog.{name}" for name in ("exporting", "recovery", "scoped", "sql", "ui")}
    assert not (heavy | facades | {"rich.markdown", "foldlog.cli.demo.acts"}).intersection(found)


def loaded(code: str) -> list[str]:
    """The modules of a fresh process that has run `code`, in which `call` is the command line."""
    program = f"""
import sys
def call(*args):
    sys.argv = ["foldlog", *args]
    sys.stdout, kept = sys.stderr, sys.stdout
    from foldlog.cli import main
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code
    finally:
        sys.stdout = kept
{code}
print(*sys.modules)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return result.stdout.split()

"""The real entry point, in a process of its own: signals, pipes and servers."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from foldlog.importer import demo_transcript
from tests.cli.support import PATIENCE, Cli, run, run_process, start


def test_import_and_read_back_in_processes(tmp_path: Path) -> None:
    """Each process starts the server of the directory and stops it again."""
    path = tmp_path / "data"
    first = run_process("import", demo_transcript(), "--json", FOLDLOG_PATH=str(path))
    assert (first.code, first.stderr) == (0, "")
    second = run_process("export", "-", "--session", "bike-repair-0", "--path", path)
    assert second.code == 0
    sent = json.loads(demo_transcript().read_text("utf-8").splitlines()[0])
    [record] = [each for each in second.records if each.get("kind") == "messages"]
    assert [each["payload"]["body"] for each in record["envelopes"]] == sent["messages"]
    assert not (path / "server.pid").exists()


@pytest.mark.parametrize(("name", "as_lines"), [("-", True), ("/dev/stdin", False)])
def test_import_reads_standard_input(cli: Cli, name: str, as_lines: bool) -> None:
    """A pipe, which can be read once only, in every form that a file may have."""
    lines = demo_transcript().read_text("utf-8")
    sent = lines if as_lines else json.dumps([json.loads(line) for line in lines.splitlines()])
    with cli.start("import", name, "--json") as importing:
        stdout, stderr = importing.communicate(sent, timeout=PATIENCE)
    assert (importing.returncode, stderr) == (0, "")
    assert json.loads(stdout)["conversations"] == 6


def test_an_export_goes_through_a_pipe(cli: Cli, tmp_path: Path) -> None:
    """`-` is standard output and standard input; a command that needs a file says so."""
    cli.start_task("s", "t")
    with cli.start("export", "-") as exporting:
        sent, stderr = exporting.communicate(timeout=PATIENCE)
    assert (exporting.returncode, stderr) == (0, "")
    for command in ("import", "restore"):
        path = tmp_path / command
        with start(command, "-", "--json", "--path", path) as reading:
            stdout, stderr = reading.communicate(sent, timeout=PATIENCE)
        assert (reading.returncode, stderr) == (0, "")
        assert json.loads(stdout)["records"] == json.loads(sent.splitlines()[-1])["records"]
    for args in (["backup", "-"], ["bundle", "s", "-o", "-"]):
        assert cli(*args).code == 2
    assert not Path("-").exists()


def test_ctrl_c_while_the_program_is_still_loading(tmp_path: Path) -> None:
    """No traceback, whatever is being imported: here what the command line is made of."""
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    result = run_process("sessions", PYTHONPATH=str(tmp_path))
    assert (result.code, result.stdout, result.stderr) == (130, "", "")


def test_watch_sees_what_another_process_steers_and_ctrl_c_ends_it(cli: Cli) -> None:
    """It follows while others write; interrupted, it says nothing and exits with 130."""
    cli.start_task("s", "t")
    cli("steer", "s", "t", "PAUSE")
    with cli.start("watch", "s", "--kind", "steering", "--json") as watch:
        assert watch.stdout is not None
        assert json.loads(watch.stdout.readline())["event_type"] == "PAUSE"
        event_id = cli("steer", "s", "t", "RESUME").stdout.strip()
        assert json.loads(watch.stdout.readline())["event_id"] == event_id
        watch.send_signal(signal.SIGINT)
        stdout, stderr = watch.communicate(timeout=PATIENCE)
    assert (watch.returncode, stdout, stderr) == (130, "", "")


def test_a_reader_that_has_had_enough_is_no_error(cli: Cli) -> None:
    """As in `foldlog watch ... | head -1`: quiet, for lines of JSON and for people's."""
    cli.start_task("s", "t")
    for args in (["--json"], []):
        cli("steer", "s", "t", "PAUSE")
        with cli.start("watch", "s", "--kind", "steering", *args) as watch:
            assert watch.stdout is not None
            assert watch.stderr is not None
            assert watch.stdout.readline()
            watch.stdout.close()
            # Whatever was in the buffer already, what comes now cannot be written.
            cli("steer", "s", "t", "RESUME")
            assert watch.wait(PATIENCE) == 141
            assert watch.stderr.read() == ""


def test_serve_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """The URL is printed, the password is not; it is in a file that only its user can read."""
    path = tmp_path / "data"
    with start("serve", "--path", path, "--json") as serve:
        assert serve.stdout is not None
        facts = json.loads(serve.stdout.readline())
        credentials = Path(facts["credentials_file"])
        secrets = json.loads(credentials.read_text("utf-8"))
        assert credentials.stat().st_mode & 0o077 == 0
        assert "password" not in facts
        assert secrets["password"] not in json.dumps(facts)

        steer = ["steer", "s", "t", "PAUSE", "--url", facts["url"]]
        stranger = run_process(*steer)
        assert stranger.code == 1
        assert stranger.stderr.startswith(f"foldlog: no connection to {facts['url']}: it refuses")
        assert stranger.stderr.count("\n") == 1
        sign_in = {"FOLDLOG_USER": secrets["user"], "FOLDLOG_PASSWORD": secrets["password"]}
        assert "no session 's'" in run_process(*steer, **sign_in).stderr
        assert run("sessions", "--path", path).stdout == ""

        serve.send_signal(signal.SIGTERM)
        stdout, stderr = serve.communicate(timeout=PATIENCE)
    assert (serve.returncode, stdout, stderr) == (0, "", "")
    assert not (path / "server.pid").exists()


def test_serve_shows_its_credentials_when_asked(tmp_path: Path) -> None:
    """And ends on Ctrl-C in order."""
    with start("serve", "--path", tmp_path / "data", "--json", "--show-credentials") as serve:
        assert serve.stdout is not None
        facts = json.loads(serve.stdout.readline())
        secrets = json.loads(Path(facts["credentials_file"]).read_text("utf-8"))
        assert (facts["user"], facts["password"]) == (secrets["user"], secrets["password"])
        serve.send_signal(signal.SIGINT)
        assert serve.wait(PATIENCE) == 0


REPORTING = """
import foldlog
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader

lines = ConsoleMetricExporter(formatter=lambda data: data.to_json(indent=None) + "\\n")
reader = PeriodicExportingMetricReader(lines, export_interval_millis=100)
metrics.set_meter_provider(MeterProvider([reader]))

@foldlog.durable
async def report(run):
    pass
"""


def test_a_worker_exports_metrics_where_its_module_sets_them_up(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "reporting.py").write_text(REPORTING)
    assert cli("start", "report", "--id", "x").code == 0
    assert cli("queue", "limit", "default", "--at-once", "4").code == 0
    assert "go with limit" in cli("queue", "pause", "default", "--at-once", "4").stderr
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with cli.start("worker", "reporting", PYTHONPATH=path) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            if '"foldlog.queue.workers"' in line and '"queue": "default"' in line:
                break
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0


WORKING = """
import asyncio, foldlog

@foldlog.durable(queue="gpu")
async def train(run):
    print("begun", flush=True)
    await asyncio.Event().wait()
"""


def test_queues_tell_what_a_worker_does(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "working.py").write_text(WORKING)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    assert cli("start", "train", "--id", "x", "--session", "ann", "--queue", "gpu").code == 0
    assert "no worker for train" in cli("queues").stdout
    with cli.start("worker", "working", PYTHONPATH=path) as worker:
        assert worker.stdout is not None
        assert "begun\n" in iter(worker.stdout.readline, "")
        [told] = cli("queues", "--json").document["workers"]
        shown = cli("queues").stdout
        worker.kill()
    assert (told["pid"], told["runs"][0]["id"]) == (worker.pid, "x")
    [line] = [line for line in shown.splitlines() if line.startswith("x ")]
    assert line.split()[:5] == ["x", "ann", "train", "gpu", str(worker.pid)]

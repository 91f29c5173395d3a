"""Two ways to run a command: inside this process, and as its users do."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

from typer import testing

import foldlog
from foldlog.cli.app import app
from foldlog.importer import demo_transcript
from foldlog.runs import RunPaused
from foldlog.sessions import Session

# Its runner makes all commands anew for each command line, which takes longer than most of them.
testing._get_command = cache(testing._get_command)

Use = Callable[[Session], Awaitable[None]]

ENVIRONMENT = {"COLUMNS": "100", "FOLDLOG_URL": "", "FOLDLOG_PATH": "", "NO_COLOR": "1"}
"""What makes the output the same everywhere, and points at no store of the developer's."""

PATIENCE = 60
"""Seconds after which a process that does not end is taken to hang."""


class Run:
    """What one run of a command gave."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def document(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.stdout)

    @property
    def ids(self) -> list[str]:
        """The first words of the lines: ids, with titles beside them."""
        return [line.split()[0] for line in self.stdout.splitlines()]

    @property
    def records(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.stdout.splitlines()]


class Cli:
    """Runs commands on one namespace of a data directory."""

    def __init__(self, path: Path, namespace: str) -> None:
        self.options = ["--path", str(path), "--namespace", namespace]
        self.place: Any = {"path": path, "namespace": namespace}

    def __call__(self, *args: str | Path) -> Run:
        """Run in this process, which is quicker."""
        return run(*args, *self.options)

    def start(self, *args: str | Path, **environment: str) -> subprocess.Popen[str]:
        """Start a process that goes on until it is told to stop."""
        return start(*args, *self.options, **environment)

    def in_session(self, session_id: str, use: Use) -> None:
        """Do something with a session of the namespace, as a program would."""

        async def used() -> None:
            async with foldlog.connect(**self.place) as store, store.session(session_id) as opened:
                await use(opened)

        asyncio.run(used())

    async def record_events(self) -> None:
        """Save each message of the bundled conversations as an event, as their agents would."""
        async with foldlog.connect(**self.place) as store:
            for line in demo_transcript().read_text("utf-8").splitlines():
                item = json.loads(line)
                trace = f"{item['task_id']}-{item['trial']}"
                messages = enumerate(item.get("traj") or item["messages"])
                await store.save_events(
                    foldlog.StoredEvent(trace, float(n), f"message.{m['role']}", None, None, m)
                    for n, m in messages
                )

    async def asked(self, name: str, question: str) -> Any:
        """Have a run ask; return the answer, or None while there is none."""
        async with foldlog.connect(**self.place) as store:
            try:
                async with store.run(name) as run:
                    return await run.ask(question, "which?", wait=0)
            except RunPaused:
                return None

    async def paused(self, token: str, state: dict[str, Any]) -> None:
        """Have a planner wait."""
        async with foldlog.connect(**self.place) as store:
            await store.save_planner_state(token, state)

    def start_task(self, session_id: str, task_id: str, then: Use | None = None) -> None:
        """Have a task of a session run."""

        async def started(session: Session) -> None:
            await session.spawn_task(task_id=task_id)
            await session.start_task(task_id)
            if then is not None:
                await then(session)

        self.in_session(session_id, started)


def run(*args: str | Path, **environment: str) -> Run:
    """Run a command in this process; an exception that it lets through is raised."""
    env = {**ENVIRONMENT, **environment}
    result = testing.CliRunner().invoke(
        app, [str(arg) for arg in args], prog_name="foldlog", env=env
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Run(result.exit_code, result.stdout, result.stderr)


def start(*args: str | Path, **environment: str) -> subprocess.Popen[str]:
    """Start a process with the real entry point."""
    return subprocess.Popen(
        [sys.executable, "-m", "foldlog", *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, **ENVIRONMENT, **environment},
    )


def run_process(*args: str | Path, **environment: str) -> Run:
    """Run a process to its end."""
    with start(*args, **environment) as process:
        stdout, stderr = process.communicate(timeout=PATIENCE)
    return Run(process.returncode, stdout, stderr)

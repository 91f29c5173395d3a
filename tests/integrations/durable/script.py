"""What the scripted agent of every framework does: six calls, of a model and of its tools.

Each call is written to a file that outlives its process, and may be the one at which it dies.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, Final, NamedTuple


class ToolCall(NamedTuple):
    """A call of a tool, as the model wants it."""

    id: str
    tool: str
    city: str


TURNS: Final = (
    (ToolCall("call-1", "search", "Oslo"),),
    (ToolCall("call-2", "book", "Oslo"), ToolCall("call-3", "book", "Bergen")),
)
"""What the model wants at its first calls; at the next it answers."""

CALLS: Final = ("model 1", "search Oslo", "model 2", "book Oslo", "book Bergen", "model 3")
"""All that happens, each once."""

TOOLS: Final = ("search Oslo", "book Oslo", "book Bergen")
MOMENTS: Final = ("begun", "done")
"""When a process dies in a call: before its effect, or after it and before anybody knows."""

STOPPED: Final = "stopped"
"""In place of a moment: the process is told to stop in a call, and may end it."""

PROMPT: Final = "a trip to Oslo"


def result_of(call: str) -> str:
    """What a tool returns."""
    return f"{call}: done"


class Script:
    """The calls of one process.

    Args:
        file: where the calls of all processes stand, a JSON value a line.
        dies_at: the call and the moment at which a process is killed, or told to stop; "": never.
        pid: that process. None: this one.
    """

    def __init__(self, file: Path, dies_at: str = "", pid: int | None = None) -> None:
        self.file = file
        self.dies_at = dies_at
        self._pid = pid or os.getpid()

    def model(self, responses: int) -> tuple[ToolCall, ...]:
        """What the model wants that has responded so often: calls of tools; none: it answers."""
        self._happen(f"model {responses + 1}")
        return TURNS[responses] if responses < len(TURNS) else ()

    def tool(self, tool: str, city: str) -> str:
        """What a tool does, and returns."""
        call = f"{tool} {city}"
        self._happen(call)
        return result_of(call)

    def answer(self, results: list[str]) -> str:
        """What the model says at last, having been given the results of all tools."""
        return ", ".join(sorted(results))

    def _happen(self, call: str) -> None:
        if self.dies_at == f"{call} {STOPPED}":
            os.kill(self._pid, signal.SIGTERM)
        for moment in MOMENTS:
            self._write(call, moment)
            if self.dies_at == f"{call} {moment}":
                os.kill(self._pid, signal.SIGKILL)

    def _write(self, *said: str) -> None:
        with self.file.open("a") as file:
            file.write(json.dumps([*said, os.getpid()]) + "\n")


def read_calls(file: Path) -> list[tuple[str, str, int]]:
    """What happened: call, moment and process, in order."""
    if not file.exists():
        return []
    lines: list[Any] = [json.loads(line) for line in file.read_text().splitlines()]
    return [(call, moment, pid) for call, moment, pid in lines]

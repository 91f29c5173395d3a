"""The agent of `explanation/which-api.md` is killed at random moments; it does each thing once."""

from __future__ import annotations

import os
import random
import signal
import tempfile
from asyncio import selector_events
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.markdown import ROOT, read
from tests.support.forked import process_of, run_program
from tests.support.workers import PATIENCE, environment

EFFECTS = ["book flight 7", "find a hotel", "hold flight 7"]
WRITES = 60
"""How often a run writes to the server, about: a moment to be killed at is one of these."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The page's program, as a reader saves it."""
    page = read(ROOT / "docs/explanation/which-api.md")
    [block] = [block for block in page.blocks if block.language == "python"]
    script = tmp_path / "agent.py"
    script.write_text(block.text, "utf-8")
    return script


def run(script: Path, directory: Path, until: int | None) -> tuple[int | None, str]:
    """Run the program until it ends, or SIGKILL ends it before its write number `until`."""
    printed = directory / "printed"
    process = process_of(target=_run, args=(script, directory, printed, until))
    process.start()
    process.join(PATIENCE)
    assert not process.is_alive()
    return process.exitcode, printed.read_text("utf-8")


def _run(script: Path, directory: Path, printed: Path, until: int | None) -> None:
    out = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(directory)
    if until is not None:
        _kill_before_write(until)
    run_program(script, [str(script)], environment(), strict=True)


def _kill_before_write(number: int) -> None:
    numbers: Iterator[int] = iter(range(1, number))
    transport: Any = selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
    write = transport.write

    def counted(self: Any, data: bytes) -> None:
        if next(numbers, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, data)

    transport.write = counted


@pytest.mark.long
def test_the_agent_is_killed_ten_times_and_does_each_thing_once(program: Path) -> None:
    kills, seed = 0, random.randrange(2**32)
    moments = random.Random(seed)
    while kills < 10:  # each time in a world of its own, of which a run may leave before the moment
        world = Path(tempfile.mkdtemp(dir=program.parent))
        code, printed = run(program, world, moments.randint(1, WRITES))
        assert code in (0, -signal.SIGKILL), f"seed {seed}: {printed}"
        kills += code == -signal.SIGKILL
        for _ in range(2):  # it asks, unless it has; then it ends
            code, printed = run(program, world, None)
            assert code == 0, f"seed {seed}: {printed}"
        assert printed.count("To Oslo!") == 1
        assert "'assistant': 'book flight 7: done'" in printed
        assert sorted((world / "world.txt").read_text().splitlines()) == EFFECTS, f"seed {seed}"

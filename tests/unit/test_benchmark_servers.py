"""The servers that benchmarks and tests start as child processes."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import pytest
from benchmarks.servers.process import running
from benchmarks.unavailable import Unavailable

_SAYS_MUCH = """
import sys, time
print("ready", flush=True)
print("x" * 10**6, flush=True)
open(sys.argv[1], "w").write("all of it")
time.sleep(60)
"""


async def test_a_server_that_says_much_is_not_held_up_while_no_loop_runs(tmp_path: Path) -> None:
    said = tmp_path / "said"
    os.mkfifo(said)
    coming = os.open(said, os.O_RDONLY | os.O_NONBLOCK)
    async with running([sys.executable, "-c", _SAYS_MUCH, str(said)], ready="ready"):
        assert select.select([coming], [], [], 30.0)[0]
        assert os.read(coming, 100) == b"all of it"
    os.close(coming)


async def test_a_server_that_ends_before_it_is_ready_says_its_last_words() -> None:
    with pytest.raises(Unavailable, match="did not start: a b; no port"):
        async with running([sys.executable, "-c", "print('a b\\nno port')"], ready="ready"):
            raise AssertionError

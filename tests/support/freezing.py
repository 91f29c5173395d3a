"""Processes that are alive and answer nothing."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def freeze(pid: int) -> None:
    """Send SIGSTOP, and return when every thread is stopped: on a busy machine one answers once
    more.
    """
    os.kill(pid, signal.SIGSTOP)
    while not _is_stopped(pid):
        os.sched_yield()


def _is_stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped, where the system tells."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(FileNotFoundError):  # a thread that has ended
            if (task / "stat").read_text().rpartition(")")[2].split()[0] not in "Tt":
                return False
    return True

"""Ctrl-C: a command exits with 130 and says nothing, whenever it comes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

INTERRUPTED: Final = 130  # 128 and the number of the signal, as shells have it


def exit_on_interrupt() -> None:
    """From now on, while nothing is there that would have to be cleaned up, just exit.

    A program that was started so that it ignores Ctrl-C goes on ignoring it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


@contextmanager
def cancel_on_interrupt() -> Iterator[None]:
    """For the block, leave Ctrl-C to asyncio, which cancels what it runs."""
    if signal.getsignal(signal.SIGINT) is not _exit:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _exit)


def _exit(number: int, frame: object) -> None:
    os._exit(INTERRUPTED)

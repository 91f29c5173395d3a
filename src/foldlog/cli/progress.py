"""A progress bar for people who wait at a terminal; silence for everybody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from foldlog.cli.output import console

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[int, int, str], None]
"""Tells the bar how much is done, of how much, and a word on it."""


@contextmanager
def progress_bar(label: str, *, on: Console | None = None, keep: bool = False) -> Iterator[Advance]:
    """A bar for the length of the block, on standard error unless `on` another console.

    `keep` leaves the full bar standing. Where no terminal is, nothing is printed.
    """
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    where = on or console(stderr=True)
    bar = Progress(
        TextColumn(label),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[word]}", markup=False),
        console=where,
        transient=not keep,
        disable=not where.is_terminal,
    )
    with bar:
        task = bar.add_task(label, total=None, word="")

        def advance(done: int, total: int, word: str) -> None:
            bar.update(task, completed=done, total=total, word=word)

        yield advance

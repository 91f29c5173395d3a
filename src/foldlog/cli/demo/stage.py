"""What the audience sees: lines while it happens, and a table at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from foldlog.cli.demo.kill import Killed
from foldlog.cli.demo.observer import Item
from foldlog.cli.demo.proof import Proof
from foldlog.cli.output import printable
from foldlog.cli.progress import progress_bar
from foldlog.jsonable import compact
from foldlog.models import StateUpdate
from foldlog.store import RebuildProgress

if TYPE_CHECKING:
    from rich.console import Console

_VERDICTS: Final = {True: ("✔", "bold green"), False: ("✘", "bold red"), None: ("-", "dim")}


class Stage:
    """Tells people what happens; `silent` leaves that to somebody else."""

    def __init__(self, console: Console, *, silent: bool) -> None:
        self._console = console
        self._console.quiet = silent

    def announce(self, text: str) -> None:
        """A new act begins."""
        self._console.print(f"\n{text}", style="bold")

    def note(self, text: str) -> None:
        """A fact about the act."""
        self._console.print(f"  {text}", style="dim")

    def item(self, item: Item) -> None:
        """The watcher received something."""
        from rich.text import Text

        kind, content, colour = (
            (str(item.update_type), item.content, "cyan")
            if isinstance(item, StateUpdate)
            else (str(item.event_type), item.payload, "magenta")
        )
        line = Text.assemble(
            ("  ▸ ", "dim"),
            (f"{printable(item.session_id):<22.22} ", "green"),
            (f"{kind:<13}", colour),
            printable(_gist(content)),
        )
        self._console.print(line, no_wrap=True, overflow="ellipsis")

    def killed(self, pid: int, in_flight: int) -> None:
        """The server was killed just now."""
        self._rule(f"SIGKILL to nats-server, pid {pid}, with {in_flight} saves in flight", "red")

    def back(self, killed: Killed) -> None:
        """A new connection has read the log of the server that was started again."""
        outage = f"{killed.outage * 1000:.0f} ms"
        self._rule(f"back as pid {killed.new_pid}, read again after {outage}", "green")

    def _rule(self, text: str, colour: str) -> None:
        from rich.rule import Rule

        self._console.print(Rule(text, style=colour, characters="─"))

    @contextmanager
    def progress(self, label: str) -> Iterator[Callable[[RebuildProgress], None]]:
        """A bar for a rebuild."""
        with progress_bar(label, on=self._console, keep=True) as advance:

            def on_progress(progress: RebuildProgress) -> None:
                advance(progress.done, progress.total, f"{progress.envelopes:,} envelopes")

            yield on_progress

    def verdict(self, proofs: list[Proof]) -> None:
        """The table."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.ROUNDED, border_style="dim", header_style="bold", expand=False)
        table.add_column("")
        table.add_column("What was to be shown")
        table.add_column("What was seen")
        table.add_column("Time", justify="right")
        for proof in proofs:
            mark, style = _VERDICTS[proof.passed]
            table.add_row(Text(mark, style), proof.claim, proof.figure, _time(proof.seconds))
        self._console.print()
        self._console.print(table)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:,.0f} ms" if seconds >= 0.001 else "< 1 ms"


def _gist(content: object) -> str:
    """What a person wants to see of a tool call or a text: on one line."""
    match content:
        case {"text": str(text)}:
            return " ".join(text.split())
        case {"name": str(name), "arguments": arguments}:
            return f"{name}({compact(arguments)})"
    return compact(content)

"""`foldlog diff`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from foldlog.cli import completing
from foldlog.cli.command import command
from foldlog.cli.difference import Change, Described, differences
from foldlog.cli.ids import check_session
from foldlog.cli.lines import fields
from foldlog.cli.moments import MOMENT_HELP, At, is_moment, seen
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json, printable

if TYPE_CHECKING:
    from rich.console import Console

    from foldlog.opening import Store

NOW: Final = "now"

_SIGNS: Final = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}

Side = Annotated[
    str,
    typer.Argument(
        help=f"A session, or a moment: now, {MOMENT_HELP}.", autocompletion=completing.session_ids
    ),
]
Session = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="Compare this session at two moments; without it, all there is.",
        autocompletion=completing.session_ids,
    ),
]


@command
async def diff(target: Target, a: Side, b: Side, session: Session = None, at: At = None) -> None:
    """Compare two moments, or two sessions.

    From A to B: what was added, removed and changed.
    """
    from foldlog.cli import describe

    moments = [each == NOW or is_moment(each) for each in (a, b)]
    if session is None and any(moments) and not all(moments):
        raise typer.BadParameter(
            "a moment and a session: name two moments, or two sessions; an event's id is a moment "
            "with --session"
        )
    if at is not None and (session is not None or all(moments)):
        raise typer.BadParameter("--at: it says when two sessions are compared")
    async with target.connect() as store:
        if session is not None:
            sides = [{session: await describe.session(_at(store, x), session)} for x in (a, b)]
            await _check(store, {session: any(side[session] for side in sides)})
        elif all(moments):
            sides = [dict(await describe.everything(_at(store, x))) for x in (a, b)]
        else:
            sides = [{b: await describe.session(seen(store, at), x)} for x in (a, b)]
            await _check(store, {x: bool(side[b]) for x, side in zip((a, b), sides, strict=True)})
    found = compared(*sides)
    if target.json:
        print_json({"a": a, "b": b, "differences": found})
    else:
        _show(console(), a, b, found)


def compared(a: Mapping[str, Described], b: Mapping[str, Described]) -> dict[str, list[Change]]:
    """What differs, by session; "" for what is no session's. Sessions without differences are
    left out."""
    found = {
        name: list(differences(a.get(name, {}), b.get(name, {})))
        for name in dict.fromkeys([*a, *b])
    }
    return {name: changes for name, changes in found.items() if changes}


async def _check(store: Store, is_there: Mapping[str, bool]) -> None:
    for name, there in is_there.items():
        if not there:
            await check_session(store, name)


def _at(store: Store, moment: str) -> Store:
    return seen(store, None if moment == NOW else moment)


def _show(out: Console, a: str, b: str, found: dict[str, list[Change]]) -> None:
    if not found:
        out.print(f"{printable(a)} and {printable(b)} are the same")
    for name, changes in found.items():
        if name:
            out.print(f"session {printable(name)}", style="bold", soft_wrap=True)
        for change in changes:
            _show_change(out, change, indent="  " if name else "")


def _show_change(out: Console, change: Change, indent: str) -> None:
    sign, style = _SIGNS[change.how]
    head = f"{indent}{sign} {change.kind} {printable(change.id)}"
    if change.how == "changed":
        out.print(head, style=style, soft_wrap=True)
        for path, (old, new) in change.values.items():
            line = f"{indent}    {printable(path or 'it')}: {_text(old)} -> {_text(new)}"
            out.print(line, soft_wrap=True)
    else:
        whole = change.values if isinstance(change.values, str) else ""
        out.print(f"{head}  {printable(whole)}".rstrip(), style=style, soft_wrap=True)
        for line in () if whole else fields(change.values):
            out.print(f"{indent}    {line}", soft_wrap=True)


def _text(value: Any) -> str:
    from foldlog.cli import describe

    return printable(describe.one_line(value))

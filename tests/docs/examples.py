"""Examples in docstrings: `>>>` lines run with a memory store, awaits included."""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import io
import sys
from typing import Any

import msgspec

import foldlog
from tests.docs.surface import Documented


async def run(of: Documented) -> list[str]:
    """Run the examples of a docstring; return what differs from what it says, or fails."""
    names: dict[str, Any] = {"foldlog": foldlog, "msgspec": msgspec, "__name__": "example"}
    store = names["store"] = foldlog.memory_store()
    wrong = []
    for example in doctest.DocTestParser().get_examples(of.doc):
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                await _run(example.source, names)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test tells
            wrong.append(f"{of.name}: {example.source}{type(error).__name__}: {error}")
            break
        if printed.getvalue() != example.want:
            wrong.append(f"{of.name}: {example.source}gives {printed.getvalue()}")
    for each in {id(each): each for each in (store, names["store"])}.values():
        await each.close()
    return wrong


async def _run(source: str, names: dict[str, Any]) -> None:
    """Run one example as an interactive interpreter does: it shows the value of an expression."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(source, "<example>", "single", flags=flags, dont_inherit=True)
    shown, sys.displayhook = sys.displayhook, _show
    try:
        result = eval(code, names)
        if inspect.iscoroutine(result):
            await result
    finally:
        sys.displayhook = shown


def _show(value: object) -> None:
    if value is not None:
        sys.stdout.write(f"{value!r}\n")

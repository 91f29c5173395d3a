"""What a module of the user's declares: durable functions, projectors."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TypeVar

import typer

T = TypeVar("T")


def declared_in(module: str, kind: type[T], what: str, how: str) -> list[T]:
    """Return what stands in a module, which is looked for in this folder, too.

    Args:
        module: the module's name: `agent`, or `shop.jobs`.
        kind: the class of what is looked for.
        what: what that is called.
        how: how one is made.

    Raises:
        BadParameter: there is no such module, or nothing of that class in it.
    """
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise typer.BadParameter(f"there is no module {module!r} here: {error}") from error
    declared = [each for each in vars(found).values() if isinstance(each, kind)]
    if not declared:
        raise typer.BadParameter(f"{module} has no {what}: {how}")
    return declared

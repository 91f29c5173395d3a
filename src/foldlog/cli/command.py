"""From a coroutine function to a command: the shared options, and one meaning per exit code.

0: it worked. 1: it did not, and one line on standard error says why; or what was checked is not
as it should be. 2: the command line makes no sense. 130: interrupted. 141: the reader of the
output closed it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

import typer

from foldlog.cli.interrupt import INTERRUPTED, cancel_on_interrupt
from foldlog.cli.moments import MOMENT_HELP
from foldlog.cli.options import Target
from foldlog.errors import FoldlogError, UnknownMoment

BROKEN_PIPE = 141  # 128 and the number of the signal, as shells have it
_SHARED: Final = list(inspect.signature(Target, eval_str=True).parameters.values())


def command(
    body: Callable[..., Coroutine[Any, Any, int | None]],
) -> Callable[..., None]:
    """Make a command of `body`, which gets the shared options as its first argument.

    `body` returns its exit code; None is 0.
    """
    own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + _SHARED

    @functools.wraps(body)
    def run(**values: Any) -> None:
        target = Target(**{each.name: values.pop(each.name) for each in _SHARED})
        raise typer.Exit(_exit_code(body(target, **values)))

    # What Typer reads to build the command line.
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _exit_code(work: Coroutine[Any, Any, int | None]) -> int:
    try:
        with cancel_on_interrupt():
            code = asyncio.run(work)
        sys.stdout.flush()  # a reader that has left is noticed here, not at interpreter exit
    except FoldlogError as error:
        # A server's log tail has several lines, and ids may hold anything.
        forms = f"; a moment is {MOMENT_HELP}" if isinstance(error, UnknownMoment) else ""
        typer.echo(f"foldlog: {error}{forms}", err=True)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code or 0

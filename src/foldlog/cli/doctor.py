"""`foldlog doctor`."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import foldlog
from foldlog.cli.checks import Check, Verdict, of_health, of_spool
from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json, printable, table

_COLOURS: Final = {
    Verdict.OK: "green",
    Verdict.WARN: "yellow",
    Verdict.FAIL: "bold red",
    Verdict.UNKNOWN: "dim",
}


@command
async def doctor(target: Target) -> int:
    """Say what could be verified about the log.

    Changes nothing, and also says what could not be verified. Reads every file of an archive in a
    directory.
    """
    checks = [check async for check in _examine(target)]
    healthy = all(check.verdict is not Verdict.FAIL for check in checks)
    if target.json:
        print_json({"healthy": healthy, "checks": checks})
    else:
        _show(checks)
    return 0 if healthy else 1


async def _examine(target: Target) -> AsyncIterator[Check]:
    import platform
    from importlib import metadata

    from foldlog.store.spool.place import directory_in, look

    yield Check("foldlog", Verdict.OK, foldlog.__version__)
    yield Check("nats-py", Verdict.OK, metadata.version("nats-py"))
    yield Check("Python", Verdict.OK, f"{platform.python_version()} on {platform.platform()}")
    try:
        async with target.connect() as store:
            health = await store.health(archive_files=True)
    except foldlog.FoldlogError as error:
        yield Check("connection", Verdict.FAIL, str(error))
        return
    embedded = health.embedded
    free = None if embedded is None else shutil.disk_usage(embedded.path).free
    for check in of_health(health, free):
        yield check
    data = target.directory if embedded is None else Path(embedded.path)
    yield of_spool(look(directory_in(data)))


def _show(checks: list[Check]) -> None:
    from rich.text import Text

    shown = table("check", "!verdict", "found")
    for check in checks:
        verdict = Text(check.verdict, _COLOURS[check.verdict])
        shown.add_row(printable(check.name), verdict, printable(check.found))
    console().print(shown)

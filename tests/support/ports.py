"""Ports for servers that have to know theirs before they start."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 10_000


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on, below those that the system hands out itself.

    Of those it may give one to somebody else before the server is there.
    """
    end = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 49_152
    found = list[int]()
    with contextlib.ExitStack() as held:
        while len(found) < count:
            port = random.SystemRandom().randrange(_FIRST, end)
            with contextlib.suppress(OSError):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
                found.append(port)
    return found

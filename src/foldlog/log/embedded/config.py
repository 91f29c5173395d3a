"""The address, credentials and configuration of a server, chosen before it starts."""

from __future__ import annotations

import secrets
import socket

from msgspec.structs import replace

from foldlog.log.embedded.layout import Description, Durability

HOST = "127.0.0.1"

MAX_PAYLOAD = 8 * 1024 * 1024
"""Bytes of one message: the largest that nats-server does not warn about."""

MAX_FILE_STORE = 1 << 50
"""Bytes the log may take: in effect no limit. Without one nats-server takes a share of the space
that is free when it starts, and the limit would shrink from start to start as the log grows."""


def describe_new(durability: Durability) -> Description:
    """Return a server to be: a port that is free now, and random credentials."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return Description(
        name=f"foldlog-{secrets.token_hex(8)}",
        port=port,
        user=f"foldlog-{secrets.token_hex(4)}",
        password=secrets.token_hex(32),
        durability=durability,
    )


def describe_again(crashed: Description, durability: Durability) -> Description:
    """Return the successor of a server that was killed.

    It has the same address and credentials, because members of the old one may be reconnecting,
    and is never less durable than what they were promised.
    """
    return replace(crashed, durability="fsync") if durability == "fsync" else crashed


def port_is_taken(port: int) -> bool:
    """Whether a process listens on `port` of the loopback interface, so that a server could not."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as nats-server does
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
        return False


def render(description: Description) -> str:
    """Return the ``nats.conf`` of a server that runs inside its data directory.

    The store's path is relative, so no path needs quoting. There is no monitoring port.
    """
    sync = "\n  sync_interval: always" if description.durability == "fsync" else ""
    return f"""\
server_name: "{description.name}"
listen: "{HOST}:{description.port}"
max_payload: {MAX_PAYLOAD}
jetstream {{
  store_dir: "."
  max_file_store: {MAX_FILE_STORE}{sync}
}}
authorization {{
  user: "{description.user}"
  password: "{description.password}"
}}
"""

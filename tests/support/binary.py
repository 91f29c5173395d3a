"""Where the nats-server of this environment is."""

from __future__ import annotations

import shutil
import sysconfig


def nats_server() -> str | None:
    """The path of the nats-server that was installed beside this Python, else of the one on PATH.

    None where there is neither, as on platforms that have no wheel of it.
    """
    return shutil.which("nats-server", path=sysconfig.get_path("scripts")) or shutil.which(
        "nats-server"
    )

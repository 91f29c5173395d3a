"""A worker in a process of its own: worker.py PATH NAMESPACE MODULE:FUNCTION FILE "CALL MOMENT".

FUNCTION makes the framework's agent of a script. It dies at that moment of that call; at "" it
does not. Says "ready".
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
from pathlib import Path

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import foldlog
from tests.integrations.durable.script import Script


async def main(path: str, namespace: str, made_by: str, file: str, dies_at: str) -> None:
    module, _, function = made_by.partition(":")
    make = getattr(importlib.import_module(module), function)
    agent = make(Script(Path(file), dies_at))
    async with foldlog.connect(path=path, namespace=namespace) as store:
        worker = foldlog.Worker(store, [agent], lease=2)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        os.write(1, b'"ready"\n')
        await worker.run()


asyncio.run(main(*sys.argv[1:]))

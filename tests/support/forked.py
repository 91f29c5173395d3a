"""Processes that are forked from one that has imported foldlog and done nothing else.

The import costs more than all that most of them do.
"""

from __future__ import annotations

import ast
import asyncio
import atexit
import inspect
import multiprocessing
import os
import sys
import warnings
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.support.preloaded"])


class Forked:
    """A script that runs, with the methods of `asyncio.subprocess.Process` that tests use."""

    stdin: StreamWriter
    stdout: StreamReader
    stderr: StreamReader

    def __init__(self, process: Any) -> None:
        self._process = process

    @classmethod
    async def start(cls, script: Path, *args: str, env: Mapping[str, str]) -> Forked:
        """Run `script` as ``python script args`` would, its three streams being pipes."""
        in_, to_in = _processes.Pipe(duplex=False)
        from_out, out = _processes.Pipe(duplex=False)
        from_err, err = _processes.Pipe(duplex=False)
        given = ((in_, out, err), [str(script), *args], dict(env), os.getcwd())
        process = _processes.Process(target=_run_worker, args=given)
        process.start()
        for theirs in (in_, out, err):
            theirs.close()
        self = cls(process)
        self.stdin = await _writer(to_in)
        self.stdout, self.stderr = await _reader(from_out), await _reader(from_err)
        return self

    @property
    def pid(self) -> int:
        pid: int = self._process.pid
        return pid

    @property
    def returncode(self) -> int | None:
        code: int | None = self._process.exitcode
        return code

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    async def wait(self) -> int | None:
        """Wait for its end."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self._process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        self._process.join()
        return self.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        """Close its input, and return what else it writes until it has ended."""
        self.stdin.close()
        rest = (await self.stdout.read(), await self.stderr.read())
        await self.wait()
        return rest


def run_program(
    script: Path, argv: Sequence[str], environment: Mapping[str, str], *, strict: bool
) -> None:
    """Run a program in this process, which was forked for it.

    As a script or, where it awaits at its top level, under asyncio. Where `strict`, a warning is
    an error.
    """
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(argv)
    sys.path[0] = ""
    warnings.resetwarnings()
    if strict:
        warnings.simplefilter("error")
    source = script.read_text("utf-8")
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(source, str(script), "exec", flags, dont_inherit=True)  # its own annotations
    main = sys.modules["__main__"] = type(sys)("__main__")
    main.__file__ = str(script)
    coroutine = eval(code, vars(main))
    if inspect.iscoroutine(coroutine):
        asyncio.run(coroutine)
    atexit._run_exitfuncs()


def process_of(**options: Any) -> Any:
    """A `multiprocessing.Process` that is forked from the same one."""
    return _processes.Process(**options)


def _run_worker(
    streams: Sequence[Connection], argv: Sequence[str], environment: Mapping[str, str], path: str
) -> None:
    for fd, stream in enumerate(streams):
        os.dup2(stream.fileno(), fd)
        stream.close()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - multiprocessing closed it
    os.chdir(path)
    run_program(Path(argv[0]), argv, environment, strict=False)


async def _reader(connection: Connection) -> StreamReader:
    loop = asyncio.get_running_loop()
    reader = StreamReader()
    pipe = os.fdopen(os.dup(connection.fileno()), "rb", 0)
    connection.close()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _writer(connection: Connection) -> StreamWriter:
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(os.dup(connection.fileno()), "wb", 0)
    connection.close()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    return StreamWriter(transport, protocol, None, loop)

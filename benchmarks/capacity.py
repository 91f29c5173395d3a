"""What sessions cost the server: memory, disk, the time to start, and the way to its followers.

    python -m benchmarks.capacity [--sessions 10000 50000 200000]

`docs/explanation/scaling.md` uses what this prints. A session is what a short agent run leaves:
five updates, three events, a task and a memory state, on four subjects.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from importlib import import_module
from pathlib import Path
from typing import Final

from benchmarks import workload
from benchmarks.contenders.archived import Archived
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.site import Site
from foldlog import Store, TaskContextSnapshot, TaskState, TaskStatus, TaskType, connect

ENVELOPES: Final = 10
SUBJECTS: Final = 4
REPLICATED: Final = 2_000
"""Sessions that are saved to a cluster, to see what goes to its followers."""

_WRITERS: Final = 500


async def save_session(store: Store, number: int) -> None:
    """Save one session, one save after the other, as its agent would."""
    session, trace = workload.session_id(number), workload.trace_id(number)
    snapshot = TaskContextSnapshot(session_id=session, task_id="task-1", trace_id=trace)
    await store.save_task(
        TaskState(
            task_id="task-1",
            session_id=session,
            status=TaskStatus.RUNNING,
            task_type=TaskType.FOREGROUND,
            priority=0,
            context_snapshot=snapshot,
        )
    )
    for _ in range(5):
        await store.save_update(workload.update(number, workload.another_text()))
    for _ in range(3):
        await store.save_event(workload.event(number, workload.another_text()))
    texts = (workload.another_text() for _ in range(4))
    await store.save_memory_state(session, workload.memory_state(*texts))


async def save_sessions(store: Store, numbers: range) -> float:
    """Save them, some hundred at a time; return the envelopes stored a second."""
    waiting = iter(numbers)

    async def writer() -> None:
        for number in waiting:
            await save_session(store, number)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(_WRITERS):
            group.create_task(writer())
    return len(numbers) * ENVELOPES / (time.perf_counter() - began)


def resident(pid: int) -> int:
    """The resident bytes of a process."""
    found: int = import_module("psutil").Process(pid).memory_info().rss
    return found


def loopback_bytes() -> int:
    """What went over the loopback interface since the machine started."""
    (line,) = (
        line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip()[:3] == "lo:"
    )
    return int(line.split(":")[1].split()[0])


async def one_server(site: Site, sizes: list[int]) -> None:
    """Print a row for each number of sessions on one embedded server."""
    contender = Foldlog(site)
    await contender.open()
    print("| sessions | subjects | saves/s | bytes an envelope | server's memory | after a start "
          "| a subject | start | one cold read |\n" + "| ---: " * 9 + "|")  # fmt: skip
    done = 0
    for size in sizes:
        rate = await save_sessions(contender.store, range(done, size))
        done = size
        before = await _server(contender)
        began = time.perf_counter()
        await contender.reopen()
        start = time.perf_counter() - began
        began = time.perf_counter()
        assert len(await contender.store.list_updates(workload.session_id(size // 2))) == 5
        read = time.perf_counter() - began
        after = await _server(contender)
        (stream,) = (await contender.store.health()).streams
        print(
            f"| {size:,} | {stream.subjects:,} | {rate:,.0f} "
            f"| {stream.bytes / (size * ENVELOPES):,.0f} "
            f"| {before / 2**20:,.0f} MiB | {after / 2**20:,.0f} MiB "
            f"| {after / stream.subjects:,.0f} bytes | {start:.2f} s | {read * 1e3:.1f} ms |",
            flush=True,
        )
    await contender.close()


async def archived(site: Site, sessions: int) -> None:
    """Print what as many sessions are in an archive, and what stays in the server."""
    contender = Archived(site)
    await contender.open()
    await save_sessions(contender.store, range(sessions))
    await contender.store.archive(everything=True)
    health = await contender.store.health()
    [stream], [archive] = health.streams, health.archive
    began = time.perf_counter()
    await contender.reopen()
    start = time.perf_counter() - began
    began = time.perf_counter()
    assert len(await contender.store.list_updates(workload.session_id(sessions // 2))) == 5
    read = time.perf_counter() - began
    print(
        "\n| archived sessions | segments | bytes an envelope | subjects in the server "
        "| server's memory after a start | start | one cold read |\n" + "| ---: " * 7 + "|"
    )
    print(
        f"| {sessions:,} | {archive.segments:,} | {archive.bytes / (sessions * ENVELOPES):,.0f} "
        f"| {stream.subjects:,} | {await _server(contender) / 2**20:,.0f} MiB "
        f"| {start:.2f} s | {read * 1e3:.1f} ms |",
        flush=True,
    )
    await contender.close()


async def _server(contender: Foldlog) -> int:
    embedded = (await contender.store.health()).embedded
    assert embedded is not None
    assert embedded.pid is not None
    return resident(embedded.pid)


async def followers(site: Site) -> None:
    """Print what goes over the network for each byte stored, with one replica and with three."""
    urls = ",".join(await site.cluster())
    print("\n| replicas | envelopes | bytes stored | over loopback | a stored byte |\n"
          "| ---: | ---: | ---: | ---: | ---: |")  # fmt: skip
    for replicas in (1, 3):
        async with connect(urls, namespace=f"capacity-{replicas}", replicas=replicas) as store:
            before = loopback_bytes()
            await save_sessions(store, range(REPLICATED))
            sent = loopback_bytes() - before
            (stream,) = (await store.health()).streams
            print(
                f"| {replicas} | {REPLICATED * ENVELOPES:,} | {stream.bytes:,} | {sent:,} "
                f"| {sent / stream.bytes:.2f} |",
                flush=True,
            )


async def run(sizes: list[int]) -> None:
    """Measure one server, an archive, then a cluster of three on this machine."""
    async with Site() as site:
        await one_server(site, sizes)
        await archived(site, sizes[0])
        await followers(site)


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, nargs="+", default=[10_000, 50_000, 200_000])
    asyncio.run(run(sorted(parser.parse_args().sessions)))


if __name__ == "__main__":
    main()

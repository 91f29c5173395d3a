"""A rebuild whose process is killed, on a real server, and what the next process makes of it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import foldlog
from foldlog.envelope import Draft, draft
from foldlog.log.port import Append
from foldlog.store.payloads import UpdateSaved, dump
from tests.support.stores import fresh_namespace

SESSIONS = 60
EACH = 10
SIZE = 20_000  # a page of a scan holds some five sessions


async def filled(store: foldlog.Store) -> None:
    """Sessions one after the other."""
    for session in range(SESSIONS):
        subject = store._journal.subject("updates", f"s{session}")
        drafts = tuple(saved(session, n) for n in range(EACH))
        await store.log.append([Append(subject, drafts)])


def saved(session: int, n: int) -> Draft:
    content, time = {"n": n, "text": "x" * SIZE}, "2026-01-01T00:00:00+00:00"
    body = dump(UpdateSaved(f"s{session}", "t", f"{n}", "PROGRESS", content, time))
    return draft("update.saved", body, id=f"{n}")


@pytest.mark.long
async def test_a_killed_rebuild_is_gone_on_with_by_another_process(embedded_path: Path) -> None:
    name = fresh_namespace()
    async with foldlog.connect(path=embedded_path, namespace=name) as store:
        await filled(store)
        arguments = ["-m", "tests.rebuilding.worker", str(embedded_path), name]
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert worker.stdout is not None
        assert worker.stdin is not None
        done = 0
        while done < 2:
            done = int(await worker.stdout.readline())
            worker.stdin.write(b"go on\n")
        # What was done before the step that now waits is on record.
        assert len(await store.list_updates("s0", limit=EACH)) == EACH
        worker.kill()
        assert await worker.wait() < 0
        assert len(await store.list_updates("s1", limit=EACH)) == EACH

        first: list[foldlog.RebuildProgress] = []
        report = await store.rebuild("updates", on_progress=first.append)
        assert report.is_resumed
        assert first[0].done > 0
        assert (report.views, report.envelopes) == (SESSIONS, SESSIONS * EACH)
        assert report.differing == ()
        assert (await store.verify("updates")).is_good

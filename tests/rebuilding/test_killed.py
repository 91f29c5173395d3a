"""A rebuild whose process is killed, on a real server, and what the next process makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import foldlog
from foldlog.envelope import Draft, draft
from foldlog.log.port import Append
from foldlog.store.payloads import dump
from foldlog_projections.updates import UpdateSaved
from tests.support.workers import starting

WORKER = Path(__file__).with_name("worker.py")
SESSIONS = 60
EACH = 10
SIZE = 20_000  # a page of a scan holds some five sessions


async def filled(store: foldlog.Store) -> None:
    """Sessions one after the other."""
    for session in range(SESSIONS):
        subject = store._core.subject("updates", f"s{session}")
        drafts = tuple(saved(session, n) for n in range(EACH))
        await store._core.log.append([Append(subject, drafts)])


def saved(session: int, n: int) -> Draft:
    content, time = {"n": n, "text": "x" * SIZE}, "2026-01-01T00:00:00+00:00"
    body = dump(UpdateSaved(f"s{session}", "t", f"{n}", "PROGRESS", content, time))
    return draft("update.saved", body, id=f"{n}")


@pytest.mark.long
async def test_a_killed_rebuild_leaves_nothing_that_the_next_one_has_to_mend(
    embedded_path: Path, namespace: str
) -> None:
    async with (
        foldlog.connect(path=embedded_path, namespace=namespace) as store,
        starting(WORKER, embedded_path, namespace) as start,
    ):
        await filled(store)
        worker = await start()
        done = 0
        while done < 2:
            done = await worker.hear()
            worker.tell("go on")
        assert len(await store.list_updates("s0", limit=EACH)) == EACH
        await worker.kill()
        assert len(await store.list_updates("s1", limit=EACH)) == EACH

        report = await store.rebuild("updates")
        assert (report.views, report.envelopes) == (SESSIONS, SESSIONS * EACH)
        assert report.differing == ()
        assert (await store.verify("updates")).is_good

"""An archiver that is killed: at each of its steps, and at any moment under load."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import foldlog
from foldlog.log.archive import ArchivedLog
from foldlog.log.archive.places import IDENTITY
from foldlog.log.archive.segments import list_name
from tests.faults import archiving
from tests.faults.archiving import ERASED, GONE, LATE, LIMITS, hasten, opened
from tests.faults.checker import Violation
from tests.faults.storms.crowd import Crowd
from tests.faults.storms.figures import Figures
from tests.support.build import update
from tests.support.server import LocalServer
from tests.support.workers import StartWorker, starting

_SESSIONS = ("s0", ERASED, "s2")
_SAVES = [f"u{n}" for n in range(10)]
_SCRIPT = Path(archiving.__file__)


async def archiver_steps(
    directory: Path, stride: int = 1, planted: str = "", seed: int = 1
) -> Figures:
    """Kill an archiver at every step, or at every so many: of archiving, merging and erasing.

    With a mistake that is `planted` it ends once something is broken.
    """
    hasten()
    figures = Figures("SIGKILL of an archiver at a step")
    async with LocalServer(directory) as server, starting(_SCRIPT, server.url) as start:
        for nth in itertools.count(1 + seed % stride, stride):
            archive = directory / f"archive-{nth}"
            said = await _killed_at(start, server.url, f"n{nth}", archive, nth, planted)
            if said is None:
                return figures
            figures.counts["kills"] += 1
            async with opened(server.url, f"n{nth}", archive) as store:
                broken = await _judged(store, archive, said)
            figures.broken += [Violation(f"at step {nth}", each) for each in broken]
            if planted and broken:
                return figures
    raise AssertionError("it never ends")


async def archiver_kills(directory: Path, kills: int, seed: int = 1) -> Figures:
    """Kill an archiver so many times, each time in the midst of saves by others."""
    hasten()
    figures, rng, archive = Figures("SIGKILL of an archiver"), random.Random(seed), directory / "a"
    url_of = LocalServer(directory / "server")
    async with (
        url_of as server,
        starting(_SCRIPT, server.url, "storm", archive, "ever", "") as start,
    ):
        options = {"archive": archive, "archive_limits": LIMITS}
        async with Crowd(server.url, "storm", seed, **options) as crowd:
            erased = set[str]()
            for _ in range(kills):
                worker = await start()
                if rng.random() < 0.7:  # else also while it opens
                    erased.add(await worker.hear())
                await asyncio.sleep(rng.random() * 0.3)
                await worker.kill()
                erased |= set(await worker.hear_rest())
                await crowd.progressed()
                figures.counts["kills"] += 1
            history = await crowd.told()
        async with opened(server.url, "storm", archive) as store:
            for name in sorted(erased):
                if found := await store.list_updates(name, consistency="strong"):
                    figures.broken.append(Violation("erased", f"{name} reads {len(found)}"))
            moved = await store.archive(everything=True)
            figures.counts["records archived in the end"] = moved.records
            figures.broken += [Violation("left", each) for each in await _left(store, archive)]
        figures.counts["erasures"] = len(erased)
        history.log = {k: v for k, v in history.log.items() if f"/{GONE}" not in k}
        history.ops = [op for op in history.ops if f"/{GONE}" not in getattr(op, "subject", "")]
        figures.judge(history, "storm")
    return figures


async def _killed_at(
    start: StartWorker, url: str, namespace: str, archive: Path, nth: int, planted: str
) -> list[object] | None:
    """What a worker said before it was killed; None if it came to its end before that."""
    async with foldlog.connect(url, namespace=namespace) as store:
        for n in _SAVES:
            items = [update(n, s, content={"text": f"{s} said {n} " * 20}) for s in _SESSIONS]
            await asyncio.gather(*(store.save_update(each) for each in items))
    worker = await start(namespace, archive, nth, planted)
    said = await worker.hear_rest()
    await worker.process.wait()
    if said and isinstance(said[-1], int):
        return None
    assert worker.process.returncode == -signal.SIGKILL, await worker.complaint()
    return said


async def _judged(store: foldlog.Store, archive: Path, said: list[object]) -> list[str]:
    broken = [f"at once: {each}" for each in await _broken(store, said)]
    try:
        await store.archive(everything=True)
        broken += [f"after a pass: {each}" for each in await _left(store, archive)]
        await store.erase_session(ERASED)
        broken += [f"after an erasure: {each}" for each in await _left(store, archive)]
    except foldlog.FoldlogError as error:
        broken.append(f"after a pass: {error!r}")
    said = [*said, "archived", "erased"]
    return broken + [f"after an erasure: {each}" for each in await _broken(store, said)]


async def _broken(store: foldlog.Store, said: Sequence[object]) -> list[str]:
    """What reads tell that is not so, after what a worker said to be done."""
    try:
        broken = [each for session in _SESSIONS for each in await _wrong(store, session, said)]
        is_good = (await store.verify()).is_good
    except foldlog.FoldlogError as error:
        return [repr(error)]
    return broken if is_good else [*broken, "it does not verify"]


async def _wrong(store: foldlog.Store, session: str, said: Sequence[object]) -> list[str]:
    broken = list[str]()
    listed = await store.list_updates(session, limit=1000, consistency="strong")
    found = [each.update_id for each in listed]
    if session == ERASED and "archived" in said:  # it was at it
        is_good = set(found) <= (set() if "erased" in said else set(_SAVES))
    else:
        late = [LATE] if session == "s0" and ("saved" in said or LATE in found) else []
        is_good = found == [*_SAVES, *late]
    if not is_good:
        broken.append(f"{session} reads {found}")
    subject = store._core.subject("updates", session)
    pages = [page async for page in store._core.log.read(subject)]
    stored = Counter(e.id for page in pages for record in page for e in record.envelopes)
    if stored and max(stored.values()) > 1:
        broken.append(f"{session} has {stored}")
    counted = (await store._core.log.subjects("updates")).get(subject, 0)
    if counted != sum(map(len, pages)):
        broken.append(f"{session} is counted {counted} and read {sum(map(len, pages))}")
    return broken


async def _left(store: foldlog.Store, archive: Path) -> list[str]:
    """What no manifest names."""
    assert isinstance(store._core.log, ArchivedLog)
    manifest = await store._core.log.manifests.current(0, fresh=True)
    segments = [each.name for each in manifest.segments]
    named = {archive / each for each in [IDENTITY, *segments, *map(list_name, segments)]}
    files = await asyncio.to_thread(lambda: list(archive.glob("*/*")))
    return [f"{each} is left" for each in files if each not in named]

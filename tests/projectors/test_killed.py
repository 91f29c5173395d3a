"""Processes that project are killed while records are saved, cleared and forked."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import foldlog
from foldlog import Projecting
from tests.projectors.filling import ALL, PATIENCE, Filled, check, save
from tests.support.stores import fresh_namespace
from tests.support.workers import starting

PROCESS = Path(__file__).with_name("projects.py")


def cut_connections(to: str) -> None:
    """SIGTERM for each process of PostgreSQL that serves somebody else."""
    import psycopg

    with psycopg.connect(to, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where backend_type = 'client backend' and pid <> pg_backend_pid()"
        )


@pytest.mark.parametrize("to", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize("side_by_side", [1, 2])
@pytest.mark.parametrize("kills", [3, pytest.param(75, marks=pytest.mark.long)])
async def test_the_tables_are_a_fold_of_the_log_whoever_was_killed(
    embedded_path: Path,
    purging_at_once: None,
    to: str,
    filled: Filled,
    side_by_side: int,
    kills: int,
) -> None:
    namespace, dice = fresh_namespace(), random.Random(kills + side_by_side)
    sessions, saved = [f"s{n}" for n in range(5)], dict.fromkeys(range(5), 0)
    async with (
        foldlog.connect(path=embedded_path, namespace=namespace) as store,
        starting(PROCESS, embedded_path, namespace, to) as start,
    ):
        running = [await start() for _ in range(side_by_side)]
        for each in running:
            assert await each.hear() == ["ready"]
        for _ in range(kills):
            for _ in range(dice.randrange(1, 12)):
                n = dice.randrange(5)
                count = dice.randrange(1, 15)
                await save(store, sessions[n], range(max(saved[n] - 3, 0), saved[n] + count))
                saved[n] += count
                if n == 0 and dice.random() < 0.3:  # what is forked is not cleared
                    await store.fork(sessions[n], at=await store.position())
                elif n and dice.random() < 0.2:
                    await store.clear_session(sessions[n])
            if to.startswith("postgresql") and dice.random() < 0.5:
                await asyncio.to_thread(cut_connections, to)
            victim = running.pop(dice.randrange(len(running)))
            await victim.kill()
            running.append(await start())
            assert await running[-1].hear() == ["ready"]
        for each in running:
            await each.kill()
        async with Projecting(store, ALL, to=to) as last:
            await last.caught_up(timeout=PATIENCE)
        assert await filled.rows("select * from foldlog_parked") == []
        await check(store, filled, sessions)

"""What the tables hold: what reads of the store give, hot or archived, now or as of a moment."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog import Content, Message, TaskStatus
from foldlog.importer import demo_transcript, import_conversations
from foldlog.log.port import Append
from foldlog.sql import tables
from foldlog_projections import archive
from tests.support.build import MOMENT, event, steering, task, update
from tests.support.stores import fresh_namespace
from tests.support.tombstones import tombstone
from tests.threads.support import ROOT, checkpoint, threads


@pytest.fixture
async def store() -> AsyncIterator[foldlog.Store]:
    async with foldlog.memory_store() as opened:
        yield opened


async def column(store: foldlog.Store, query: str, *parameters: Any) -> list[Any]:
    return [row[0] for row in (await store.sql(query, parameters)).rows]


async def counts(store: foldlog.Store, *names: str) -> dict[str, int]:
    """How many rows tables have, in one query."""
    each = " union all ".join(f"select '{name}', count(*) from {name}" for name in names)
    return dict((await store.sql(each)).rows)


NAMED = ("events", "updates", "tasks", "steering", "messages", "runs", "checkpoints")


@pytest.mark.usefixtures("purging_at_once")
async def test_the_demo_is_counted_as_the_store_lists_it(
    embedded_path: Path, tmp_path: Path
) -> None:
    options: Any = {"path": embedded_path, "namespace": fresh_namespace(), "archive": tmp_path}
    async with foldlog.connect(shards=2, **options) as store:
        await import_conversations(store, [demo_transcript()])
        sessions = await store.sessions()
        await store.save_steering(steering("e1", sessions[0]))
        await store.append_messages(sessions[0], [Message("m1", "demo", {"text": "hi"})])
        await store.save_event(event(sessions[0]))
        async with store.run("run", session_id=sessions[0]) as run:
            await run.step("add", lambda: 1)
        await threads(store).put(ROOT, checkpoint("c1", text="x"), {"source": "loop"}, {"text": 1})
        expected = {
            "updates": sum([len(await store.list_updates(s, limit=9999)) for s in sessions]),
            "tasks": sum([len(await store.list_tasks(s)) for s in sessions]),
            "events": sum([len(await store.load_history(s)) for s in sessions]),
            "steering": sum([len(await store.list_steering(s, limit=9999)) for s in sessions]),
            "messages": sum([len(await store.list_messages(s)) for s in sessions]),
            "runs": 4,
            "checkpoints": 1,
        }
        assert expected["events"] > 0
        assert await counts(store, *NAMED) == expected
        half = await store.sql("from updates order by shard, seq, id")
        await store.archive(everything=True)
        assert await counts(store, *NAMED) == expected
        assert await store.sql("from updates order by shard, seq, id", at=half.position) == half
        await store.save_update(update("hot", sessions[0]))
        assert await counts(store, "updates") == {"updates": expected["updates"] + 1}
        assert len((await store.sql("from updates", at=half.position)).rows) == len(half.rows)
        past = store.at(half.position)
        assert await counts(past, "updates") == {"updates": expected["updates"]}


async def _given(value: Any) -> Any:
    return value


async def test_columns_have_types_and_values_are_exact(store: foldlog.Store) -> None:
    content = {"text": "a\0é😀", "n": 2**60, "list": [1, None, {"deep": True}]}
    await store.save_update(update("u1", "s'1", content=content, step_index=3))
    odd = {"d": Decimal("1.5"), "b": b"\x00\xff", 7: "key", "nan": float("nan")}
    await store.save_event(event("t", ts=1700000000.25, payload=odd))
    await store.save_event(event("t", ts=1700000001.0, payload={"big": 2**200, (1, 2): None}))
    found = await store.sql("select * exclude (ts, recorded_at) from updates")
    assert found.dicts() == [
        {
            "session_id": "s'1",
            "id": "u1",
            "type": "update.saved",
            "task_id": "task",
            "update_id": "u1",
            "update_type": "PROGRESS",
            "content": content,
            "created_at": MOMENT,
            "trace_id": None,
            "step_index": 3,
            "total_steps": None,
            "shard": 0,
            "seq": 1,
        }
    ]
    assert dict(zip(found.columns, found.types, strict=True))["step_index"] == "BIGINT"
    by_time = "select ts, payload, date_trunc('day', ts) from events order by ts"
    row, other = (await store.sql(by_time)).rows
    assert row[0] == dt.datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=dt.UTC)
    assert row[1] == {"d": "1.5", "b": "AP8=", "7": "key", "nan": None}
    assert other[1] == {"big": 2**200, "[1, 2]": None}
    assert row[2] == dt.datetime(2023, 11, 14, tzinfo=dt.UTC)
    assert await column(store, "select content->>'n' from updates where session_id = ?", "s'1") == [
        str(2**60)
    ]
    named = await store.sql("select $a + 1 as b, $d", {"a": 1, "d": MOMENT})
    assert named.dicts() == [{"b": 2, named.columns[1]: MOMENT}]


async def test_a_row_is_there_once_and_what_was_cleared_is_not(store: foldlog.Store) -> None:
    """Also what a writer has appended again, and between a clearing and its purge."""
    kept, gone = foldlog.kinds.updates("kept"), foldlog.kinds.updates("gone")
    for n in range(3):
        await store.save_update(update(f"u{n}", "kept"))
        await store.save_update(update(f"u{n}", "gone"))
    [again, *_] = await store.items(kept)
    subject, drafts = store._core.drafts("save_update", kept, again.record)
    await store._core.forked_log.append([Append(subject, tuple(drafts))])
    subject = store._core.subject(gone.kind, *gone.keys)
    await store._core.forked_log.append([Append(subject, (tombstone(id="gone"),))])
    await store.save_update(update("after", "gone"))
    found = await column(store, "select session_id || ' ' || update_id from updates order by all")
    assert found == ["gone after", "kept u0", "kept u1", "kept u2"]
    assert sum([record.kind == "updates" async for record in store.records()]) == 9


async def test_tasks_messages_steps_and_checkpoints_are_as_they_are_now(
    store: foldlog.Store,
) -> None:
    for status in (TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.COMPLETE):
        await store.save_task(task("t1", "s", status=status))
    await store.save_task(task("t2", "s"))
    await store.append_messages("s", [Message(f"m{n}", "f", {"n": n}, role="user") for n in "123"])
    await store.pop_message("s")
    async with store.run("run", session_id="s2") as run:
        await run.step("add", _given, {"x": 1}, kind="tool")
        with pytest.raises(ValueError, match="no"):
            await run.step("book", _raising)
    saver = threads(store)
    first = await saver.put(ROOT, checkpoint("c1", a="x"), {"source": "input"}, {"a": 1})
    await saver.put(first, checkpoint("c2", a="y"), {"source": "loop"}, {"a": 1})
    found = await store.sql(
        "select 'task', task_id, status from tasks where session_id = 's' union all "
        "select 'message', m.id, m.body->>'n' from messages m union all "
        "select 'step', step, phase || kind || coalesce(result->>'x', '') from steps union all "
        "select 'checkpoint', checkpoint_id, metadata->>'source' || coalesce(parent_id, '') "
        "from checkpoints order by all"
    )
    assert found.rows == [
        ("checkpoint", "c1", "input"),
        ("checkpoint", "c2", "loopc1"),
        ("message", "m1", "1"),
        ("message", "m2", "2"),
        ("step", "add", "donetool1"),
        ("step", "book", "failedstep"),
        ("task", "t1", "COMPLETE"),
        ("task", "t2", "PENDING"),
    ]


async def _raising() -> None:
    raise ValueError("no")


async def test_a_fork_has_its_own_records_and_the_state_of_both(store: foldlog.Store) -> None:
    await store.save_update(update("u1", "s"))
    await store.save_task(task("t", "s"))
    await store.fork("s", at=await store.position(), to="fork")
    await store.save_update(update("u2", "fork"))
    await store.save_task(task("t", "fork", status=TaskStatus.RUNNING))
    found = await store.sql(
        "select session_id, update_id from updates union all "
        "select session_id, status from tasks order by all"
    )
    assert found.rows == [("fork", "RUNNING"), ("fork", "u2"), ("s", "PENDING"), ("s", "u1")]


async def test_a_moment_may_end_inside_of_a_record(store: foldlog.Store) -> None:
    session = "s" * 300  # whose subject is hashed
    for some in (("u0",), ("u1", "u2", "u3")):
        async with store.atomic():
            for each in some:
                await store.save_update(update(each, session))
                await store.save_task(task(each, session))
    ids = "select update_id from updates union all select task_id from tasks order by all"
    assert await column(store.at(update("u2", session)), ids) == ["u0", "u0", "u1", "u2"]
    assert (await store.sql(ids, at="u0")).rows == [("u0",)]
    assert len((await store.sql(ids)).rows) == 8


async def test_erased_is_erased_from_every_moment(store: foldlog.Store) -> None:
    await store.save_update(update("u1", "s"))
    then = await store.position()
    await store.erase_session("s")
    assert (await store.sql("from updates", at=then)).rows == []


# --- kinds of a user's own -----------------------------------------------------------------------


class Paid(msgspec.Struct, frozen=True, omit_defaults=True):
    amount: float
    currency: str = "EUR"
    when: dt.datetime | None = None
    note: Content[str | None] = None
    seq: int = 0
    tags: tuple[str, ...] = ()


class Price(msgspec.Struct, frozen=True):
    currency: str
    amount: float


class Array(msgspec.Struct, frozen=True, array_like=True):
    Name: str
    name: int


PAID = foldlog.Kind("paid", keys=("order",), records={"order.paid": Paid}, fold=foldlog.every)
LATEST = foldlog.Kind(
    "latest", keys=("shop",), records={"price.set": Price}, fold=foldlog.last_by("currency")
)
STEPS = foldlog.Kind("steps", keys=("k",), records={"arrays.kept": Array}, fold=foldlog.last)


async def test_kinds_of_a_users_own_are_tables() -> None:
    store = foldlog.memory_store(kinds=[PAID, LATEST, STEPS])
    await store.append(PAID("o1"), Paid(1.5, tags=("a",)), Paid(2.0, "USD", MOMENT, "é", 7))
    await store.append(LATEST("s"), Price("EUR", 1.0), Price("EUR", 2.0), Price("USD", 3.0))
    await store.append(STEPS("k"), Array("x", 1), Array("y", 2))
    paid = 'select "order", amount, currency, "when", note, seq_, tags from paid order by amount'
    assert (await store.sql(paid)).rows == [
        ("o1", 1.5, "EUR", None, None, 0, ["a"]),
        ("o1", 2.0, "USD", MOMENT, "é", 7, []),
    ]
    assert await column(store, "select amount from latest order by all") == [2.0, 3.0]
    assert (await store.sql('select "Name", name_ from steps')).rows == [("y", 2)]
    await store.close()


async def test_all_tables_can_be_asked(store: foldlog.Store) -> None:
    known = tables(store)
    assert set(NAMED) < {each.name for each in known}
    assert archive.kind.name not in {each.name for each in known}
    everything = await counts(store, *(each.name for each in known))
    assert set(everything.values()) == {0}
    [updates] = [each for each in known if each.name == "updates"]
    described = await store.sql("select column_name, column_type from (describe updates)")
    assert dict(described.rows) == updates.columns

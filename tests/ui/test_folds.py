"""The fold in the browser and the fold in Python, on the same logs, at the same moments."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import foldlog
import foldlog.runs
from foldlog import codec, kinds
from foldlog.cli.demo import scene
from foldlog.importer import demo_transcript, import_conversations
from foldlog.kind import Key
from foldlog.position import LogPosition
from foldlog.scoped import Scope
from foldlog.ui.plain import Plain
from foldlog.ui.run import Run, read_page
from foldlog_projections.a2a import a2atasks
from foldlog_projections.a2a.a2atasks import AgentTask
from foldlog_projections.agent_framework import workflowcheckpoints
from foldlog_projections.agents.agentstates import AgentState
from foldlog_projections.artifacts import Held
from foldlog_projections.belongings import Belonging
from foldlog_projections.messages import Conversations, MessagesRemoved
from foldlog_projections.pauses import Pause
from foldlog_projections.pydantic_ai import conversations
from foldlog_projections.pydantic_ai.conversations import Conversation
from foldlog_projections.runs.runs import State as RunState
from tests.ui.conftest import looking
from tests.ui.support import event, said, task

if TYPE_CHECKING:
    from playwright.async_api import Browser

FOLD = """async ([records, moments]) => {
  const { Log } = await import("./static/core/log.js");
  const { plain } = await import("./static/render/plain.js");
  const log = new Log();
  for (let at = 0; at < records.length; at += 97) log.append(records.slice(at, at + 97));
  log.append(records.slice(0, 50));  // again, as after a reconnect
  return moments.map((position) => {
    const states = log.statesAt(log.countAt(position));
    return Object.fromEntries([...states].map(([name, state]) => [name, plain(state)]));
  });
}"""


def shown(key: Key[Any], state: Any) -> Any:
    """A state of Python's fold as the page has it: encoded parts decoded, and no more."""
    match state:
        case Conversations():
            return {
                name: {
                    "messages": {m.id: shown(key, m) for m in each},
                    "version": each.version,
                    "updated_at": each.updated_at,
                }
                for name, each in state.by_name.items()
            }
        case AgentState():
            entries = {
                name: {
                    "type": each.type,
                    "schema": each.schema,
                    "private": each.private,
                    "ts": each.ts,
                    "value": shown(key, codec.decode(each.raw)),
                }
                for name, each in state.entries.items()
            }
            return {"entries": entries, "turn": state.turn, "waiting": []}
        case Pause():
            waits = None if state.waiting is None else shown(key, key.kind.decode(state.waiting))
            return {
                "waiting": waits,
                "offered": sorted(state.offered),
                "spent": sorted(state.spent),
            }
        case Conversation():
            entries = {id: shown(key, codec.decode(e.message)) for id, e in state.entries.items()}
            of = {
                name: codec.decode(getattr(state, name) or b"\xc0")
                for name in ("record", "carried")
            }
            return {"revision": state.revision, **shown(key, of), "entries": entries}
        case AgentTask():
            return shown(key, {n: getattr(state, n) for n in ("version", "body", "configs")})
        case Held():
            return {"id": state.id, "ts": state.ts, "saved": shown(key, state.saved)}
        case RunState():
            steps = {name: msgspec.structs.asdict(each) for name, each in state.steps.items()}
            for each in steps.values():
                for part in ("arguments", "result", "question"):
                    each[part] = codec.decode(each[part])
            return shown(key, {"steps": steps})
    if dataclasses.is_dataclass(state):
        fields = dataclasses.fields(state)
        return {f.name: shown(key, getattr(state, f.name)) for f in fields}
    if isinstance(state, dict):
        return {_name(name): shown(key, each) for name, each in state.items()}
    if isinstance(state, list):
        return [shown(key, each) for each in state]
    return Plain(None).value(state)


def _name(name: Any) -> str:
    if isinstance(name, Belonging):
        return json.dumps([name.kind, *name.keys], separators=(",", ":"), ensure_ascii=False)
    return str(name)


def alike(name: str, state: Any) -> Any:
    """Without what only one side has: defaults of steps, since when a task has paused, and what a
    cleared list remembers."""
    if name.startswith('["belongings"'):
        return state.get("views", state)
    if name.startswith('["tasks"'):
        return {id: {k: v for k, v in t.items() if k != "paused_at"} for id, t in state.items()}
    if name.startswith('["runs"'):
        steps = {
            id: {k: v for k, v in step.items() if v not in ("", None, 0)}
            for id, step in state["steps"].items()
        }
        return state | {"steps": steps}
    return state


async def check(
    browser: Browser,
    store: foldlog.Store,
    run: Run,
    count: int = 24,
    since: LogPosition | None = None,
) -> None:
    """Compare the states of all views of a run at many moments, in no order."""
    views = await run.views(store)
    records: list[dict[str, Any]] = []
    more, after = True, None
    while more:
        page = await read_page(store, views, after, cut=None)
        records += page.records
        after, more = page.position, page.more
    moments = [each["position"] for each in records]
    if since is not None:
        moments = [each for each in moments if since < LogPosition.parse(each)]
    chosen = random.Random(1).sample(moments, min(count, len(moments))) + moments[-1:]
    async with looking(browser, store) as page_:
        found = await page_.evaluate(FOLD, [records, chosen])
    for moment, states in zip(chosen, found, strict=True):
        past = store.at(LogPosition.parse(moment))
        for key in views:
            name = json.dumps([key.kind.name, *key.keys], separators=(",", ":"), ensure_ascii=False)
            expected = alike(name, shown(key, await past.view(key)))
            if name in states:
                assert alike(name, states[name]) == expected, (moment, name)
            else:
                assert not await past.items(key), (moment, name)


async def test_the_bundled_conversations(browser: Browser, store: foldlog.Store) -> None:
    report = await import_conversations(store, [demo_transcript()])
    assert report.conversations == 6
    for session in (await store.sessions())[:2]:
        await check(browser, store, Run("session", session), 8)


async def pay(run: foldlog.runs.Run, euros: int) -> dict[str, int]:
    run.usage(model="m", input_tokens=euros, cost_usd=0.5)
    return {"paid": euros}


async def test_a_session_with_everything(browser: Browser, store: foldlog.Store) -> None:
    await scene.play(store)
    await store.save_planner_state("token", {"step": 1}, session_id=scene.SESSION)
    await store.load_planner_state("token")
    await store.save_planner_state("token", {"step": 2}, session_id=scene.SESSION)
    scope = Scope.session(scene.SESSION)
    await store.scoped.write(scope, "key", {"n": 1})
    await store.scoped.write(scope, "key", {"n": 2})
    await store.scoped.delete(scope, "key")
    [patch] = [w for w in await store.waiting() if w.kind == "patch"]
    await store.answer(patch.id, True)
    await store.delete_messages(scene.SESSION)
    for redo_from in (None, "pay"):
        async with store.run("pay", session_id=scene.SESSION, redo_from=redo_from) as run:
            await run.step("look", len, "fares")
            with pytest.raises(ValueError, match="base 10"):
                await run.step("fail", int, "x")
            await run.step("pay", pay, run, 143, repeatable=True)
            await run.ask("sure?", {"euros": 143}, timeout=0, default=True)
    await check(browser, store, Run("session", scene.SESSION), 40)
    await store.fork(scene.SESSION, to="the fork")
    forked = await store.position()
    for number in range(4):
        await store.save_update(said("the fork", number))
    await check(browser, store, Run("session", "the fork"), since=forked)


@pytest.mark.long
async def test_long_sessions_whose_states_are_kept_in_strides(
    browser: Browser, store: foldlog.Store
) -> None:
    for number in range(300):
        async with store.atomic():
            await store.save_update(said("s", number, trace_id="trace"))
            await task(store, "s", f"t{number % 5}")
            await store.save_event(event("trace", number))
            await store.append_messages("s", [foldlog.Message(f"m{number}", "x", "hello")])
            if number % 3 == 0:
                await store.append(kinds.messages("s"), MessagesRemoved((f"m{number // 3}",)))
    await check(browser, store, Run("session", "s"), 16)


async def test_sessions_of_frameworks(browser: Browser, store: foldlog.Store) -> None:
    """Kinds that adapters write: saves that come too late, deletions, versions of a task."""
    saved = conversations.Saved
    for record in (
        saved("r1", "e1", {"n": 1}, {}, None, (("e1", None),), ["one"]),
        saved("r2", "e2", {"n": 2}, {}, "r1", (("e2", "e1"),), ["two"]),
        saved("late", "e3", {"n": 3}, {}, "r1", (("e3", "e1"),), ["void"]),
        conversations.Deleted("r4", "r2"),
        saved("r5", "e5", {"n": 5}, {}, None, (("e5", None),), ["again"]),
    ):
        await store.append(conversations.kind("s"), record)
    task, owner = a2atasks.kind("a2a", "t"), ("ann", "s")
    for version, change in (
        (1, [0, {"id": "t", "n": [1]}]),
        (2, [1, {"n": [2, [], 1, 0, [2]]}, []]),
    ):
        await store.append(task, a2atasks.Saved(version, *owner, "WORKING", None, change))
    await store.append(task, a2atasks.Pushed("ann", "c", {"url": "x"}))
    await store.append(task, a2atasks.Pushed("ann", "c", None))
    await store.belong("s", task)
    for id in ("a", "b"):
        made = workflowcheckpoints.CheckpointSaved(id, "flow", "2026-01-01T00:00:00", {"at": id})
        await store.append(workflowcheckpoints.kind("s"), made)
    await store.append(workflowcheckpoints.kind("s"), workflowcheckpoints.CheckpointDeleted("a"))
    await check(browser, store, Run("session", "s"))


TABLES = """async () => {
  const { Table } = await import("./static/folds/fold.js");
  let seed = 1;
  const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
  const made = [[new Table(), new Map()]];
  const wrong = [];
  for (let step = 0; step < 600; step++) {
    // Mostly the newest, and at times one that others were made of.
    const [table, map] = random(5) ? made.at(-1) : made[random(made.length)];
    const [key, value, expected] = [random(9), random(3), new Map(map)];
    if (random(3)) made.push([table.put(key, value), expected.set(key, value)]);
    else made.push([table.without([key]), (expected.delete(key), expected)]);
    const [other, before] = made[random(made.length)];
    const changed = made.at(-1)[0].changedSince(other);
    for (const each of new Set([...expected.keys(), ...before.keys()])) {
      if (expected.get(each) !== before.get(each) && !changed.has(each)) wrong.push([step, each]);
    }
  }
  made.forEach(([table, map], step) => {
    const isAlike = JSON.stringify([...table]) === JSON.stringify([...map]);
    const has = (key) => table.get(key) === map.get(key);
    if (!isAlike || table.size !== map.size || ![...map.keys()].every(has)) wrong.push(step);
  });
  return wrong;
}"""


async def test_tables_are_maps_that_never_change(browser: Browser, store: foldlog.Store) -> None:
    async with looking(browser, store) as page:
        assert await page.evaluate(TABLES) == []


@pytest.mark.parametrize("kind", ["session", "trace"])
async def test_a_run_without_records(browser: Browser, store: foldlog.Store, kind: Any) -> None:
    async with looking(browser, store) as page:
        await page.evaluate(f"location.hash = '#/{kind}/nothing'")
        await page.get_by_text("Nothing is on record under this id").wait_for()

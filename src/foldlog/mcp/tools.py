"""The tools: questions about a log, each with a short answer. A store that only reads has them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from difflib import get_close_matches
from typing import Annotated, Any, Final

import msgspec
from pydantic import Field

from foldlog import codec, kinds, words
from foldlog.errors import NotFound, PayloadError
from foldlog.kind import Key
from foldlog.mcp.answers import ANSWER, fields, page, short, when
from foldlog.models import Waiting
from foldlog.opening import Store
from foldlog.position import LogPosition, Reach
from foldlog.runs.moments import step_moment
from foldlog.sql import tables
from foldlog.store.core import core_of
from foldlog.store.ownership import lineage_of
from foldlog.store.primitives import Item
from foldlog.story import Part, tell
from foldlog.ui.asked import moment
from foldlog.ui.catalogue import STATUSES, Catalogue
from foldlog.ui.plain import encode, record_of
from foldlog.ui.run import Run, Shown, merged, place_of
from foldlog.words import Line
from foldlog_projections.runs.runs import Step

_SCANNED: Final = 5_000
"""Records that one search looks through; the next goes on."""

_SECONDS: Final = 5.0
"""How long summaries of sessions are made for."""

_AROUND: Final = 200
"""Characters of a record before and behind what was searched."""

_SOME: Final = 20
"""Traces of a session, and what waits in it, that are named at most."""

_MARGIN: Final = 50
"""Characters of a line of a story beside what it says."""

_SQL_BYTES: Final = 128 * 1024 * 1024
_NEXT: Final = "`next` of the answer before this one, with the same arguments."
_AT: Final = (
    "An earlier moment: `@1234`, `2026-01-31T14:02:00Z`, an update's id, or of a session `before "
    "step NAME`. Without: now."
)

SessionId = Annotated[str, Field(description="The session's id, as `sessions` lists it.")]
Limit = Annotated[int, Field(ge=1, le=500, description="How many at most.")]
Cursor = Annotated[str, Field(description=_NEXT)]
Offset = Annotated[int, Field(ge=0, description=_NEXT)]
At = Annotated[str, Field(description=_AT)]
Topic = Annotated[str, Field(description="Only those with this in their id, topic, last words.")]
Status = Annotated[str, Field(description=f"Only these: {', '.join(STATUSES)} (without tasks).")]
Oldest = Annotated[bool, Field(description="From the beginning. Without: the latest records.")]
Text = Annotated[str, Field(description="What to find, whatever the case.")]
Kind = Annotated[str, Field(description="Only these: messages, updates, steering, runs, tasks ...")]
Position = Annotated[str, Field(description="The record's position, as `@1234`.")]
From = Annotated[int, Field(ge=0, description="From which character on.")]
OfRun = Annotated[str, Field(description="The run: a task's id. Without: named as the session.")]
Phase = Annotated[str, Field(description="Only these: started, done, failed, asked, doubted ...")]
Of = Annotated[str, Field(description="Only of this session.")]
Query = Annotated[str, Field(description="One query in DuckDB's SQL. Without: the tables.")]


class Tools:
    """What an agent may ask of a store. Each method is a tool, its docstring what the agent reads.

    Errors as the store's methods, and `foldlog.bounds.Refused`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catalogue = Catalogue(store)
        self._past: tuple[LogPosition, Store] | None = None

    async def sessions(
        self,
        text: Topic = "",
        status: Status = "",
        limit: Limit = 20,
        offset: Offset = 0,
        at: At = "",
    ) -> str:
        """List sessions: what each is about, its status and last words. Latest activity first.

        Start here. To search in everything that sessions hold, use `sql`.
        """
        store = await self._seen(at)
        catalogue = self._catalogue if store is self._store else Catalogue(store)
        found = await catalogue.page(
            text=text, status=status, offset=offset, limit=limit + 1, seconds=_SECONDS
        )
        items = [_summary(each) for each in found["sessions"]]
        about = {name: found[name] for name in ("total", "statuses")}
        about["missing"] = "" if found["complete"] else "some are not read yet: ask again"
        return page("sessions", items, limit, lambda n: offset + n, **about)

    async def session(self, session_id: SessionId, at: At = "") -> str:
        """Show one session: its tasks and runs with their status, what waits, forks and traces."""
        store = await self._seen(at, session_id)
        summary = await Catalogue(store).one(session_id)
        if not summary.records:
            await self._check(store, session_id)
        lineage = await lineage_of(core_of(store), session_id)
        waiting = await store.waiting(session_id=session_id, limit=_SOME)
        about = _summary(summary, "tasks") | {
            "forked_from": lineage.origin and lineage.origin.session_id,
            "forks": list(lineage.forks),
            "traces": await store.list_traces(session_id, limit=_SOME),
            "waiting": [_waiting(each) for each in waiting],
            "position": str(await store.position()),
        }
        tasks = sorted(await store.list_tasks(session_id), key=lambda t: t.updated_at, reverse=True)
        everything = f"`sql` has all {len(tasks)}"
        return page("tasks", map(_task, tasks), len(tasks), lambda n: everything, **about)

    async def story(
        self,
        session_id: SessionId,
        oldest_first: Oldest = False,
        limit: Limit = 60,
        cursor: Cursor = "",
        at: At = "",
    ) -> str:
        """Tell what happened in a session, in order and in words: messages, steps with arguments
        and results, questions and answers, orders, files. Also of a trace, by its id.

        Each line begins with its position, for `record` and `at`, and its time in UTC. Long texts
        are cut.
        """
        store = await self._seen(at, session_id)
        shown, places, size = list[tuple[Key[Any], float, Line]](), dict[int, str](), 0
        async with aclosing(self._read(store, session_id, cursor, oldest_first)) as records:
            async for key, item, behind in records:
                if len(shown) == limit or size > ANSWER:
                    break
                line, next_ = key.line(item), f'next="{short(behind)}"'
                if line.tone != "aside" and line.group != "lists":
                    shown.append((key, item.recorded_at, line))
                    places[id(line)] = short(item.position)
                    size += len(str(line)) + _MARGIN
            else:
                next_ = ""
        lines, day = list[str](), ""
        for part in tell(shown if oldest_first else shown[::-1]):
            before, (day, _, clock) = day, (when(part.at) or "").partition("T")
            lines += [day] if day != before else []
            lines += _told(part, f"{places[id(part.line)]} {clock[:8]}")
        return "\n".join([*lines, *([next_] if next_ else [])]) or "nothing happened"

    async def record(self, session_id: SessionId, position: Position, offset: From = 0) -> str:
        """Show one record whole, as JSON: a message, a step's end, an update. 20,000 characters of
        it, from `offset` on."""
        wanted = _parsed(position)
        behind = (Reach(e.seq, e.index + 1) if e.seq and e.index is not None else e for e in wanted)
        cursor = str(LogPosition(tuple(behind)))
        async with aclosing(self._read(self._store, session_id, cursor)) as records:
            async for key, item, _ in records:
                if short(item.position) != short(LogPosition(wanted)):
                    break
                made = record_of(key, item, None)
                if name := getattr(item.record, "blob", ""):
                    data = await self._store.blobs.read(key, name)
                    made["record"]["result"] = None if data is None else codec.decode(data)
                text = encode(made).decode()
                end = offset + ANSWER
                rest = f"\n... {len(text) - end:,} more characters: offset={end}"
                return text[offset:end] + (rest if end < len(text) else "")
        raise NotFound("record", position, f"session {session_id!r:.80} has none there")

    async def search(
        self,
        session_id: SessionId,
        text: Text = "",
        kind: Kind = "",
        limit: Limit = 20,
        cursor: Cursor = "",
        at: At = "",
    ) -> str:
        """Find records of a session that contain a text, the latest first, with an excerpt each."""
        store = await self._seen(at, session_id)
        items, ends, last, scanned, note = list[dict[str, Any]](), [cursor], cursor, 0, ""
        async with aclosing(self._read(store, session_id, cursor, kind=kind)) as records:
            async for key, item, behind in records:
                if len(items) > limit:
                    break
                if scanned == _SCANNED:
                    note = f"{scanned:,} records were read; on with cursor={last}"
                    break
                scanned, last = scanned + 1, short(behind)
                record = encode(record_of(key, item, None)["record"]).decode()
                at_ = record.lower().find(text.lower())
                if at_ >= 0:
                    ends.append(last)
                    items.append(_found(key, item, record, at_, len(text)))
        return page("records", items, limit, lambda n: ends[n], note=note)

    async def steps(
        self,
        session_id: SessionId,
        run: OfRun = "",
        phase: Phase = "",
        limit: Limit = 50,
        offset: Offset = 0,
        at: At = "",
    ) -> str:
        """List the steps of a run, in the order in which they began: each model and tool call with
        arguments, result or error, seconds, tokens and cost."""
        store = await self._seen(at, session_id)
        name = run or session_id
        state = await store.view(kinds.runs(session_id, name), consistency="strong")
        if not state:
            await self._check(store, session_id)
            known = [key.keys[1] for key in await store.keys(kinds.runs, [session_id])]
            raise NotFound("run", name, f"the runs are {', '.join(known[:_SOME])}" if known else "")
        task = [_task(e) for e in await store.list_tasks(session_id) if e.task_id == name]
        about = (task[0] if task else {}) | {
            "function": state.job and state.job.function,
            "arguments": state.job and state.job.arguments,
            "owner": f"process {state.pid} on {state.host}" if state.tenure else None,
            "usage": state.usage,
            "returned": state.returned and state.returned.result,
        }
        steps = [_step(each) for each in state.steps.values() if phase in ("", each.phase)]
        return page("steps", steps[offset:], limit, lambda n: offset + n, **about)

    async def waiting(
        self, session_id: Of = "", limit: Limit = 20, cursor: Cursor = "", at: At = ""
    ) -> str:
        """List what waits for a person, oldest first: questions, approvals, steps that may have
        happened or not. A person answers with `foldlog answer ID`."""
        store = await self._seen(at, session_id)
        found = await store.waiting(
            session_id=session_id or None, after=cursor or None, limit=limit + 1
        )
        return page("waiting", map(_waiting, found), limit, lambda n: found[n - 1].id)

    async def queues(self, limit: Limit = 50, offset: Offset = 0, at: At = "") -> str:
        """Show queues of runs, the workers at them, schedules, and the runs that failed."""
        asked = (await self._seen(at)).queues
        failed = await asked.failed()
        schedules = [(each, when(each.next)) for each in await asked.schedules()]
        about = {
            "queues": [fields(each) for each in await asked.all()],
            "workers": [fields(each) for each in await asked.workers()],
            "schedules": [fields(e, "arguments") | {"next": next_} for e, next_ in schedules],
            "failed_in_all": len(failed),
        }
        return page("failed", map(fields, failed[offset:]), limit, lambda n: offset + n, **about)

    async def sql(self, query: Query = "", limit: Limit = 100, at: At = "") -> str:
        """Query the whole log in DuckDB's SQL: tables such as events, updates, tasks, messages,
        steps. It only reads. Call it without a query first: it lists the tables with their columns.

        `DESCRIBE updates` has types. Of JSON: `content->>'text'`. Page by LIMIT and OFFSET.
        """
        store = await self._seen(at)
        if not query.strip():
            return "\n".join(f"{t.name} ({t.row}): {', '.join(t.columns)}" for t in tables(store))
        found = await store.sql(query, max_bytes=_SQL_BYTES)
        more = f"of {len(found.rows)} rows"
        columns = list(found.columns)
        return page("rows", found.rows, limit, lambda n: f"OFFSET {n} {more}", columns=columns)

    # --- what they have in common -----------------------------------------------------------------

    async def _seen(self, at: str, session_id: str = "") -> Store:
        """The store as it is, or at a moment; the last of these is kept, with what it has read."""
        named = moment(at)
        if named is None:
            return self._store
        if session_id and isinstance(named, str):
            named = await step_moment(self._store, session_id, named) or named
        past = self._store.at(named)
        position = await past.position()
        if self._past is None or self._past[0] != position:
            self._past = position, past
        return self._past[1]

    async def _check(self, store: Store, session_id: str) -> None:
        """Raise NotFound if a session holds nothing."""
        known = await store.sessions()
        if session_id not in known:
            near = get_close_matches(session_id, known, n=3) or known[:5]
            hint = f"is it one of {', '.join(near)}?" if near else "there is none at all"
            raise NotFound("session", session_id, hint)

    async def _views(self, store: Store, session_id: str, kind: str) -> list[Key[Any]]:
        """The views of a session that hold something, or of a trace of that name. Raises NotFound:
        there are none."""
        views = list[Key[Any]]()
        for of in (Run("session", session_id), Run("trace", session_id)):
            views = views or [e for e in await of.views(store) if await store.items(e, limit=1)]
        if not views:
            await self._check(store, session_id)
        names = sorted({key.kind.name for key in views})
        if kind and kind not in names:
            raise NotFound("kind", kind, f"the session has {', '.join(names)}")
        return [key for key in views if kind in ("", key.kind.name)]

    async def _read(
        self, store: Store, session_id: str, cursor: str, oldest_first: bool = False, kind: str = ""
    ) -> AsyncGenerator[tuple[Key[Any], Item, LogPosition]]:
        """The records of a session behind a cursor, each with the cursor behind it."""
        views = await self._views(store, session_id, kind)
        head = await store.position()
        ends = tuple(Reach(0, 0) if oldest_first else Reach(e.seq + 1, 0) for e in head.shards)
        if cursor:
            ends = _parsed(cursor)
            if len(ends) != len(head.shards):
                raise PayloadError("position", f"{cursor} is of another number of shards")
        begin = dict.fromkeys(views, LogPosition(ends))
        found = merged(store, begin, head, _kept, newest_first=not oldest_first)
        async with aclosing(found) as records:
            async for each in records:
                pairs = zip(ends, each.position.shards, strict=True)
                ends = tuple(new if new.seq else old for old, new in pairs)
                yield each.key, each.record["item"], LogPosition(ends)


def _kept(key: Key[Any], item: Item) -> Shown:
    return Shown(place_of(item), key, item.position, None, {"item": item})


def _parsed(position: str) -> tuple[Reach, ...]:
    """The places of records that a text names: the first one of a sequence, if it says no more."""
    return tuple(Reach(e.seq, e.index or 0) for e in LogPosition.parse(position).shards)


def _summary(summary: msgspec.Struct, *without: str) -> dict[str, Any]:
    found = msgspec.structs.asdict(summary)
    return fields(found | {"last_activity": when(found["last_activity"])}, *without)


def _task(task: object) -> dict[str, Any]:
    return fields(task, "session_id", "context_snapshot", "trace_id")


def _waiting(item: Waiting) -> dict[str, Any]:
    question = words.question(item)
    said = ("id", "asked") if item.asked == question else ("id",)
    return {"id": item.id, "question": question} | fields(item, *said)


def _step(step: Step) -> dict[str, Any]:
    found = msgspec.structs.asdict(step)
    found |= {"ts": when(step.ts), "until": when(step.until), "seconds": round(step.seconds, 3)}
    found |= {e: codec.decode(found[e]) for e in ("arguments", "question", "result")}
    if step.blob:
        found["result"] = "(a large value: `record` shows it, at the position of the step's end)"
    return fields(found, "digest", "type", "blob", "repeatable")


def _found(key: Key[Any], item: Item, text: str, at: int, size: int) -> dict[str, Any]:
    start, end = max(at - _AROUND, 0), at + size + _AROUND
    excerpt = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
    where = {"position": short(item.position), "time": when(item.recorded_at)}
    return where | {"kind": key.kind.name, "what": key.line(item).what, "excerpt": excerpt}


def _told(part: Part, margin: str) -> list[str]:
    """The lines of a part of a story: where and when, what happened, what became of it."""
    indent = "  " * part.depth
    waits = " (nobody has answered yet)" if part.waits else ""
    more = [f"    {indent}-> {each}" for each in part.outcomes()]
    return [f"{margin} {indent}{part.line}{waits}", *more]

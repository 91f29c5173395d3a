"""The tools: questions about a log, each with a short answer. A store that only reads has them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from difflib import get_close_matches
from typing import Annotated, Any, Final

import msgspec
from pydantic import Field

from foldlog import codec, kinds, words
from foldlog.errors import Misuse, NotFound, PayloadError
from foldlog.kind import Key
from foldlog.mcp.answers import ANSWER, fields, page, short, when
from foldlog.models import Waiting
from foldlog.opening import Store
from foldlog.position import LogPosition, Reach
from foldlog.runs.moments import step_moment
from foldlog.sql import Table
from foldlog.store.core import core_of
from foldlog.store.ownership import lineage_of
from foldlog.store.primitives import Item
from foldlog.story import Part, tell
from foldlog.ui.asked import moment
from foldlog.ui.catalogue import Catalogue
from foldlog.ui.plain import encode, record_of
from foldlog.ui.reading import before
from foldlog.ui.run import Run, Shown, merged, place_of

_SCANNED: Final = 5_000
"""Records that one search looks through; the next goes on."""

_SECONDS: Final = 5.0
"""How long summaries of sessions are made for."""

_AROUND: Final = 200
"""Characters of a record before and behind what was searched."""

_SOME: Final = 20
"""Traces of a session, and what waits in it, that are named at most."""

_COMMON: Final = ("id", "type", "ts", "recorded_at", "shard", "seq")
"""The columns of every table."""

_MARGIN: Final = 50
"""Characters of a line of a story beside what it says."""

SessionId = Annotated[str, Field(description="The session's id, as `sessions` lists it.")]
Limit = Annotated[int, Field(ge=1, le=500, description="How many at most.")]
Cursor = Annotated[
    str | None, Field(description="`next` of the answer before this one, with the same arguments.")
]
At = Annotated[
    str | None,
    Field(
        description="An earlier moment: `@1234`, `2026-01-31T14:02:00Z`, an update's id, or of a "
        "session `before step NAME`. Without: now."
    ),
]


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
        text: Annotated[
            str, Field(description="Only those with this in their id, topic or last words.")
        ] = "",
        status: Annotated[
            str,
            Field(
                description="Only these: waiting (for a person), running, failed, pending, "
                "cancelled, finished, or open (without tasks)."
            ),
        ] = "",
        limit: Limit = 20,
        cursor: Cursor = None,
        at: At = None,
    ) -> str:
        """List sessions: what each is about, its status and last words. Latest activity first.

        Start here. To search in everything that sessions hold, use `sql`.
        """
        store = await self._seen(at)
        catalogue = self._catalogue if store is self._store else Catalogue(store)
        start = _number(cursor)
        found = await catalogue.page(
            text=text, status=status, offset=start, limit=limit + 1, seconds=_SECONDS
        )
        items = [_summary(each) for each in found["sessions"]]
        missing = "" if found["complete"] else "some are not read yet: ask again"
        return page(
            *("sessions", items, limit, lambda n: start + n),
            total=found["total"],
            statuses=found["statuses"],
            missing=missing,
        )

    async def session(self, session_id: SessionId, at: At = None) -> str:
        """Show one session: its tasks and runs with their status, what waits, forks and traces."""
        store = await self._seen(at, session_id)
        summary = await Catalogue(store).one(session_id)
        if not summary.records:
            await self._check(store, session_id)
        lineage = await lineage_of(core_of(store), session_id)
        origin = lineage.origin
        about = fields(_summary(summary), "tasks") | {
            "forked_from": origin and f"{origin.session_id} at {origin.position}",
            "forks": list(lineage.forks),
            "traces": await store.list_traces(session_id, limit=_SOME),
            "waiting": [
                _waiting(each) for each in await store.waiting(session_id=session_id, limit=_SOME)
            ],
            "position": str(await store.position()),
        }
        tasks = sorted(await store.list_tasks(session_id), key=lambda t: t.updated_at, reverse=True)
        items = [fields(each, "session_id", "context_snapshot", "trace_id") for each in tasks]
        everything = f"`sql` has all {len(tasks)}"
        return page("tasks", items, len(items) + 1, lambda n: everything, **about)

    async def story(
        self,
        session_id: SessionId,
        oldest_first: Annotated[
            bool, Field(description="Begin at the beginning. Without: with the latest records.")
        ] = False,
        limit: Limit = 60,
        cursor: Cursor = None,
        at: At = None,
    ) -> str:
        """Tell what happened in a session, in order and in words: messages, steps with arguments
        and results, questions and answers, orders, files. Also of a trace, by its id.

        Each line begins with its position, for `record` and `at`, and its time in UTC. Long texts
        are cut.
        """
        store = await self._seen(at, session_id)
        found, size, ends = deque[tuple[Key[Any], Item]](), 0, None
        async with aclosing(self._read(store, session_id, cursor, oldest_first)) as records:
            async for key, item, position in records:
                said = key.line(item)
                if len(found) == limit or size > ANSWER:
                    break
                ends = position
                if said.tone != "aside" and said.group != "lists":
                    size += len(str(said)) + _MARGIN
                    found.append((key, item))
            else:
                ends = None
        if not oldest_first:
            found.reverse()
        places = {}
        told = [(key, item.recorded_at, key.line(item)) for key, item in found]
        for (_, item), (_, _, said) in zip(found, told, strict=True):
            places[id(said)] = short(item.position)
        lines, day = list[str](), ""
        for part in tell(told):
            before_, (day, _, clock) = day, (when(part.at) or "").partition("T")
            lines += [day] if day != before_ else []
            lines += _told(part, f"{places[id(part.line)]} {clock[:8]}")
        if ends is not None:
            more = "what came next" if oldest_first else "what was before"
            lines.append(f'... {more}: the same with cursor="{_exact(ends)}"')
        return "\n".join(lines) or "nothing happened"

    async def record(
        self,
        session_id: SessionId,
        position: Annotated[str, Field(description="Its position, as `@1234`.")],
        offset: Annotated[int, Field(ge=0, description="From which character on.")] = 0,
    ) -> str:
        """Show one record whole, as JSON: a message, a step's end, an update. 20,000 characters of
        it, from `offset` on."""
        wanted = LogPosition.parse(position)
        views = await self._views(self._store, session_id)
        head = await self._store.position()
        if len(wanted.shards) != len(head.shards):
            raise PayloadError("position", f"{position} is of another number of shards")
        behind = dict.fromkeys(views, before(wanted))
        async with aclosing(merged(self._store, behind, head, _kept)) as records:
            async for each in records:
                item: Item = each.record["item"]
                if not _is_at(item.position, wanted):
                    break
                made = record_of(each.key, item, None)
                if name := getattr(item.record, "blob", ""):
                    data = await self._store.blobs.read(each.key, name)
                    made["record"]["result"] = None if data is None else codec.decode(data)
                text = encode(made).decode()
                part = text[offset : offset + ANSWER]
                end = offset + len(part)
                rest = f"\n... {len(text) - end:,} more characters: offset={end}"
                return part + (rest if end < len(text) else "")
        raise NotFound("record", position, f"session {session_id!r:.80} has none there")

    async def search(
        self,
        session_id: SessionId,
        text: Annotated[str, Field(description="What to find, whatever the case.")] = "",
        kind: Annotated[
            str,
            Field(description="Only records of this kind: messages, updates, steering, runs ..."),
        ] = "",
        limit: Limit = 20,
        cursor: Cursor = None,
        at: At = None,
    ) -> str:
        """Find records of a session that contain a text, the latest first, with an excerpt each."""
        store = await self._seen(at, session_id)
        items, ends, last, scanned, note = list[dict[str, Any]](), list[str](), "", 0, ""
        async with aclosing(self._read(store, session_id, cursor, kind=kind)) as records:
            async for key, item, position in records:
                if len(items) > limit:
                    break
                if scanned == _SCANNED:
                    note = f"{scanned:,} records were read; on with cursor={last}"
                    break
                scanned, last = scanned + 1, _exact(position)
                record = encode(record_of(key, item, None)["record"]).decode()
                at_ = record.lower().find(text.lower())
                if at_ >= 0:
                    ends.append(last)
                    items.append(_found(key, item, record, at_, len(text)))
        return page("records", items, limit, lambda n: ends[n - 1], note=note)

    async def steps(
        self,
        session_id: SessionId,
        run: Annotated[
            str, Field(description="The run: a task's id. Without: that of the session's name.")
        ] = "",
        phase: Annotated[
            str,
            Field(
                description="Only these: started, done, failed, retracted, asked, asleep, doubted "
                "(nobody knows whether it happened) or unrecorded."
            ),
        ] = "",
        limit: Limit = 50,
        cursor: Cursor = None,
        at: At = None,
    ) -> str:
        """List the steps of a run, in the order in which they began: each model and tool call with
        arguments, result or error, seconds, tokens and cost."""
        store = await self._seen(at, session_id)
        name = run or session_id
        tasks = {each.task_id: each for each in await store.list_tasks(session_id)}
        state = await store.view(kinds.runs(session_id, name), consistency="strong")
        if not state:
            await self._check(store, session_id)
            known = [k.keys[1] for k in await store.keys(kinds.runs, [session_id])]
            raise NotFound("run", name, f"the runs are {', '.join(known[:20])}" if known else "")
        job = state.job
        about = {
            "run": name,
            "status": tasks[name].status if name in tasks else None,
            "error": tasks[name].error if name in tasks else None,
            "function": job and job.function,
            "arguments": job and job.arguments,
            "owner": f"process {state.pid} on {state.host}" if state.tenure else None,
            "usage": state.usage,
            "returned": state.returned and state.returned.result,
        }
        start = _number(cursor)
        steps = [each for each in state.steps.values() if phase in ("", each.phase)]
        items = [_step(each) for each in steps[start:]]
        return page("steps", items, limit, lambda n: start + n, **about)

    async def waiting(
        self,
        session_id: Annotated[str | None, Field(description="Only of this session.")] = None,
        limit: Limit = 20,
        cursor: Cursor = None,
        at: At = None,
    ) -> str:
        """List what waits for a person, oldest first: questions, approvals, steps of which nobody
        knows whether they happened. A person answers with `foldlog answer ID`."""
        store = await self._seen(at, session_id)
        found = await store.waiting(session_id=session_id, after=cursor, limit=limit + 1)
        return page("waiting", map(_waiting, found), limit, lambda n: found[n - 1].id)

    async def queues(
        self,
        queue: Annotated[str, Field(description="Only this one.")] = "",
        limit: Limit = 50,
        cursor: Cursor = None,
        at: At = None,
    ) -> str:
        """Show queues of runs, the workers at them, schedules, and the runs that failed."""
        store = await self._seen(at)
        asked, start = store.queues, _number(cursor)
        failed = await asked.failed(queue or None)
        about = {
            "queues": [fields(e) for e in await asked.all() if queue in ("", e.name)],
            "workers": [fields(each) for each in await asked.workers()],
            "schedules": [
                fields(each, "arguments") | {"next": when(each.next)}
                for each in await asked.schedules()
                if queue in ("", each.queue)
            ],
            "failed_in_all": len(failed),
        }
        items = [fields(each) for each in failed[start:]]
        return page("failed", items, limit, lambda n: start + n, **about)

    async def sql(
        self,
        query: Annotated[
            str, Field(description="One query in DuckDB's SQL. Without: the tables.")
        ] = "",
        limit: Limit = 100,
        at: At = None,
    ) -> str:
        """Query the whole log in DuckDB's SQL: tables such as events, updates, tasks, messages,
        steps. It only reads. Call it without a query first: it lists the tables with their columns.

        Columns of JSON: `content->>'text'`. Page by LIMIT and OFFSET in the query.
        """
        from foldlog.sql import tables

        store = await self._seen(at)
        if not query.strip():
            common = f"Each table also has {', '.join(_COMMON)}. Columns without a type are texts."
            return "\n".join([common, *map(_table, tables(store))])
        found = await store.sql(query, max_rows=10_000, max_bytes=128 * 1024 * 1024)
        return page(
            *("rows", found.rows, limit, lambda n: f"OFFSET {n} of {len(found.rows)} rows"),
            columns=list(found.columns),
        )

    # --- what they have in common -----------------------------------------------------------------

    async def _seen(self, at: str | None, session_id: str | None = None) -> Store:
        """The store as it is, or at a moment; the last of these is kept, with what it has read."""
        named = moment(at)
        if named is None:
            return self._store
        if session_id is not None and isinstance(named, str):
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

    async def _views(self, store: Store, session_id: str, kind: str = "") -> Sequence[Key[Any]]:
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
        self,
        store: Store,
        session_id: str,
        cursor: str | None,
        oldest_first: bool = False,
        kind: str = "",
    ) -> AsyncGenerator[tuple[Key[Any], Item, LogPosition]]:
        """The records of a session behind a cursor, each with the cursor behind it."""
        views = await self._views(store, session_id, kind)
        head = await store.position()
        begin = LogPosition(tuple(Reach(0) for _ in head.shards)) if oldest_first else head
        ends = LogPosition.parse(cursor) if cursor else begin
        if len(ends.shards) != len(head.shards):
            raise PayloadError("cursor", f"{cursor} is of another number of shards")
        found = merged(
            store, dict.fromkeys(views, ends), head, _kept, newest_first=not oldest_first
        )
        async with aclosing(found) as records:
            async for each in records:
                pairs = zip(ends.shards, each.position.shards, strict=True)
                ends = LogPosition(tuple(new if new.seq else old for old, new in pairs))
                yield each.key, each.record["item"], ends


def _kept(key: Key[Any], item: Item) -> Shown:
    return Shown(place_of(item), key, item.position, None, {"item": item})


def _is_at(found: LogPosition, wanted: LogPosition) -> bool:
    """Whether a record stands at a position, which need not say where in its sequence."""
    return all(
        each.seq == asked.seq and asked.index in (None, each.index)
        for each, asked in zip(found.shards, wanted.shards, strict=True)
        if asked.seq
    )


def _exact(position: LogPosition) -> str:
    return "@" + ",".join(str(Reach(each.seq, each.index)) for each in position.shards)


def _table(table: Table) -> str:
    """A table in a line, without the columns that all have."""
    own = {name: t for name, t in table.columns.items() if name not in _COMMON}
    columns = (name if t == "VARCHAR" else f"{name} {t}" for name, t in own.items())
    return f"{table.name} ({table.row}): {', '.join(columns)}"


def _number(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit()):
        raise Misuse(f"{cursor!r:.80} is no cursor of this list: give `next` of its last answer")
    return int(cursor[:9])


def _summary(summary: msgspec.Struct) -> dict[str, Any]:
    found = fields(msgspec.structs.asdict(summary))
    return fields(found | {"last_activity": when(found.get("last_activity", 0))})


def _waiting(item: Waiting) -> dict[str, Any]:
    question = words.question(item)
    said = ("id", "asked") if item.asked == question else ("id",)
    return {"id": item.id, "question": question} | fields(item, *said)


def _step(step: Any) -> dict[str, Any]:
    found = msgspec.structs.asdict(step)
    for name in ("arguments", "question", "result"):
        found[name] = codec.decode(found[name])
    if step.blob:
        found["result"] = "(a large value: `record` shows it, at the position of the step's end)"
    found |= {
        "ts": when(step.ts),
        "until": when(step.until),
        "seconds": round(step.seconds, 3),
        "kind": step.kind if step.kind != "step" else None,
        "attempt": step.attempt if step.attempt > 1 else None,
    }
    return fields(found, "digest", "type", "blob", "repeatable")


def _found(key: Key[Any], item: Item, text: str, at: int, size: int) -> dict[str, Any]:
    start = max(at - _AROUND, 0)
    end = at + size + _AROUND
    excerpt = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
    said = key.line(item)
    place, time = short(item.position), when(item.recorded_at)
    return {"position": place, "time": time, "kind": key.kind.name, "what": said.what} | {
        "excerpt": excerpt
    }


def _told(part: Part, margin: str) -> list[str]:
    """The lines of a part of a story: where and when, what happened, what became of it."""
    indent = "  " * part.depth
    waits = " (nobody has answered yet)" if part.waits else ""
    return [
        f"{margin} {indent}{part.line}{waits}",
        *(f"    {indent}-> {each}" for each in part.outcomes()),
    ]

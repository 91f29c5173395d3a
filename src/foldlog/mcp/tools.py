"""The tools: questions about a log, each with a short answer. A store that only reads has them."""

from __future__ import annotations

from contextlib import aclosing
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from pydantic import Field

from foldlog import codec, kinds, words
from foldlog.errors import NotFound
from foldlog.jsonable import jsonable
from foldlog.kind import Key
from foldlog.mcp.answers import ANSWER, page, when
from foldlog.models import TaskState
from foldlog.opening import Store
from foldlog.position import LogPosition, Reach
from foldlog.runs.moments import step_moment
from foldlog.runs.queues import described
from foldlog.sql import tables
from foldlog.story import Part, tell
from foldlog.ui.asked import moment
from foldlog.ui.catalogue import STATUSES, Catalogue
from foldlog.ui.plain import encode, record_of
from foldlog.ui.reading import before
from foldlog.ui.run import Run, Shown, merged, shown
from foldlog.words import Line
from foldlog_projections.runs.runs import Step

_SCANNED: Final = 5_000
"""Records that one call looks through for a text; the next goes on."""

_MARGIN: Final = 50
"""Characters of a line of a story beside what it says."""

_MANY: Final = 500
"""So many items fill an answer, whatever is in them."""

_NEXT: Final = "`next` of the answer before this one, with the same arguments."
_AT: Final = "Then: `@1234`, `2026-01-31T14:02:00Z`, an update's id, `before step NAME`; else now."

Id = Annotated[str, Field(description="The session's id, as `sessions` lists it.")]
Cursor = Annotated[str, Field(description=_NEXT)]
Offset = Annotated[int, Field(ge=0, description=_NEXT)]
At = Annotated[str, Field(description=_AT)]
Topic = Annotated[str, Field(description="Only those with this in their id, topic, last words.")]
Status = Annotated[str, Field(description=f"Only these: {', '.join(STATUSES)} (without tasks).")]
Text = Annotated[str, Field(description="Only records that contain this, whatever the case.")]
Position = Annotated[str, Field(description="The record's position, as `@1234`.")]
OfRun = Annotated[str, Field(description="The run: a task's id. Without: named as the session.")]
Of = Annotated[str, Field(description="Only of this session.")]
Query = Annotated[str, Field(description="One query in DuckDB's SQL. Without: the tables.")]


class Tools:
    """What an agent may ask of a store. Each method is a tool, its docstring what the agent reads.

    Errors as the store's methods, and `foldlog.bounds.Refused`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catalogue = Catalogue(store)

    async def sessions(
        self, text: Topic = "", status: Status = "", offset: Offset = 0, at: At = ""
    ) -> str:
        """List sessions: what each is about, its status and last words. Latest activity first.

        Start here. To search in everything that sessions hold, use `sql`. Not `complete`: some are
        not read yet, ask again.
        """
        catalogue = Catalogue(await self._seen(at)) if at else self._catalogue
        found = await catalogue.page(text=text, status=status, offset=offset, limit=_MANY)
        return page("sessions", found.pop("sessions"), offset, **found)

    async def session(self, session_id: Id, offset: Offset = 0, at: At = "") -> str:
        """Show one session: its tasks and runs with their status, forks and traces."""
        store = await self._seen(at, session_id)
        about = await Catalogue(store).about(session_id)
        if not about["session"].records:
            await self._check(store, session_id)
        tasks = map(_task, (await store.list_tasks(session_id))[offset:])
        return page("tasks", tasks, offset, **about)

    async def story(self, session_id: Id, text: Text = "", cursor: Cursor = "", at: At = "") -> str:
        """Tell what happened in a session, in order and in words: messages, steps with arguments
        and results, questions and answers, orders, files. Also of a trace, by its id.

        The latest records, unless `cursor` or `at` says otherwise. Each line begins with its
        position, for `record` and `at`, and its time in UTC. Long texts are cut. With `text` it
        searches: only records that contain it, in whatever is long too.
        """
        store = await self._seen(at, session_id)
        head = await store.position()
        ends = tuple(Reach(each.seq + 1, 0) for each in head.shards)
        if cursor:
            ends = tuple(Reach(e.seq, e.index or 0) for e in LogPosition.parse(cursor).shards)
        begin = dict.fromkeys(await _views(store, session_id), LogPosition(ends))
        found, size, scanned, more = list[tuple[Shown, Line]](), 0, 0, ""
        latest = merged(store, begin, head, partial(shown, cut=None), newest_first=True)
        async with aclosing(latest) as records:
            async for each in records:
                if size > ANSWER or scanned == _SCANNED:
                    more = f"next={_short(LogPosition(ends))}"
                    break
                pairs = zip(ends, each.position.shards, strict=True)
                ends, scanned = tuple(new if new.seq else old for old, new in pairs), scanned + 1
                line = Line(**each.record["line"])
                is_shown = line.tone != "aside" and line.group != "lists"
                if (text or is_shown) and text.lower() in _json(each.record["record"]).lower():
                    found.append((each, line))
                    size += len(str(line)) + _MARGIN
        if not found and not cursor:
            await self._check(store, session_id)
        places = {id(line): _short(each.position) for each, line in found}
        parts = [(each.key, each.record["recorded_at"], line) for each, line in reversed(found)]
        lines, day = list[str](), ""
        for part in [Part(at_, line) for _, at_, line in parts] if text else tell(parts):
            earlier, (day, _, clock) = day, (when(part.at) or "").partition("T")
            lines += [day] if day != earlier else []
            lines += _lines(part, f"{places[id(part.line)]} {clock[:8]}")
        return "\n".join(filter(None, [*lines, more])) or "nothing happened"

    async def record(self, session_id: Id, position: Position, offset: Offset = 0) -> str:
        """Show one record whole, as JSON: a message, a step's end, an update. 12,000 characters of
        it, from `offset` on."""
        wanted = LogPosition.parse(position)
        for key in await _views(self._store, session_id):
            for item in await self._store.items(key, after=before(wanted), limit=1):
                if _short(item.position) != _short(wanted):
                    continue
                made = record_of(key, item, None)
                if name := getattr(item.record, "blob", ""):
                    data = await self._store.blobs.read(key, name)
                    made["record"]["result"] = None if data is None else codec.decode(data)
                text = _json(made)
                end = offset + ANSWER
                rest = f"\n... {len(text) - end:,} more characters: offset={end}"
                return text[offset:end] + (rest if end < len(text) else "")
        raise NotFound("record", position, f"session {session_id!r:.80} has none there")

    async def steps(self, session_id: Id, run: OfRun = "", offset: Offset = 0, at: At = "") -> str:
        """List the steps of a run, in the order in which they began: each model and tool call with
        arguments, result or error, seconds, tokens and cost. `blob`: the result is large, and
        `record` shows it, at the position of the step's end."""
        store = await self._seen(at, session_id)
        name = run or session_id
        state = await store.view(kinds.runs(session_id, name), consistency="strong")
        tasks = {each.task_id: each for each in await store.list_tasks(session_id)}
        if not state:
            await self._check(store, session_id)
            raise NotFound("run", name, f"the tasks are {', '.join(tasks)}"[:ANSWER])
        steps = [_step(each) for each in state.steps.values()][offset:]
        about = _task(tasks.get(name)) | {"usage": state.usage, "returned": state.returned}
        return page("steps", steps, offset, job=state.job, **about)

    async def waiting(self, session_id: Of = "", offset: Offset = 0, at: At = "") -> str:
        """List what waits for a person, oldest first: questions, approvals, steps that may have
        happened or not. A person answers with `foldlog answer ID`."""
        store = await self._seen(at, session_id)
        found = await store.waiting(session_id=session_id or None, limit=offset + _MANY)
        items = ({"question": words.question(each), **jsonable(each)} for each in found[offset:])
        return page("waiting", items, offset)

    async def queues(self, offset: Offset = 0, at: At = "") -> str:
        """Show queues of runs, the workers at them, schedules, and the runs that failed."""
        found = await described((await self._seen(at)).queues)
        failed = found.pop("failed")
        found["schedules"] = [each | {"next": when(each["next"])} for each in found["schedules"]]
        return page("failed", failed[offset:], offset, failed_in_all=len(failed), **found)

    async def sql(self, query: Query = "", offset: Offset = 0, at: At = "") -> str:
        """Query the whole log in DuckDB's SQL: tables such as events, updates, tasks, messages,
        steps. It only reads. Call it without a query first: it lists the tables with their columns.

        `DESCRIBE updates` has types. Of JSON: `content->>'text'`.
        """
        store = await self._seen(at)
        if not query.strip():
            return "\n".join(f"{t.name} ({t.row}): {', '.join(t.columns)}" for t in tables(store))
        found = await store.sql(query)
        return page("rows", found.rows[offset:], offset, columns=found.columns)

    # --- what they have in common -----------------------------------------------------------------

    async def _seen(self, at: str, session_id: str = "") -> Store:
        """The store as it is, or at a moment."""
        named = moment(at)
        if session_id and isinstance(named, str):
            named = await step_moment(self._store, session_id, named) or named
        return self._store if named is None else self._store.at(named)

    async def _check(self, store: Store, session_id: str) -> None:
        """Raise NotFound if a session holds nothing."""
        known = await store.sessions()
        if session_id not in known:
            near = get_close_matches(session_id, known, n=3) or known[:5]
            hint = f"is it one of {', '.join(near)}?" if near else "there is none at all"
            raise NotFound("session", session_id, hint)


async def _views(store: Store, session_id: str) -> list[Key[Any]]:
    """The views of a session, or else of a trace of that name."""
    found = await Run("session", session_id).views(store)
    return found or await Run("trace", session_id).views(store)


def _task(task: TaskState | None) -> dict[str, Any]:
    found: dict[str, Any] = jsonable(task) or {}
    return {name: each for name, each in found.items() if name != "context_snapshot"}


def _step(step: Step) -> dict[str, Any]:
    found = msgspec.structs.asdict(step) | {"digest": None}
    return found | {e: codec.decode(found[e]) for e in ("arguments", "question", "result")}


def _json(value: object) -> str:
    return encode(value).decode()


def _short(position: LogPosition) -> str:
    """A position without its marks: `@1234`, a moment and a record's place."""
    parts = (f"{r.seq}.{r.index}" if r.index else str(r.seq) for r in position.shards)
    return "@" + ",".join(parts)


def _lines(part: Part, margin: str) -> list[str]:
    """The lines of a part of a story: where and when, what happened, what became of it."""
    indent = "  " * part.depth
    waits = " (nobody has answered yet)" if part.waits else ""
    more = [f"    {indent}-> {each}" for each in part.outcomes()]
    return [f"{margin} {indent}{part.line}{waits}", *more]

"""The description of `/api/`, as OpenAPI 3.1: for people who write other programs on it."""

from __future__ import annotations

from typing import Any, Final

import foldlog
from foldlog.models import SteeringEventType
from foldlog.ui.asked import DOING
from foldlog.ui.catalogue import STATUSES

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_NUMBER: Final[Json] = {"type": "number"}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_LIMIT: Final[Json] = {"type": ["integer", "null"]}
_TIME: Final[Json] = {"type": ["string", "null"], "format": "date-time"}
_POSITION: Final[Json] = {"type": "string", "examples": ["@1234~9f3a1c2e"]}


def _object(_about: str = "", /, **fields: Json) -> Json:
    made: Json = {"type": "object", "properties": fields}
    return made | {"description": _about} if _about else made


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _query(name: str, about: str, schema: Json = _TEXT, *, required: bool = False) -> Json:
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": about,
        "schema": schema,
    }


_OF_RUN: Final[Json] = {
    **dict.fromkeys(("session_id", "id", "function", "queue"), _TEXT),
    "since": {"type": "string", "format": "date-time"},
}
_RUN: Final = [
    _query("session", "The id of a session; or name a trace."),
    _query("trace", "The id of a trace."),
]
_AFTER: Final = _query("after", "Only records behind this position of the log.", _POSITION)
_UNTIL: Final = _query("until", "No record behind this position: as it was then.", _POSITION)


def _get(
    about: str, parameters: list[Json], schema: Json, media: str = "application/json"
) -> dict[str, Json]:
    found = {"description": "Found.", "content": {media: {"schema": schema}}}
    return {
        "get": {
            "summary": about,
            "parameters": parameters,
            "responses": {"200": found, "default": {"$ref": "#/components/responses/Error"}},
        }
    }


def _post(about: str, body: Json, required: list[str], schema: Json) -> dict[str, Json]:
    content = {"application/json": {"schema": body | {"required": required}}}
    done = {"description": "Done.", "content": {"application/json": {"schema": schema}}}
    return {
        "post": {
            "summary": about,
            "description": "A browser also sends the header X-Foldlog-CSRF with the `csrf` of "
            "/api/about. A page that is read-only refuses it with 403.",
            "requestBody": {"required": True, "content": content},
            "responses": {"2XX": done, "default": {"$ref": "#/components/responses/Error"}},
        }
    }


_SCHEMAS: Final[Json] = {
    "Record": _object(
        "One record of the log.",
        position=_POSITION | {"description": "Where it stands; names the moment right after it."},
        view=_list(_TEXT) | {"description": "The kind, and the keys of the view."},
        id=_TEXT | {"description": "One effect an id: a record that comes twice counts once."},
        type=_TEXT | {"description": "What it is, as the kind declares."},
        ts=_NUMBER | {"description": "The writer's clock, Unix seconds."},
        recorded_at=_NUMBER | {"description": "The log's clock, Unix seconds."},
        writer=_TEXT | {"description": "The open store that appended it."},
        number=_COUNT | {"description": "Counts that store's drafts."},
        record=_object("The fields, as docs/reference/log-format.md describes them."),
        line=_object(
            "The record in plain words, as its kind declares.",
            what=_TEXT | {"description": "What happened, to what, or who spoke."},
            text=_TEXT | {"description": "What was said, on one line."},
            group=_TEXT | {"description": "Under which word it is shown or hidden."},
            tone={"enum": ["", "failed", "waiting"]},
        ),
        cut={
            "type": "boolean",
            "description": "A long text has only its beginning: /api/record has the whole.",
        },
    ),
    "Session": _object(
        "A session in the list.",
        id=_TEXT,
        status={"enum": list(STATUSES)},
        title=_TEXT,
        last=_TEXT | {"description": "What was said last."},
        last_activity=_NUMBER | {"description": "The log's clock, Unix seconds."},
        records=_COUNT,
        tasks=_object("How many tasks have each status."),
    ),
    "Waiting": _object(
        "What waits for a person.",
        id=_TEXT,
        kind={"enum": ["pause", "patch", "task", "question"]},
        asked={"description": "What is asked, as its source has it."},
        line=_TEXT | {"description": "What is asked, on one line."},
        session_id=_TEXT,
        trace_id=_TEXT,
        task_id=_TEXT,
        state_id=_TEXT,
        since={"type": "string", "format": "date-time"},
        until={"type": "string", "format": "date-time"},
        by=_TEXT | {"description": "Whom it is meant for."},
    ),
    "Queue": _object(
        "A queue of runs that workers do.",
        name=_TEXT,
        waiting=_COUNT,
        oldest=_TIME | {"description": "Since when the oldest run waits, or null."},
        held=_COUNT | {"description": "Runs that workers have."},
        failed=_COUNT,
        workers=_COUNT | {"description": "Workers that take from it."},
        paused={"type": "boolean"},
        at_once=_LIMIT,
        per_key=_LIMIT,
        rate=_LIMIT | {"description": "So many begin in `seconds`."},
        seconds=_NUMBER,
    ),
    "Worker": _object(
        "A worker.",
        process=_TEXT,
        host=_TEXT,
        pid=_COUNT,
        slots=_COUNT | {"description": "Runs that it takes at once; 0: it ends."},
        functions=_list(_TEXT),
        queues=_list(_TEXT) | {"description": "From which it takes; empty: from all."},
        runs=_list(_object(**_OF_RUN)),
    ),
    "Schedule": _object(
        "What begins again and again.",
        name=_TEXT,
        cron=_TEXT,
        zone=_TEXT,
        function=_TEXT,
        queue=_TEXT,
        session_id=_TEXT | {"description": "Of all its runs. Empty: each has its own."},
        next=_NUMBER | {"description": "When it begins next, Unix seconds."},
        catch_up={"type": "boolean"},
    ),
    "FailedRun": _object("A run that failed, the last one first.", **_OF_RUN, error=_TEXT),
}

_PATHS: Final[Json] = {
    "/api/about": _get(
        "Who asks, and what may be done",
        [],
        _object(
            version=_TEXT,
            namespace=_TEXT,
            user=_TEXT,
            read_only={"type": "boolean"},
            csrf=_TEXT,
            position=_POSITION,
        ),
    ),
    "/api/sessions": _get(
        "List sessions, the latest activity first",
        [
            _query("text", "Only those whose id, title or last words contain it."),
            _query("status", "Only those of this status.", {"enum": list(STATUSES)}),
            _query("offset", "How many to leave out.", _COUNT),
            _query("limit", "How many at most; 50 by default, 500 at most.", _COUNT),
        ],
        _object(
            sessions=_list(_ref("Session")),
            total=_COUNT,
            statuses=_object("How many sessions have each status."),
            waiting=_COUNT,
            complete={
                "type": "boolean",
                "description": "False while summaries of some sessions are still being made.",
            },
        ),
    ),
    "/api/session": _get(
        "Describe one session",
        [_query("session", "Its id.", required=True)],
        _object(
            session=_ref("Session"),
            origin=_object("What it was forked from.", session=_TEXT, position=_POSITION),
            forks=_list(_TEXT),
            traces=_list(_TEXT),
            position=_POSITION,
        ),
    ),
    "/api/records": _get(
        "Read a page of a run's records, in log order",
        [*_RUN, _AFTER, _UNTIL, _query("limit", "How many at most; 5,000 at most.", _COUNT)],
        _object(
            records=_list(_ref("Record")),
            position=_POSITION | {"description": "The next page begins behind it."},
            more={"type": "boolean"},
        ),
    ),
    "/api/record": _get(
        "Read one record whole",
        [
            _query("view", "Its view: kind and keys, a line each.", required=True),
            _query("id", "Its id.", required=True),
            _query("position", "Its position.", _POSITION, required=True),
        ],
        _ref("Record"),
    ),
    "/api/events": _get(
        "Follow a run: server-sent events with what there is, `live`, then with what comes",
        [
            *_RUN,
            _AFTER,
            {
                "name": "Last-Event-ID",
                "in": "header",
                "description": "The last `id:` that arrived; nothing behind it is left out. Some "
                "records may come again: drop those whose id you have.",
                "schema": _POSITION,
            },
        ],
        _TEXT | {"description": "Each message is a list of records, as in /api/records."},
        "text/event-stream",
    ),
    "/api/waiting": _get(
        "List what waits for a person, oldest first",
        [
            _query("session", "Only what goes with this session."),
            _query("after", "The id of an item: the page begins behind it."),
            _query("limit", "How many at most; 100 by default.", _COUNT),
        ],
        _object(waiting=_list(_ref("Waiting"))),
    ),
    "/api/queues": _get(
        "List queues, workers, schedules, and the last runs that failed",
        [],
        _object(
            queues=_list(_ref("Queue")),
            workers=_list(_ref("Worker")),
            schedules=_list(_ref("Schedule")),
            failed=_list(_ref("FailedRun")),
        ),
    ),
    "/api/artifact": _get(
        "Read the bytes of an artifact",
        [
            _query("id", "Its id.", required=True),
            _query("session", "Only if it is this session's."),
        ],
        {"type": "string", "format": "binary"},
        "application/octet-stream",
    ),
    "/api/share": _get(
        "Save a run, or a part of it, as one HTML file",
        [*_RUN, _AFTER, _UNTIL],
        _TEXT,
        "text/html",
    ),
    "/api/answer": _post(
        "Answer what waits; exactly one caller decides",
        _object(
            id=_TEXT | {"description": "Of an item of /api/waiting."},
            answer={"description": "true or false of a patch or a task; of a question anything."},
            session=_TEXT | {"description": "Whose audit trail says who answered."},
        ),
        ["id", "answer"],
        _object(id=_TEXT, decision=_TEXT, state={"description": "The state of a pause."}),
    ),
    "/api/steer": _post(
        "Steer a task",
        _object(
            session_id=_TEXT,
            task_id=_TEXT,
            event_type={"enum": [str(each) for each in SteeringEventType]},
            payload=_object("As docs/guides/sessions.md says for each type. `by` is who asked."),
            trace_id=_TEXT,
        ),
        ["session_id", "task_id", "event_type"],
        _object(event_id=_TEXT, took_effect={"type": "boolean"}),
    ),
    "/api/fork": _post(
        "Begin a session that goes on from a moment of another",
        _object(
            session_id=_TEXT,
            at=_TEXT | {"description": "A position, a time, or an event's id. Left out: now."},
            to=_TEXT | {"description": "The new session's id. Left out: one is made."},
        ),
        ["session_id"],
        _object(session_id=_TEXT),
    ),
    "/api/feedback": _post(
        "Say what you think of a trace",
        _object(trace_id=_TEXT, score=_NUMBER, comment=_TEXT),
        ["trace_id"],
        _object(saved={"type": "boolean"}),
    ),
    "/api/queue": _post(
        "Start a run, pause a queue or let it go on, send a failed run again, or end a schedule",
        _object(
            doing={"enum": list(DOING)},
            name=_TEXT | {"description": "The function, queue, run or schedule."},
            session_id=_TEXT | {"description": "Of the run. Left out: the session of its id."},
            id=_TEXT | {"description": "Of the run that starts. Left out: a new one."},
            arguments={"type": "object", "description": "Of the function, by name."},
        ),
        ["doing", "name"],
        _object(done={"type": "boolean"}, session_id=_TEXT, id=_TEXT),
    ),
}

DOCUMENT: Final[Json] = {
    "openapi": "3.1.0",
    "info": {
        "title": "foldlog",
        "version": foldlog.__version__,
        "description": "Agents' runs as their records in log order. A browser signs in with "
        "/?token=... once; a program sends Authorization: Bearer with the token.",
    },
    "security": [{"token": []}],
    "paths": _PATHS,
    "components": {
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        "schemas": _SCHEMAS,
        "responses": {
            "Error": {
                "description": "It was refused. `type` is the error's name in Python.",
                "content": {
                    "application/json": {
                        "schema": _object(error=_object(type=_TEXT, message=_TEXT))
                    }
                },
            }
        },
    },
}

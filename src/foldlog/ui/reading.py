"""What `/api/` answers to a GET: sessions, records, what waits, artifacts."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import PurePath
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

import foldlog
from foldlog import words
from foldlog.bounds import Refused
from foldlog.jsonable import jsonable
from foldlog.models import Waiting
from foldlog.opening import Store
from foldlog.position import LogPosition, Reach
from foldlog.runs.queues import described
from foldlog.store.core import core_of
from foldlog.ui import asked, share
from foldlog.ui.catalogue import Catalogue
from foldlog.ui.following import Hub
from foldlog.ui.openapi import DOCUMENT
from foldlog.ui.plain import Plain, encode, record_of
from foldlog.ui.run import PAGE, read_page
from foldlog.ui.safety import Access
from foldlog.ui.streaming import Events, events_of

_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})
"""What is shown as it is. Everything else, SVG included, is a download or text."""

_FAILED: Final = 100
"""Failed runs that are listed; how many there are, each queue says."""


class Reading:
    """Handlers that change nothing."""

    def __init__(self, store: Store, access: Access) -> None:
        self._store = store
        self._access = access
        self._catalogue = Catalogue(store)
        self._hub = Hub(store)

    async def about(self, request: Request) -> Response:
        """Who asks, what may be done, and what a write carries."""
        health = await self._store.health()
        return answer(
            {
                "version": foldlog.__version__,
                "namespace": health.namespace,
                "user": request.scope["foldlog.user"],
                "read_only": self._access.read_only,
                "csrf": self._access.csrf,
                "position": str(await self._store.position()),
            }
        )

    async def sessions(self, request: Request) -> Response:
        """A page of sessions, the latest activity first."""
        page = await self._catalogue.page(
            text=asked.text(request, "text", ""),
            status=asked.text(request, "status", ""),
            offset=asked.number(request, "offset", 0, 10**9),
            limit=asked.number(request, "limit", 50, 500),
        )
        return answer(page)

    async def session(self, request: Request) -> Response:
        """One session: its summary, its origin, and its forks."""
        return answer(await self._catalogue.about(asked.text(request, "session")))

    async def records(self, request: Request) -> Response:
        """A page of a run's records in log order."""
        views = await asked.run(request).views(self._store)
        page = await read_page(
            self._store,
            views,
            asked.position(request, "after"),
            until=asked.position(request, "until"),
            limit=asked.number(request, "limit", PAGE, PAGE) or 1,
        )
        return answer({"records": page.records, "position": str(page.position), "more": page.more})

    async def record(self, request: Request) -> Response:
        """One record, whole: by its view and id."""
        name, *keys = asked.text(request, "view").split("\n")
        found = core_of(self._store).kinds.get(name)
        if found is None or len(found.keys) != len(keys):
            raise Refused(404, "there is no such view")
        key, after = found(*keys), asked.position(request, "position")
        if after is None:
            raise Refused(400, "the parameter position is missing")
        # The record stands at the position: it is the first that is not behind it.
        items = await self._store.items(key, after=before(after), limit=1)
        if [each.id for each in items] != [asked.text(request, "id")]:
            raise Refused(404, "there is no such record")
        return answer(record_of(key, items[0], None))

    async def events(self, request: Request) -> Response:
        """The records of a run as server-sent events, without end."""
        resume = request.headers.get("last-event-id")
        after = asked.position(request, "after")
        if resume:
            after = LogPosition.parse(resume)
        return Events(partial(events_of, self._store, self._hub, asked.run(request), after))

    async def waiting(self, request: Request) -> Response:
        """A page of what waits for a person, oldest first."""
        items = await self._store.waiting(
            session_id=request.query_params.get("session") or None,
            after=request.query_params.get("after") or None,
            limit=asked.number(request, "limit", 100, 500),
        )
        return answer({"waiting": [_waiting(each) for each in items]})

    async def queues(self, request: Request) -> Response:
        """Queues, workers, schedules, and the last runs that failed."""
        return answer(jsonable(await described(self._store.queues, failed=_FAILED)))

    async def artifact(self, request: Request) -> Response:
        """The bytes of an artifact: pictures as they are, everything else as a download."""
        id, session = asked.text(request, "id"), request.query_params.get("session")
        artifacts = self._store.artifact_store
        ref = await artifacts.get_ref(id)
        if session:
            data = await artifacts.get_with_session_check(id, session)
        else:
            data = await artifacts.get(id)
        if data is None:
            raise Refused(404, "there is no such artifact, or it has expired")
        mime = (ref.mime_type if ref else None) or ""
        name = PurePath((ref.filename if ref else None) or "artifact").name
        shown = mime in _IMAGES
        quoted = json.dumps(name.encode("ascii", "replace").decode())
        return Response(
            data,
            media_type=mime if shown else "application/octet-stream",
            headers={
                "content-disposition": f"{'inline' if shown else 'attachment'}; filename={quoted}",
                "content-security-policy": "sandbox; default-src 'none'",
            },
        )

    async def share(self, request: Request) -> Response:
        """A run, or a part of it, as one HTML file."""
        run = asked.run(request)
        shared = await share.Share.of(
            self._store, run, asked.position(request, "after"), asked.position(request, "until")
        )
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", run.id)[:80]
        return StreamingResponse(
            shared.parts(),
            media_type="text/html; charset=utf-8",
            headers={
                "content-length": str(shared.size),
                "content-disposition": f'attachment; filename="{name}.html"',
                "content-security-policy": "sandbox; default-src 'none'",
            },
        )

    async def openapi(self, request: Request) -> Response:
        """The description of this API."""
        return answer(DOCUMENT)


def before(position: LogPosition) -> LogPosition:
    """A position right before the last record of another one."""

    def earlier(reach: Reach) -> Reach:
        if reach.index:
            return Reach(reach.seq, reach.index - 1)
        return Reach(max(reach.seq - 1, 0))

    return LogPosition(tuple(map(earlier, position.shards)))


def answer(value: object, status: int = 200) -> Response:
    """A JSON response."""
    return Response(encode(value), status_code=status, media_type="application/json")


def _waiting(item: Waiting) -> dict[str, Any]:
    plain = Plain()
    return {"line": words.question(item)} | {
        name: plain.value(getattr(item, name))
        for name in (
            *("id", "kind", "asked", "session_id", "trace_id", "task_id", "state_id"),
            *("since", "until", "by"),
        )
    }

"""Sessions of the Claude Agent SDK: each transcript is a conversation of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from uuid import uuid4
from zlib import crc32

import msgspec
from claude_agent_sdk import SessionStore, __version__, fold_session_summary

from foldlog import kinds
from foldlog.envelope import Recorded
from foldlog.errors import InvalidId, PayloadError, shown
from foldlog.integrations.access import AnyStore, OnStore, access_to
from foldlog.integrations.objects import Unreadable, items_of, read_as
from foldlog.kind import Fold, Kind
from foldlog.opening import Store
from foldlog.subjects import checked_id
from foldlog_projections.messages import MAIN, Conversations, Message, MessagesRemoved

S = TypeVar("S", "_Last", "_Summary")

FORMAT: Final = "claude_agent"
"""What the messages of a session say of their shape: lines of Claude Code's transcripts."""

_SUB: Final = f"{MAIN}/"
"""What the conversations of subagents begin with; the SDK's subpath follows."""


class FoldlogSessionStore(OnStore, SessionStore):
    """Keeps the SDK's transcripts: `ClaudeAgentOptions(session_store=FoldlogSessionStore(store))`.

    Each session of a project is a session of the store, by the id that `session_of` gives it. Its
    main transcript is the conversation "main", those of subagents are `main/<subpath>`. Any number
    of processes may write to one. `FoldlogSessionStore(store.at(moment))` reads what there was.

    Methods run on asyncio, not on trio. Those that read raise LogUnavailable and LogCorrupt as
    `Store.view`, and see what any process has appended before the call.

    Args:
        store: from `foldlog.connect`, `foldlog.memory_store` or `foldlog.blocking.connect`. It
            stays open when this object goes.
    """

    def __init__(self, store: AnyStore) -> None:
        self._do = access_to(store).acall

    async def append(self, key: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> None:
        """Add entries to a transcript, in order: one append, all of them or none.

        A repeat of an entry with a `uuid` has no effect; one without is always added.

        Raises:
            InvalidId: a part of the key or a `uuid` is empty, or no string.
            PayloadError: the key or an entry is no mapping, or holds what cannot be stored.
            RedactionFailed: `redact=` failed. Nothing was added.
            IdTaken: the transcript has another entry of that `uuid`.
            AppendFailed, LogUnavailable: nothing was added.
            AppendUnknown: they may have been added; appending again is safe, but for entries
                without a `uuid`.
        """
        session_id, conversation = session_of(key), _conversation_of(key)
        if messages := _messages(entries):
            await self._do(
                lambda store: store.append_messages(session_id, messages, conversation=conversation)
            )

    async def load(self, key: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """Return all entries of a transcript, in order; None if there are none."""
        session_id, conversation = session_of(key), _conversation_of(key)
        messages = await self._do(
            lambda store: store.list_messages(
                session_id, conversation=conversation, consistency="strong"
            )
        )
        # Of other bodies `redact=` has left nothing.
        return [each.body for each in messages if isinstance(each.body, dict)] or None

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """Return the ids of a project's sessions, each with its `mtime`.

        That is the log's time of the last append to any of its transcripts, in Unix milliseconds.
        The cost grows with the number of sessions in the store, not with their length.
        """
        return [
            {"session_id": name, "mtime": _milliseconds(last.recorded_at)}
            for name, last in await self._of_project(project_key, _LAST)
            if last.format == FORMAT
        ]

    async def list_session_summaries(self, project_key: str) -> list[dict[str, Any]]:
        """Return what the SDK makes of a project's main transcripts, up to date, with `mtime`.

        A process folds a transcript when it first lists it, and then what is added. The cost grows
        with the number of sessions in the store.
        """
        return [
            {"session_id": name, "mtime": _milliseconds(found.recorded_at), "data": found.data}
            for name, found in await self._of_project(project_key, _SUMMARY)
            if found.data is not None
        ]

    async def delete(self, key: Mapping[str, Any]) -> None:
        """Delete a session with the transcripts of its subagents; with a subpath, that one alone.

        The server frees the bytes of a session when it next rewrites the files that they are in.
        Those of a single subagent's transcript stay in the log, out of all reads of the present,
        and its entries have no effect when they are appended again. After
        `store.erase_session(session_of(key))` no file holds any of it.

        Raises:
            SessionHasForks: forks of the session share it. Nothing was deleted.
            AppendFailed, LogUnavailable, AppendUnknown: deleting again is safe.
        """
        session_id, conversation = session_of(key), _conversation_of(key)

        async def remove(store: Store) -> None:
            if conversation == MAIN:
                await store.erase(kinds.messages(session_id), overwrite=False)
            else:
                await store.delete_messages(session_id, conversation=conversation)

        await self._do(remove)

    async def list_subkeys(self, key: Mapping[str, Any]) -> list[str]:
        """Return the subpaths of a session that have entries, in the order in which they began."""
        view = kinds.messages(session_of(key))
        names = await self._do(
            lambda store: store.view(view, Conversations.names, consistency="strong")
        )
        return [each.removeprefix(_SUB) for each in names if each.startswith(_SUB)]

    async def _of_project(self, project_key: str, kind: Kind[S | None]) -> list[tuple[str, S]]:
        """A view of each session of a project, by the SDK's ids: the latest appended to first.

        The SDK sorts by whole milliseconds, and leaves those of one as they come.
        """
        checked_id(project_key, "project_key")

        async def read(store: Store) -> list[tuple[str, S]]:
            ids = [key.keys[0].rpartition("/") for key in await store.keys(kinds.messages)]
            names = [name for project, _, name in ids if project == project_key]
            views = [kind(f"{project_key}/{name}") for name in names]
            found: list[S | None] = await store.views(views, consistency="strong")
            listed = [(name, each) for name, each in zip(names, found, strict=True) if each]
            return sorted(listed, key=lambda each: each[1].recorded_at, reverse=True)

        return await self._do(read)


def session_of(key: Mapping[str, Any]) -> str:
    """Return the id of the store's session that has a session of the SDK: `<project>/<id>`.

    For `store.watch(foldlog.kinds.messages(session_of(key)))`, `store.erase_session` and the like.

    Args:
        key: a SessionKey of the SDK, with or without a subpath.

    Raises:
        InvalidId: a part of it is empty or no string, or the session's id has a slash.
        PayloadError: it is no mapping.
    """
    if not isinstance(key, Mapping):
        raise PayloadError("key", f"{shown(key)} is no SessionKey")
    project = checked_id(key.get("project_key", ""), "project_key")
    name = checked_id(key.get("session_id", ""), "session_id")
    if "/" in name:
        raise InvalidId("session_id", name, "it has a slash")
    return f"{project}/{name}"


def _conversation_of(key: Mapping[str, Any]) -> str:
    subpath = key.get("subpath")
    return MAIN if subpath is None else f"{_SUB}{checked_id(subpath, 'subpath')}"


def _messages(entries: Sequence[Any]) -> list[Message]:
    messages = []
    for n, entry in enumerate(items_of(entries, Mapping, "entries", "entry")):
        uuid, said = entry.get("uuid"), entry.get("message")
        role = said.get("role") if isinstance(said, Mapping) else None
        id = str(uuid4()) if uuid is None else checked_id(uuid, f"entries[{n}].uuid")
        messages.append(Message(id, FORMAT, entry, role if isinstance(role, str) else None))
    return messages


def _milliseconds(recorded_at: float) -> int:
    return int(recorded_at * 1000)


# --- what a list shows of a session ----------------------------------------------------------


class _Last(NamedTuple):
    """The last record of a session."""

    format: str
    recorded_at: float


class _Summary(msgspec.Struct):
    """What the SDK makes of a main transcript; None before it begins."""

    data: dict[str, Any] | None
    recorded_at: float


def _take_last(_: _Last | None, record: Message | MessagesRemoved, envelope: Recorded) -> _Last:
    return _Last(getattr(record, "format", FORMAT), envelope.recorded_at)


def _fold(known: Any, entry: Any) -> Any:
    return fold_session_summary(known, {"session_id": ""}, [entry])["data"]


def _summarise(
    before: _Summary | None, record: Message | MessagesRemoved, envelope: Recorded
) -> _Summary:
    data = None if before is None else before.data
    if (
        isinstance(record, Message)
        and (record.format, record.conversation) == (FORMAT, MAIN)
        and isinstance(record.body, dict)
    ):
        known = None if data is None else {"session_id": "", "mtime": 0, "data": data}
        with suppress(Unreadable):  # of its body `redact=` has left no entry
            data = read_as(partial(_fold, known), record.body, "an entry")
    return _Summary(data, envelope.recorded_at)


_LAST: Final[Kind[_Last | None]] = Kind(
    "claude_last",
    of=kinds.messages,
    fold=Fold(lambda: None, _take_last, latest_only=True),
)
_SUMMARY: Final[Kind[_Summary | None]] = Kind(
    "claude_summary",
    of=kinds.messages,
    fold=Fold(lambda: None, _summarise, state=_Summary | None),
    version=crc32(__version__.encode()) or 1,  # the SDK may come to fold otherwise
)

"""Threads on a store: checkpoints as records, and records as checkpoints.

All of it runs on the store's event loop. What is read comes from the view in memory; what is saved
is one append; then the fold says whether it had an effect.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, NamedTuple

from foldlog.batches import side_by_side
from foldlog.errors import PayloadError
from foldlog.integrations.langgraph.fencing import CheckpointGone, check_free, refusal, token_of
from foldlog.integrations.langgraph.forms import Forms, Place
from foldlog.integrations.langgraph.interrupts import (
    Asking,
    Change,
    asking,
    asking_at,
    change_by,
)
from foldlog.kind import Key
from foldlog.opening import Store
from foldlog.store.core import core_of
from foldlog.store.forks import When
from foldlog_projections.langgraph import checkpoints
from foldlog_projections.langgraph.bodies import Body, Since
from foldlog_projections.langgraph.checkpointrecords import (
    PUT,
    WRITTEN,
    Copied,
    Part,
    Pruned,
    Put,
    Removed,
    Value,
    Write,
    Written,
)
from foldlog_projections.langgraph.namespaces import Checkpoint, Pending, Row, changes, value_of
from foldlog_projections.langgraph.thread import Thread

_ALL: Final = 2**31

_PART_BYTES: Final = 512 * 1024
"""How much of a copy is appended at a time."""

_COUNTERS: Final = "counters_since_delta_snapshot"
"""Names, in a checkpoint's metadata, the channels that older checkpoints are needed for."""

_STRUCTURED: Final = ("id", "channel_values", "channel_versions", "versions_seen")


class _Before(NamedTuple):
    """What a thread holds of what a new checkpoint goes on from."""

    parent: Checkpoint | None
    bodies: dict[str, tuple[Since, Body]]
    token: str
    asking: list[Asking]


class Threads:
    """The threads of a store, with a serialiser. `forms` is what values become."""

    def __init__(self, store: Store, forms: Forms) -> None:
        self._store = store
        self._forms = forms

    # --- reading --------------------------------------------------------------------------------

    async def get(self, place: Place) -> Row | None:
        """The checkpoint at a place; None if there is none."""

        def find(thread: Thread) -> Row | None:
            found = thread.checkpoint(place.ns, place.id or None)
            return None if found is None else thread.row(place.ns, found)

        return await self._store.view(_key(place.thread), find)

    async def rows(
        self,
        config: Mapping[str, Any] | None,
        filter: Mapping[str, Any] | None,
        before: Mapping[str, Any] | None,
        limit: int | None,
    ) -> list[tuple[str, Row]]:
        """The checkpoints that match, newest first, each with its thread."""
        named = (config or {}).get("configurable", {})
        ns, id = named.get("checkpoint_ns"), named.get("checkpoint_id")
        end = (before or {}).get("configurable", {}).get("checkpoint_id")

        def take(thread: Thread) -> list[Row]:
            found: list[Row] = []
            for name, each in thread.newest_first(ns, end):
                if limit is not None and len(found) >= limit:
                    break
                if id and each.id != id:
                    continue
                if filter and not self._matches(each, filter):
                    continue
                found.append(thread.row(name, each))
            return found

        if "thread_id" in named:
            thread_id = str(named["thread_id"])
            return [(thread_id, row) for row in await self._store.view(_key(thread_id), take)]
        rows: list[tuple[str, Row]] = []
        keys = await self._store.keys(checkpoints.kind)
        taken = await side_by_side(keys, lambda key: self._store.view(key, take))
        for key, found in zip(keys, taken, strict=True):
            rows += [(key.keys[0], row) for row in found]
        rows.sort(key=lambda each: each[1].checkpoint.id, reverse=True)
        return rows[:limit]

    async def history(self, place: Place, channels: Sequence[str]) -> dict[str, dict[str, Any]]:
        """What each channel's value was made of: the writes since a value was stored, and it."""

        def walk(thread: Thread) -> dict[str, tuple[list[Pending], Body | None]]:
            writes: dict[str, list[Pending]] = {channel: [] for channel in channels}
            seeds: dict[str, Body] = {}
            space = thread.namespaces.get(place.ns)
            at = thread.checkpoint(place.ns, place.id or None)
            while space is not None and at is not None and len(seeds) < len(writes):
                at = space.checkpoints.get(at.parent) if at.parent is not None else None
                if at is None:
                    break
                for each in reversed(space.written(at.id)):
                    if each.write.channel in writes and each.write.channel not in seeds:
                        writes[each.write.channel].append(each)
                found = space.values(at)
                for channel in channels:
                    if channel in found:
                        seeds.setdefault(channel, found[channel])
            return {c: (writes[c][::-1], seeds.get(c)) for c in channels}

        found = await self._store.view(_key(place.thread), walk)
        result: dict[str, dict[str, Any]] = {}
        for channel, (writes, seed) in found.items():
            result[channel] = {"writes": [self._forms.write(each) for each in writes]}
            if seed is not None:
                result[channel]["seed"] = self._forms.value(seed)
        return result

    async def watch(self, thread_id: str, ns: str | None, after: str | None) -> AsyncGenerator[Any]:
        """Yield the checkpoints of a thread in the order in which they were saved, without end."""
        is_waiting = after is not None
        async with aclosing(self._store.watch(_key(thread_id))) as items:
            async for item in items:
                for place in _saved(thread_id, item.record):
                    if ns is not None and place.ns != ns:
                        continue
                    if is_waiting:
                        is_waiting = place.id != after
                        continue
                    found = await self.get(place)
                    if found is not None:
                        yield found

    async def moment(self, thread_id: str, at: When | None) -> When | None:
        """When the checkpoint of the id `at` was saved; `at`, if the thread has none of that id."""
        items = await self._store.items(_key(thread_id), limit=_ALL) if isinstance(at, str) else ()
        saved = (
            each.position
            for each in items
            if any(place.id == at for place in _saved(thread_id, each.record))
        )
        return next(saved, at)

    # --- saving ---------------------------------------------------------------------------------

    async def put(
        self,
        after: Place,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
    ) -> Place:
        """Append the checkpoint that follows one, or is the first; return its place.

        Raises:
            CheckpointGone, ThreadHeld: it has no effect.
            PayloadError, RedactionFailed: it cannot be held. Errors as `Store.append`.
        """
        thread_id, ns, parent_id = after
        place = Place(thread_id, ns, checkpoint["id"])
        given = checkpoint["channel_values"]
        new = {channel: given[channel] for channel in new_versions if channel in given}
        values, about = self._redacted("put", PUT, place, new, metadata)
        under = (about.get("parents") or {}).get("") if ns else None
        before = await self._before(place, parent_id, under, values)
        bodies = before.bodies
        put = Put(
            secrets.token_urlsafe(9),
            place.id or "",
            self._forms.typed({n: v for n, v in checkpoint.items() if n not in _STRUCTURED}),
            self._forms.typed(about),
            ns,
            parent_id or None,
            "" if before.parent is None else before.parent.id,
            under or "",
            values={
                channel: _value(self._forms.dumps(value), bodies.get(channel))
                for channel, value in values.items()
            },
            token=before.token,
            **changes(before.parent, checkpoint["channel_versions"], checkpoint["versions_seen"]),
        )
        await self._save(thread_id, put, Change(before.asking))
        return place

    async def put_writes(
        self,
        place: Place,
        writes: Sequence[tuple[int, str, Any]],
        task_id: str,
        task_path: str,
    ) -> None:
        """Append what a task wrote after a checkpoint: indexes, channels and values.

        Errors as `put`.
        """
        if core_of(self._store).redaction:
            # One by one: a task may write to a channel several times; the hook goes by its name.
            shown = [
                self._redacted("put_writes", WRITTEN, place, {channel: value}, {})[0][channel]
                for _, channel, value in writes
            ]
            writes = [(n, channel, new) for (n, channel, _), new in zip(writes, shown, strict=True)]

        def look(thread: Thread) -> tuple[str, list[Asking]]:
            _check_there(thread, place)
            asked = [] if place.ns else asking_at(thread, place.thread, place.id or "")
            return token_of(thread, place.thread), asked

        token, asked = await self._store.view(_key(place.thread), look)
        written = Written(
            secrets.token_urlsafe(9),
            place.id or "",
            task_id,
            tuple(
                Write(index, channel, *self._forms.dumps(value)) for index, channel, value in writes
            ),
            place.ns,
            task_path,
            token,
        )
        task = Asking(place.thread, written.id, task_id)
        change = Change() if place.ns else change_by(asked, task, written.writes)
        await self._save(place.thread, written, change)

    async def copy(self, source: str, target: str) -> None:
        """Append to a thread what another one holds, in parts, which show all at once.

        Errors as `put`.
        """

        def look(thread: Thread) -> tuple[dict[str, tuple[str, ...]], bytes]:
            spaces = thread.namespaces
            return {ns: tuple(each.ids) for ns, each in spaces.items()}, spaces.copied()

        def token(thread: Thread) -> str:
            check_free(thread, target, core_of(self._store).now())
            return token_of(thread, target)

        ids, data = await self._store.view(_key(source), look)
        if not ids:
            return
        copy, to = secrets.token_urlsafe(9), await self._store.view(_key(target), token)
        starts = range(0, len(data), _PART_BYTES)
        parts = [
            Part(f"{copy}/{start}", copy, data[start : start + _PART_BYTES]) for start in starts
        ]
        for part in parts[:-1]:
            await self._store.append(_key(target), part)
        await self._append(target, parts[-1], Copied(copy, copy, len(parts), ids, to))

    # --- removing -------------------------------------------------------------------------------

    async def delete(self, thread_id: str) -> None:
        """Delete a thread. Errors as `Store.delete`, and ThreadHeld."""

        asked: list[Asking] = []

        def check(thread: Thread) -> None:
            check_free(thread, thread_id, core_of(self._store).now())
            asked[:] = asking(thread, thread_id)

        await self._store.erase(_key(thread_id), overwrite=False, check=check)
        await Change(asked).save(self._store)

    async def delete_runs(self, run_ids: Iterable[str]) -> None:
        """Remove what certain runs have saved, in all threads. Errors as `put`."""
        wanted = {str(each) for each in run_ids}
        if not wanted:
            return

        def find(key: Key[Thread], thread: Thread) -> tuple[Removed, Change]:
            found = {
                ns: tuple(
                    each.id
                    for each in space.checkpoints.values()
                    if self._forms.untyped(each.metadata).get("run_id") in wanted
                )
                for ns, space in thread.namespaces.items()
            }
            ids = {ns: ids for ns, ids in found.items() if ids}
            over = asking(thread, key.keys[0], lambda latest: latest in ids.get("", ()))
            token = token_of(thread, key.keys[0])
            return Removed(secrets.token_urlsafe(9), ids, token), Change(over)

        async def remove(key: Key[Thread]) -> None:
            removed, change = await self._store.view(key, partial(find, key))
            if removed.ids:
                await self._save(key.keys[0], removed, change)

        await side_by_side(await self._store.keys(checkpoints.kind), remove)

    async def prune(self, thread_id: str) -> None:
        """Remove all but the latest checkpoint of each namespace, and what it needs.

        Errors as `Store.decide`, and ThreadHeld.
        """
        key = _key(thread_id)
        pruned = secrets.token_urlsafe(9)

        def decide(thread: Thread) -> list[Any]:
            kept = {
                ns: self._needed(thread, ns) for ns, space in thread.namespaces.items() if space.ids
            }
            if all(len(ids) == len(thread.namespaces[ns].ids) for ns, ids in kept.items()):
                return []
            return [Pruned(pruned, kept, token_of(thread, thread_id))]

        await self._store.decide(key, decide)
        await self._check(thread_id, pruned)

    # --- private --------------------------------------------------------------------------------

    async def _before(
        self, place: Place, parent_id: str | None, under: str | None, values: Iterable[str]
    ) -> _Before:
        def look(thread: Thread) -> _Before:
            _check_there(thread, place._replace(id=parent_id))
            _check_there(thread, Place(place.thread, "", under))
            parent = thread.checkpoint(place.ns, parent_id) if parent_id else None
            bodies: dict[str, tuple[Since, Body]] = {}
            if parent is not None:
                held = thread.values(place.ns, parent)
                bodies = {c: (parent.versions[c], held[c]) for c in values if c in held}
            asked = [] if place.ns else asking(thread, place.thread)
            return _Before(parent, bodies, token_of(thread, place.thread), asked)

        return await self._store.view(_key(place.thread), look)

    async def _save(self, thread_id: str, record: Any, change: Change) -> None:
        """Append a record, together with what it changes of the list of what waits."""
        if not change:
            await self._append(thread_id, record)
            return

        def once(thread: Thread) -> list[Any]:
            check_free(thread, thread_id, core_of(self._store).now())
            return [record]

        async def save() -> None:
            await self._store.decide(_key(thread_id), once, copy=False)
            await change.save(self._store)

        await self._store.transact(save)
        await self._check(thread_id, record.key)

    async def _append(self, thread_id: str, *records: Any) -> None:
        await self._store.append(_key(thread_id), *records)
        await self._check(thread_id, *(each.key for each in records))

    async def _check(self, thread_id: str, *keys: str) -> None:
        def look(thread: Thread) -> Exception | None:
            errors = (refusal(thread, thread_id, key) for key in keys if thread.refused)
            return next(filter(None, errors), None)

        error = await self._store.view(_key(thread_id), look)
        if error is not None:
            raise error

    def _redacted(
        self,
        method: str,
        type: str,
        place: Place,
        values: Mapping[str, Any],
        metadata: Mapping[str, Any],
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        if not core_of(self._store).redaction:
            return values, metadata
        about = {"session_id": place.thread, "ns": place.ns, "id": place.id}
        shown = {"values": values, "metadata": metadata}
        if type == WRITTEN:
            del shown["metadata"]
        found = core_of(self._store).redaction.alike(f"FoldlogSaver.{method}", type, about, shown)
        if found["values"].keys() != values.keys():
            raise PayloadError("values", "redact= may change a channel's value, not the channels")
        return found["values"], found.get("metadata", metadata)

    def _needed(self, thread: Thread, ns: str) -> tuple[str, ...]:
        """The latest checkpoint, and those before it that hold pieces of its values."""
        space = thread.namespaces[ns]
        latest = at = space.checkpoints[space.ids[-1]]
        kept = [latest.id]
        missing = (
            set(self._forms.untyped(latest.metadata).get(_COUNTERS) or ()) - space.values(at).keys()
        )
        while missing and at.parent in space.checkpoints:
            at = space.checkpoints[at.parent]
            kept.append(at.id)
            missing -= space.values(at).keys()
        return tuple(reversed(kept))

    def _matches(self, checkpoint: Checkpoint, filter: Mapping[str, Any]) -> bool:
        metadata = self._forms.untyped(checkpoint.metadata)
        return all(metadata.get(name) == value for name, value in filter.items())


def _key(thread_id: str) -> Key[Thread]:
    return checkpoints.kind(thread_id)


def _saved(thread_id: str, record: Any) -> list[Place]:
    """The checkpoints that a record has a thread hold."""
    if isinstance(record, Put):
        return [Place(thread_id, record.ns, record.id)]
    if isinstance(record, Copied):
        return [Place(thread_id, ns, id) for ns, ids in record.ids.items() for id in ids]
    return []


def _check_there(thread: Thread, place: Place) -> None:
    """Raise CheckpointGone before anything is appended, where that is known."""
    if thread.is_gone(place.ns, place.id):
        raise CheckpointGone(place.thread, place.id)


def _value(typed: tuple[str, bytes], base: tuple[Since, Body] | None) -> Value:
    since, body = (None, None) if base is None else base
    return value_of(Body.of(*typed), body, since)

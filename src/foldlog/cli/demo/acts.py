"""What the demo does, act by act. Each returns what it has proved."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sized
from typing import Any, Final, cast

from foldlog.cli.demo.ledger import Ledger
from foldlog.cli.demo.observer import Observer, id_of
from foldlog.cli.demo.proof import Proof, fingerprint, timed
from foldlog.cli.demo.transcript import Transcript
from foldlog.errors import AppendUnknown, LogUnavailable
from foldlog.importer import ImportReport, import_conversations
from foldlog.opening import Store
from foldlog.store import RebuildProgress

CONCURRENCY: Final = 2
"""Conversations under way at a time: few, so that some are done when others are interrupted."""

_ATTEMPTS: Final = 5
_ALL: Final = 2**31 - 1


@timed
async def import_file(
    store: Ledger | Store,
    transcript: Transcript,
    prefix: str,
    interruption: asyncio.Task[Any] | None = None,
) -> Proof:
    """Import the file. A save that an interruption cost ends a run, and the next run completes it.

    What comes after the interruption is waited for first.
    """
    for runs in itertools.count(1):
        try:
            report = await _import(store, transcript, prefix)
            break
        except (AppendUnknown, LogUnavailable):
            if interruption is None or runs == _ATTEMPTS:
                raise
            await asyncio.wait([interruption])
    saves = sum(report.appended.values()) + sum(report.present.values())
    return Proof(
        name="imported",
        claim="Conversations went in",
        passed=report.conversations == len(transcript.conversations),
        figure=f"{report.conversations:,} conversations, {report.messages:,} messages",
        facts={
            "file": transcript.path,
            "conversations": report.conversations,
            "messages": report.messages,
            "saves": saves,
            "runs": runs,
            "broken": report.broken,
        },
    )


@timed
async def watched(observer: Observer, transcript: Transcript) -> Proof:
    """That each update and steering event arrived at the live watcher, once."""
    plans = transcript.watched
    ids = [id_of(e) for p in plans for e in p.objects["updates"] + p.objects["steering"]]
    await observer.wait_for(set(ids))
    sessions = len(transcript.watched)
    return Proof(
        name="watched",
        claim="A live watcher saw it all, once",
        passed=sorted(observer.seen) == sorted(ids),
        figure=f"{len(observer.seen):,} of {len(ids):,} updates and steering events",
        facts={"sessions": sessions, "expected": len(ids), "received": len(observer.seen)},
    )


@timed
async def identical(store: Store, transcript: Transcript) -> Proof:
    """That the sessions hold what the file holds: every message, in order, equal, once."""
    log = await _messages(store, transcript)
    messages, ours, theirs = transcript.messages, fingerprint(log), transcript.fingerprint
    return Proof(
        name="identical",
        claim="The log holds what the file holds",
        passed=ours == theirs and len(log) == len(messages),
        figure=f"{len(log):,} messages, sha256 {ours[:6]} and {theirs[:6]}",
        facts={
            "messages_in_file": len(messages),
            "messages_in_log": len(log),
            "sha256_of_file": theirs,
            "sha256_of_log": ours,
        },
    )


@timed
async def imported_again(store: Store, transcript: Transcript, prefix: str) -> Proof:
    """That nothing is there twice, and a second import finds nothing to do."""
    held = sum(await asyncio.gather(*(_held(store, p.trace_id) for p in transcript.plans)))
    report = await _import(store, transcript, prefix)
    added, wanted = sum(report.appended.values()), sum(report.present.values())
    return Proof(
        name="imported_again",
        claim="Nothing was doubled",
        passed=added == 0 and held == wanted,
        figure=f"{held:,} records, {wanted:,} wanted; added again: {added:,}",
        facts={"records": held, "expected": wanted, "appended_again": added},
    )


@timed
async def resumed(one: Store, other: Store, token: str) -> Proof:
    """That of two who resume a pause at once, on two connections, one gets it."""
    state = {"waiting_for": "approval", "step": 7}
    await one.save_planner_state(token, state)
    answers = await asyncio.gather(one.load_planner_state(token), other.load_planner_state(token))
    winners = [answer for answer in answers if answer is not None]
    return Proof(
        name="resumed",
        claim="A pause is resumed by one caller",
        passed=winners == [state],
        figure=f"{len(answers)} asked at once, {len(winners)} got it",
        facts={"callers": len(answers), "winners": len(winners)},
    )


@timed
async def rebuilt(
    store: Store, transcript: Transcript, on_progress: Callable[[RebuildProgress], None]
) -> Proof:
    """That the views, folded again from the log's first record, are what was served."""
    report = await store.rebuild(on_progress=on_progress)
    again = fingerprint(await _messages(store, transcript))
    same = again == transcript.fingerprint
    return Proof(
        name="rebuilt",
        claim="The views come from the log alone",
        passed=not report.differing and same,
        figure=f"{report.views:,} views, {report.envelopes:,} envelopes, "
        f"{len(report.differing):,} differ",
        facts={
            "views": report.views,
            "envelopes": report.envelopes,
            "differing": report.differing,
            "sha256_afterwards": again,
        },
    )


async def _import(store: Ledger | Store, transcript: Transcript, prefix: str) -> ImportReport:
    return await import_conversations(
        cast(Store, store), [transcript.path], prefix=prefix, concurrency=CONCURRENCY
    )


async def _messages(store: Store, transcript: Transcript) -> list[dict[str, object]]:
    histories = await asyncio.gather(
        *(store.list_messages(p.trace_id, consistency="strong") for p in transcript.plans)
    )
    return [dict(message.body) for history in histories for message in history]


async def _held(store: Store, session: str) -> int:
    """How many records a conversation has, from all processes."""
    lists: tuple[Sized, ...] = await asyncio.gather(
        store.list_messages(session, consistency="strong"),
        store.list_steering(session, limit=_ALL, consistency="strong"),
        store.list_updates(session, limit=_ALL, consistency="strong"),
        store.list_tasks(session, consistency="strong"),
        store.list_traces(session, _ALL, consistency="strong"),
    )
    return sum(map(len, lists))

"""Steps that were recorded before there were runs, taken over by a run that nobody has opened."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from foldlog.envelope import Draft
from foldlog.kind import Key
from foldlog.models import TaskStatus
from foldlog.runs.questions import waits_as
from foldlog.runs.steps import LARGE_RESULT
from foldlog.runs.tenure import Turn, decide_on_run, new_task
from foldlog.sessions import lifecycle
from foldlog.store.core import core_of
from foldlog.store.payloads import encode
from foldlog.store.store import BaseStore
from foldlog.store.waiting import began
from foldlog_projections.runs import runs
from foldlog_projections.runs.runs import (
    Asked,
    Done,
    Failed,
    Retracted,
    Started,
    State,
    Step,
    Unrecorded,
)


async def adopt(store: BaseStore, session_id: str, name: str, steps: Mapping[str, Step]) -> None:
    """Have a run begin with steps that were done elsewhere, in order; its task is PENDING.

    A run that was ever opened, or that has steps, is left as it is. The steps of the mapping have
    their results with them; a large one becomes the run's own. Errors as `Store.decide`.
    """
    key: Key[State] = runs.kind(session_id, name)
    large: dict[str, bytes] = {}
    drafts: list[Draft] = []
    for each in steps.values():
        step = each
        if len(step.result) > LARGE_RESULT:
            blob = await store.blobs.put(key, step.result)
            large[blob] = step.result
            step = replace(step, result=b"\xc0", blob=blob)
        drafts += [encode(runs.kind, record, ts=step.ts) for record in _records(step)]

    def take(turn: Turn) -> bool | None:
        if turn.run:
            return False
        turn.records.extend(drafts)
        task = new_task(session_id, name, TaskStatus.PENDING)
        lifecycle.spawn(turn.made, task, "job", None, lambda record: record)
        for step in steps.values():
            if step.phase == "asked":
                turn.made.waiting.append(began(waits_as(session_id, name, step), session_id))
        return None

    await decide_on_run(core_of(store), session_id, name, take)
    for blob, data in large.items():
        await store.blobs.keep(key, blob, data)


def _records(step: Step) -> list[msgspec.Struct]:
    """What makes a step of a new run."""
    name, seconds = step.step, step.seconds
    if step.phase == "asked":
        return [Asked(name, msgspec.Raw(step.question), step.ts)]
    found: list[msgspec.Struct] = [Started(name, step.kind, digest=runs.UNKNOWN)]
    match step.phase:
        case "done":
            result = msgspec.Raw(step.result)
            found.append(Done(name, seconds, result, step.type, step.blob))
        case "failed":
            found.append(Failed(name, seconds, step.error, step.message))
        case "unrecorded":
            found.append(Unrecorded(name, seconds, step.error))
        case "retracted":
            found.append(Retracted(name))
        case _:
            pass  # it began, and nothing is known of its end
    return found

"""What waits for a person at a run: a question, or a step that may have happened or not."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import msgspec

from foldlog import codec
from foldlog.errors import AlreadyAnswered, NotWaiting, PayloadError, WaitingExpired
from foldlog.models import Answered, TaskStatus, Waiting, WaitingKind
from foldlog.runs.results import PLAIN_DATA, StepRedaction
from foldlog.runs.tenure import Turn, decide_on_run
from foldlog.sessions import lifecycle
from foldlog.store.core import Core, core_of
from foldlog.store.store import BaseStore
from foldlog.store.waiting import Ref, Settled, ended, text_in
from foldlog.values import as_plain
from foldlog_projections.runs import runs
from foldlog_projections.runs.runs import Done, Retracted, State, Step

_PHASES = {"asked": WaitingKind.QUESTION, "doubted": WaitingKind.STEP}
"""How a step waits."""


def waits_as(session_id: str, run: str, step: Step) -> Ref:
    """What a step is called in the list of all that waits for a person."""
    kind = _PHASES.get(step.phase, WaitingKind.STEP)
    return Ref.at(kind, step.ts, session_id, run, step.step)


def as_record(redaction: StepRedaction, step: str, answer: Any, by: str = "") -> runs.Answered:
    """The record of an answer. Raises PayloadError and RedactionFailed."""
    given = as_plain(answer, "answer")
    data = redaction.data("ask", runs.ANSWERED, step, answer=given)
    return runs.Answered(step, msgspec.Raw(codec.encode(data, "answer")), by)


class RunSource:
    """Where questions and doubtful steps of runs wait: a `Source` of the list."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store
        self._core: Core = core_of(store)

    async def look(self, ref: Ref) -> Waiting | None:
        """See `Source.look`."""
        session_id, run, name = ref.keys
        state: State = await self._store.view(runs.kind(session_id, run), consistency="strong")
        step = state.steps.get(name)
        if step is None or not _is_open(step, ref) or _is_over(step):
            return None
        known = {t.task_id: t.status for t in await self._store.list_tasks(session_id)}
        if known.get(run) in (None, TaskStatus.CANCELLED):
            return None
        is_question = ref.kind is WaitingKind.QUESTION
        asked = codec.decode(step.question if is_question else step.arguments)
        return Waiting(
            ref.id,
            ref.kind,
            asked,
            ref.since_time,
            session_id=session_id,
            task_id=run,
            step=name,
            until=dt.datetime.fromtimestamp(step.until, dt.UTC) if step.until else None,
            by=text_in(asked, "user_id"),
        )

    async def answer(self, ref: Ref, answer: Any, by: str) -> Answered:
        """See `Source.answer`."""
        session_id, run, name = ref.keys
        record, decision = self._said(ref, answer, by)

        def decide(turn: Turn) -> None:
            step = turn.run.steps.get(name)
            if step is None or not _is_it(step, ref) or run not in turn.made.state.saved:
                raise NotWaiting(ref.id)
            if not _is_open(step, ref):
                raise AlreadyAnswered(ref.id, "answered", codec.decode(step.result))
            if _is_over(step):
                raise WaitingExpired(ref.id, step.until)
            status = turn.made.state.brief(run).status
            if status is TaskStatus.CANCELLED:
                raise AlreadyAnswered(ref.id, "the run was cancelled")
            turn.records.append(record)
            turn.made.waiting.append(ended(ref))
            if status is TaskStatus.PAUSED and turn.run.parked:
                lifecycle.reopen(turn.made, run)

        await decide_on_run(self._core, session_id, run, decide)
        return Answered(ref.id, ref.kind, decision)

    def _said(self, ref: Ref, answer: Any, by: str) -> tuple[msgspec.Struct, str]:
        session_id, run, name = ref.keys
        redaction = StepRedaction(self._core.redaction, session_id, run)
        if ref.kind is WaitingKind.QUESTION:
            return as_record(redaction, name, answer, by), "answered"
        settled = Settled(answer) if isinstance(answer, bool) else answer
        if not isinstance(settled, Settled):
            raise PayloadError("answer", f"a step is confirmed or retracted, not {answer!r:.80}")
        if not settled.happened:
            return Retracted(name, by), "retracted"
        given = as_plain(settled.result, "result")
        data = redaction.data("step", runs.DONE, name, result=given)
        encoded = msgspec.Raw(codec.encode(data, "result"))
        return Done(name, 0.0, encoded, type=PLAIN_DATA, by=by), "confirmed"


def _is_it(step: Step, ref: Ref) -> bool:
    return Ref.at(ref.kind, step.ts, *ref.keys) == ref


def _is_open(step: Step, ref: Ref) -> bool:
    return _is_it(step, ref) and _PHASES.get(step.phase) is ref.kind


def _is_over(step: Step) -> bool:
    return 0 < step.until <= time.time()

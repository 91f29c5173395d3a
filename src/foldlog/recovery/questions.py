"""Questions of executions, each answered once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from foldlog import codec
from foldlog.envelope import Draft
from foldlog.errors import AlreadyAnswered, NotWaiting
from foldlog.models import Answered, Waiting, WaitingKind
from foldlog.recovery.results import PLAIN_DATA, StepRedaction
from foldlog.recovery.writing import Writing, read_state, write_state
from foldlog.store.core import core_of
from foldlog.store.payloads import encode
from foldlog.store.store import BaseStore
from foldlog.store.waiting import Ref, began, ended, text_in
from foldlog.values import as_plain
from foldlog_projections import states
from foldlog_projections.states import Done, State, Step

Agrees = Callable[[Step | None], bool]
"""Whether the step as it stands takes the answer; it may raise."""


class Questions:
    """Where questions wait: a `Source` of the list of all that waits for a person."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    async def look(self, ref: Ref) -> Waiting | None:
        """See `Source.look`."""
        state_id, address = ref.keys
        step = (await read_state(self._store, state_id)).steps.get(address)
        if step is None or step.phase != "waiting" or _waits_as(state_id, step) != ref:
            return None
        asked = codec.decode(step.request)
        return Waiting(
            ref.id,
            ref.kind,
            asked,
            ref.since_time,
            session_id=text_in(asked, "session_id"),
            trace_id=text_in(asked, "trace_id"),
            task_id=text_in(asked, "task_id"),
            state_id=state_id,
            by=text_in(asked, "user_id"),
        )

    async def answer(self, ref: Ref, answer: Any) -> Answered:
        """See `Source.answer`."""
        state_id, address = ref.keys

        def agrees(step: Step | None) -> bool:
            if step is None or _waits_as(state_id, step) != ref:
                raise NotWaiting(ref.id)
            if step.phase != "waiting":
                raise AlreadyAnswered(ref.id, "answered", codec.decode(step.result))
            return True

        await self.settle(state_id, address, answer, agrees)
        return Answered(ref.id, ref.kind, "answered")

    async def settle(self, state_id: str, address: str, value: Any, agrees: Agrees) -> bool:
        """Answer the question if `agrees` says so; return whether it was answered."""
        redaction = StepRedaction(core_of(self._store).redaction, state_id)
        given = as_plain(value, "value")
        data = redaction.data("StateBackend.answer", states.DONE, address, result=given)
        result = msgspec.Raw(codec.encode(data, "value"))
        answered = encode(states.kind, Done(address, 0.0, result, type=PLAIN_DATA))

        def decide(state: State, head: int) -> Writing | None:
            step = state.steps.get(address)
            if not agrees(step) or step is None:
                return None
            return Writing([answered], waiting=[ended(_waits_as(state_id, step))])

        return await write_state(self._store, state_id, decide)


def begun(
    state_id: str,
    state: State,
    records: Sequence[msgspec.Struct],
    drafts: Sequence[Draft],
    session_id: str | None,
) -> list[Draft]:
    """What lists the questions among these records, and takes off the list what they replace."""
    found = []
    for record, draft in zip(records, drafts, strict=True):
        if not isinstance(record, states.Waiting):
            continue
        step = state.steps.get(record.address)
        since = draft.ts if step is None else step.ts
        if step is not None and step.phase == "waiting":
            if not states.is_another_question(step, record):
                continue
            found.append(ended(_waits_as(state_id, step)))
            since = draft.ts
        found.append(
            began(Ref.at(WaitingKind.QUESTION, since, state_id, record.address), session_id)
        )
    return found


def _waits_as(state_id: str, step: Step) -> Ref:
    return Ref.at(WaitingKind.QUESTION, step.ts, state_id, step.address)

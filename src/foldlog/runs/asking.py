"""Questions of an open run: asked, listed, waited for, and answered once."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.runs.errors import QuestionExpired, RunPaused, RunTakenOver
from foldlog.runs.orders import Orders
from foldlog.runs.questions import as_record, waits_as
from foldlog.runs.results import StepRedaction
from foldlog.runs.tenure import Tenure, Turn
from foldlog.runs.waiting import lasting
from foldlog.store.waiting import Ref, began, ended
from foldlog.values import as_plain
from foldlog_projections.runs import runs
from foldlog_projections.runs.runs import Asked, Step

_LOOKS_EVERY: Final = 5.0
"""Seconds between two looks for an answer, where no push tells of it."""


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()
"""Stands for the default of a question that has none."""


class Asking:
    """Asks what an open run wants to know."""

    def __init__(self, tenure: Tenure, orders: Orders, redaction: StepRedaction) -> None:
        self._tenure = tenure
        self._orders = orders
        self._redaction = redaction

    async def ask(
        self,
        name: str,
        question: Any,
        timeout: float | None,
        default: Any,
        wait: float | None,
        *,
        listed: bool = True,
    ) -> Step:
        """Return the question as it was answered. Arguments and errors as `Run.ask`.

        Args:
            listed: whether a person answers it, who finds it on the list of what waits.
        """
        lasting(timeout or 0.0, "timeout")
        given = as_plain(question, "question")
        data = self._redaction.data("ask", runs.ASKED, name, question=given)
        encoded = codec.encode(data, "question")
        await self._orders.obeyed()
        asked = await self._asked(name, encoded, timeout, listed)
        if asked.phase == "done":
            return asked
        clock = asyncio.get_running_loop().time
        gives_up = None if wait is None else clock() + wait
        expires = None if not asked.until else clock() + max(asked.until - time.time(), 0.0)
        while True:
            await self._orders.obeyed()  # before the look: what comes after either is noticed
            found = await self._tenure.step(name, "strong")
            if found is not None and found.phase == "done":
                return found
            now = clock()
            if expires is not None and now >= expires:
                return await self._expired(asked, default)
            if gives_up is not None and now >= gives_up:
                raise RunPaused(*self._run, name, question, self._ref(asked).id)
            ends = min(at for at in (expires, gives_up, now + _LOOKS_EVERY) if at is not None)
            await self._orders.moved(ends - now)

    async def _asked(self, name: str, question: bytes, timeout: float | None, listed: bool) -> Step:
        """Have the question on record and on the list, and return it as it stands."""
        looked = self._orders.looked()

        def ask(turn: Turn) -> bool | None:
            step = turn.run.steps.get(name)
            if step is not None and step.phase == "done":
                return False
            if step is None or step.phase != "asked" or step.question != question:
                now = time.time()
                until = 0.0 if timeout is None else now + timeout
                if step is not None and step.phase == "asked":
                    turn.made.waiting.append(ended(self._ref(step)))
                turn.records.extend(looked)
                turn.records.append(Asked(name, msgspec.Raw(question), now, until))
                step = Step(name, now, "asked")
            if listed:
                turn.made.waiting.append(began(self._ref(step), self._tenure.session_id))
            return None

        known = await self._tenure.step(name)
        if known is None or known.phase != "done":
            await self._tenure.decide(ask)
        return await self._found(name)

    async def _expired(self, asked: Step, default: Any) -> Step:
        if default is NO_DEFAULT:
            raise QuestionExpired(*self._run, asked.step)
        record = as_record(self._redaction, asked.step, default, "timeout")

        def answer(turn: Turn) -> bool | None:
            step = turn.run.steps.get(asked.step)
            if step is None or step.phase != "asked":
                return False
            turn.records.append(record)
            turn.made.waiting.append(ended(self._ref(step)))
            return None

        await self._tenure.decide(answer)
        return await self._found(asked.step)

    async def _found(self, name: str) -> Step:
        found = await self._tenure.step(name)
        if found is None:
            raise RunTakenOver(*self._run, "")
        return found

    def _ref(self, step: Step) -> Ref:
        return waits_as(*self._run, step)

    @property
    def _run(self) -> tuple[str, str]:
        return self._tenure.session_id, self._tenure.name

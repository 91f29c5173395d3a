"""Executions in VALIDATION: every step is called again, and nothing is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foldlog.errors import Misuse
from foldlog.integrations.rh_agents.execution import Execution, is_done
from foldlog.integrations.rh_agents.models import StateMetadata, StateStatus
from foldlog.opening.states import whole
from foldlog.runs import RunPaused
from foldlog.runs.errors import consists_of
from foldlog.runs.results import StepRedaction, dump_result
from foldlog.runs.steps import called
from foldlog.store.core import core_of
from foldlog.subjects import checked_id
from foldlog.values import type_codec
from foldlog_projections.runs.runs import Step

_OF_STEPS = ("repeatable", "timeout", "retries", "pause")
"""Options that are not the function's."""


class Validating(Execution):
    """An execution of what is on record, which opens no run."""

    async def _enter(self, is_of_execution: bool, is_of_run: bool) -> None:
        if not is_of_execution:
            raise Misuse(f"there is no execution {self.state_id!r:.80} to be validated")
        if not is_of_run:
            self._known = await whole(self._store, self.state_id, self._known)

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._phase = "left"

    async def close(self) -> None:
        self._check_open()
        self._phase = "left"

    @property
    def _steps(self) -> dict[str, Step]:
        return self._known

    def should_skip_event(self, address: str) -> bool:
        return False

    async def step(
        self,
        address: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        event_type: str = "",
        artifact: bool = False,
        returns: Any = None,
        **options: Any,
    ) -> Any:
        declared = self._declared(address, function, returns)
        given = {name: value for name, value in options.items() if name not in _OF_STEPS}
        recorded = self._known.get(address)
        redaction = StepRedaction(
            core_of(self._store).redaction, self.run.session_id, self.run.name
        )
        try:
            value = await called(function, args, given)
        except Exception as error:
            if not consists_of(error, RunPaused):
                message = redaction.message(address, error)
                self._comparison.raised(address, recorded, type(error).__qualname__, message)
            raise
        expected = await self.get_event_result(address)
        type_ = type_codec(declared)
        actual = redaction.result(address, dump_result(value, type_), type_)
        self._comparison.gave(address, recorded, expected, actual.data)
        return value

    async def ask(self, address: str, request: Any = None, **options: Any) -> Any:
        checked_id(address, "address")
        self._check_open()
        if not is_done(self._known.get(address)):
            raise RunPaused(self.run.session_id, self.run.name, address, request)
        return await self.get_event_result(address, options.get("returns"))

    async def save_checkpoint(
        self, status: StateStatus = StateStatus.RUNNING, metadata: StateMetadata | None = None
    ) -> bool:
        self._check_open()
        return False

    async def put_artifact(self, name: str, artifact: Any) -> str:
        self._check_open()
        return self._artifacts.artifact_id(artifact)

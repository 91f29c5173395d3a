"""Runs: agents and jobs that go on where they stopped, made by `store.run`."""

from foldlog.runs.errors import (
    QuestionExpired,
    ResultMissing,
    RunBusy,
    RunCancelled,
    RunPaused,
    RunTakenOver,
    StepChanged,
    StepUnknown,
    UnreadableResult,
)
from foldlog.runs.run import Run
from foldlog_projections.runs.runs import Step, Usage

__all__ = [
    "QuestionExpired",
    "ResultMissing",
    "Run",
    "RunBusy",
    "RunCancelled",
    "RunPaused",
    "RunTakenOver",
    "Step",
    "StepChanged",
    "StepUnknown",
    "UnreadableResult",
    "Usage",
]

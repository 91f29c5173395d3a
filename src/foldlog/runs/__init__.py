"""Runs: agents and jobs that go on where they stopped, made by `store.run`."""

from foldlog.runs.errors import (
    CodeChanged,
    QuestionExpired,
    ResultMissing,
    RunBusy,
    RunCancelled,
    RunEnded,
    RunFailed,
    RunHandedOn,
    RunPaused,
    RunTakenOver,
    StepChanged,
    StepUnknown,
    UnreadableResult,
    WorkerLost,
)
from foldlog.runs.functions import Durable, durable
from foldlog.runs.queues import Queues
from foldlog.runs.run import Run
from foldlog.runs.standing import AtWork, FailedRun, Queue, RunAtWork
from foldlog.runs.starting import Handle
from foldlog.runs.worker import Worker
from foldlog_projections.runs.runs import Step, Usage

__all__ = [
    "AtWork",
    "CodeChanged",
    "Durable",
    "FailedRun",
    "Handle",
    "QuestionExpired",
    "Queue",
    "Queues",
    "ResultMissing",
    "Run",
    "RunAtWork",
    "RunBusy",
    "RunCancelled",
    "RunEnded",
    "RunFailed",
    "RunHandedOn",
    "RunPaused",
    "RunTakenOver",
    "Step",
    "StepChanged",
    "StepUnknown",
    "UnreadableResult",
    "Usage",
    "Worker",
    "WorkerLost",
    "durable",
]

"""What a run has beside its steps when workers do it: how it was started, and how it waits."""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.kind import Blob
from foldlog.words import Line, brief, clip
from foldlog_projections.runs.queues import Added

SUBMITTED: Final = "run.submitted"
SLEPT: Final = "run.slept"
RETURNED: Final = "run.returned"


class Submitted(msgspec.Struct, frozen=True, omit_defaults=True):
    """`run.submitted`: workers do it, by this version of a function, with these arguments.

    `digest` is that of the arguments as they were given. `begins` is when, in Unix seconds; 0: at
    once. `parent` is the run of the same session that started it.
    """

    function: str
    version: str
    arguments: msgspec.Raw
    digest: str
    queue: str
    priority: int = 0
    key: str = ""
    begins: float = 0.0
    parent: str = ""

    def added(self, session_id: str, run: str) -> Added:
        """The record that has workers do it."""
        return Added(session_id, run, self.function, self.queue, self.priority, self.key)


class Slept(msgspec.Struct, frozen=True):
    """`run.slept`: the step is to wait until a time, in Unix seconds."""

    step: str
    until: float


class Returned(msgspec.Struct, frozen=True, omit_defaults=True):
    """`run.returned`: its function gave this; `type` and `blob` as of a step."""

    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    type: str = ""
    blob: Blob = ""


def submitted_line(each: Submitted) -> Line:
    """The line that says that a run was started."""
    return Line(f"started {each.function}", clip(brief(each.arguments)))

"""The traces of one session, the one whose trajectory was saved last at the end.

Each has the digest of the content saved last, by which a trajectory differs from a cleared one that
a late writer has put back.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.words import Shown


class TraceSaved(msgspec.Struct, frozen=True):
    """`trace.saved`: a trajectory of this trace was saved; `content` is its digest.

    Or spans of it arrived: `content` is `otlp:` and a hash of their ids. Of a trace that has a
    trajectory it stays the digest.
    """

    trace_id: str
    content: str


def _names(state: dict[str, str]) -> list[tuple[str, tuple[str, ...]]]:
    return [("trace", (trace_id,)) for trace_id in state]


def _move_to_end(state: dict[str, str], saved: TraceSaved, _: Recorded) -> dict[str, str]:
    state.pop(saved.trace_id, None)
    state[saved.trace_id] = saved.content
    return state


kind: Final = Kind(
    "traces",
    keys=("session_id",),
    owner="session",
    owns=_names,
    records={"trace.saved": TraceSaved},
    fold=Fold(dict, _move_to_end, state=dict[str, str], replaces="trace_id"),
    shown=Shown({"trace.saved": "trace {trace_id} saved"}, group="lists"),
)

"""What a run says while it works: tokens, progress, in order."""

from __future__ import annotations

import secrets
from typing import Any, Final

import msgspec

from foldlog.kind import Content, Kind, content_rule
from foldlog.words import Line, Shown, brief, clip
from foldlog_projections.folds import every

SAID: Final = "run.said"


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """`run.said`: this. `place` says where in the run, so that a rerun says it once."""

    data: Content[Any]
    place: str = ""


def _id(said: Said, _: bytes) -> str:
    return said.place or secrets.token_hex(12)


kind: Final = Kind(
    "said",
    keys=("session_id", "run"),
    owner="session",
    records={SAID: Said},
    fold=every,
    id=content_rule(_id),
    shown=Shown({SAID: lambda said: Line("said", clip(brief(said.data)), tone="aside")}),
)

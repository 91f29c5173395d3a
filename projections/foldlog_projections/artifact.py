"""Where one artifact is, by its id: the keys of the view that holds it. That never changes."""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.kind import Kind
from foldlog.words import Shown
from foldlog_projections.folds import last


class Located(msgspec.Struct, frozen=True):
    """`artifact.located`: the view of these keys has it, if any has."""

    keys: tuple[str, ...]


kind: Final = Kind(
    "artifact",
    keys=("artifact_id",),
    records={"artifact.located": Located},
    fold=last,
    shown=Shown({"artifact.located": "file {artifact_id} can be found"}, group="lists"),
)

"""Checkpoints of workflows in a session: the last one saved under each id."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.kind import Content, Kind
from foldlog.words import Shown
from foldlog_projections.folds import last_by


class CheckpointSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`workflow.checkpoint`: where a workflow goes on from.

    `previous` is the checkpoint that it came from, `timestamp` ISO 8601 by the writer's clock,
    `waits` the ids of the requests that wait for an answer there.
    """

    id: str
    workflow: str
    timestamp: str
    body: Content[Any]
    previous: str | None = None
    waits: tuple[str, ...] = ()


class CheckpointDeleted(msgspec.Struct, frozen=True):
    """`workflow.deleted`: there is no checkpoint of that id any more."""

    id: str


DELETED = "workflow.deleted"

kind: Final = Kind(
    "workflowcheckpoints",
    keys=("session_id",),
    owner="session",
    records={"workflow.checkpoint": CheckpointSaved, DELETED: CheckpointDeleted},
    fold=last_by("id"),
    shown=Shown(
        {
            "workflow.checkpoint": "{workflow} at checkpoint {id}",
            DELETED: "checkpoint {id} deleted",
        },
        group="checkpoints",
    ),
)

"""The envelopes of executions. No I/O."""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from foldlog.envelope import Draft, Recorded, draft, upsert_id
from foldlog.recovery.snapshots import now
from foldlog.store.payloads import dump
from foldlog_projections import states
from foldlog_projections.states import Addressed, Done, Failed, Intended, Owned, State, Waiting

MAX_MESSAGE: Final = 16 * 1024
"""Characters of an exception's message that are kept: it must not be what fails to be recorded."""


def owned(epoch: int, owner: str) -> Draft:
    """Somebody takes the execution over."""
    return _drafted(states.OWNED, Owned(epoch, owner, secrets.token_hex(8)))


def rewound(address: str) -> Draft:
    """That step and all that came after it are void."""
    return _drafted(states.REWOUND, Addressed(address))


def intended(address: str, event_type: str) -> Draft:
    """The step is about to happen."""
    return _drafted(states.INTENDED, Intended(address, str(event_type)))


def done(address: str, seconds: float, result: bytes) -> Draft:
    """It happened, and gave this: an encoded payload."""
    return _drafted(states.DONE, Done(address, seconds, msgspec.Raw(result)))


def done_as_artifact(address: str, seconds: float, artifact_id: str) -> Draft:
    """It happened, and what it gave is this artifact."""
    return _drafted(states.DONE, Done(address, seconds, artifact_id=artifact_id))


def failed(address: str, seconds: float, kind: str, message: str) -> Draft:
    """It raised an exception of that kind."""
    return _drafted(states.FAILED, Failed(address, seconds, kind, message))


def retracted(address: str) -> Draft:
    """It did not happen after all."""
    return _drafted(states.RETRACTED, Addressed(address))


def waiting(address: str, request: bytes) -> Draft:
    """The execution waits here for an answer to this: an encoded payload."""
    return _drafted(states.WAITING, Waiting(address, msgspec.Raw(request)))


def told(error: Exception) -> tuple[str, str]:
    """An exception's type and message."""
    try:
        message = str(error)
    except Exception as fault:  # noqa: BLE001 - its `__str__` is the caller's code, too
        message = f"no message: {type(fault).__name__}"
    return type(error).__qualname__, message


def kept(message: str) -> str:
    """What is kept of a message, as text that the log can hold: the beginning, if it is long."""
    text = message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]} ..."
    return text.encode(errors="replace").decode()


def folded(state: State, envelope: Draft) -> State:
    """Fold what was just appended into an execution's own copy of its state."""
    recorded = Recorded(
        envelope.id, envelope.type, envelope.v, envelope.ts, envelope.payload, None, 0, 0, now()
    )
    return states.kind.apply(state, recorded)


def _drafted(type: str, payload: msgspec.Struct) -> Draft:
    body = dump(payload)
    return draft(type, body, id=upsert_id(body))

"""What a shard held, as the *mark* next to it says, and what it has lost since. No I/O.

A shard whose loss was accepted is *another incarnation*: its mark gets a new random id, and what
was derived from the earlier one is not used again (ADR 0016).
"""

from __future__ import annotations

import secrets
from typing import Final, NamedTuple

import msgspec

from foldlog.errors import LogCorrupt, LogRewound

QUIET_SECONDS: Final = 60.0
"""For so long after its announcement a purge may be under way, by whichever clock."""

Loss = LogRewound | LogCorrupt


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """A shard at one moment.

    Attributes:
        incarnation: a random id; "" until a loss is accepted for the first time.
        created: when the shard's stream was created, RFC 3339; "" where nobody knows.
        seq: the last sequence.
        messages: how many records there were up to `seq`; None where a purge made that unknown.
        quiet_until: Unix seconds; until then `messages` stays unknown, for a purge may run.
        ended: where the shard was found to end too early. Later appends would hide that.
    """

    incarnation: str = ""
    created: str = ""
    seq: int = 0
    messages: int | None = None
    quiet_until: float = 0.0
    ended: int | None = None


class Shard(NamedTuple):
    """A shard as its leader describes it now; `name` is that of its stream."""

    name: str
    created: str
    last_seq: int
    messages: int
    replicas: int


class Known(NamedTuple):
    """What this process knows of a shard from its acks, reads and earlier checks."""

    seq: int = 0
    created: str | None = None
    incarnation: str | None = None


NOTHING: Final = Known()


def find_loss(mark: Mark, found: Shard, known: Known = NOTHING) -> Loss | None:
    """Return what a shard has lost, as an error to raise; None for nothing."""
    for seq, created in ((known.seq, known.created), (mark.seq, mark.created)):
        if created and found.created and created != found.created:
            return LogRewound(found.name, seq, "its stream was created anew")
    if found.last_seq < known.seq:
        return LogRewound(found.name, max(known.seq, mark.seq), f"it ended at {found.last_seq}")
    if mark.ended is not None:
        return LogRewound(found.name, mark.seq, f"it ended at {mark.ended}")
    if found.last_seq < mark.seq:
        return LogRewound(found.name, mark.seq, f"it ended at {found.last_seq}")
    if known.incarnation is not None and mark.incarnation not in ("", known.incarnation):
        return LogRewound(found.name, known.seq, "another process has accepted it with less")
    # Replicas make good what one of them has lost.
    if mark.messages is None or found.replicas > 1:
        return None
    missing = mark.messages + found.last_seq - mark.seq - found.messages
    if missing <= 0:
        return None
    reason = f"{missing} records up to here are missing; a rebuild accepts the log without them"
    return LogCorrupt(found.name, mark.seq, reason)


def renewed(mark: Mark, found: Shard, now: float) -> Mark:
    """Return the mark of a shard that lost nothing; `now` in Unix seconds."""
    messages = None if now < mark.quiet_until else found.messages
    quiet_until = mark.quiet_until if messages is None else 0.0
    return Mark(mark.incarnation, found.created, found.last_seq, messages, quiet_until)


def purged(mark: Mark, now: float) -> Mark:
    """Return the mark of a shard from which records may be purged from now on."""
    until = max(mark.quiet_until, now + QUIET_SECONDS)
    return msgspec.structs.replace(mark, messages=None, quiet_until=until)


def rewound(mark: Mark, loss: LogRewound, found: Shard) -> Mark:
    """Return the mark that keeps the evidence of a loss, whatever is appended later."""
    return msgspec.structs.replace(mark, seq=loss.sequence, ended=found.last_seq)


def accepted(mark: Mark, found: Shard, now: float) -> Mark:
    """Return the mark of a shard that is taken as it is now: of a new incarnation."""
    return msgspec.structs.replace(
        renewed(mark, found, now), incarnation=secrets.token_hex(6), ended=None
    )

"""How often things go wrong in a run: each run has numbers of its own."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Faults:
    """Chances of one, and `lag` in seconds.

    lost_ack: stored, and its caller does not hear of it in time.
    ghost: stored long after its caller gave up.
    vanished: never stored, and its caller does not hear that either.
    refused: refused, and its caller hears it.
    twice: stored once more, later: a retry that came after the server had forgotten the first.
    busy: a compare-and-set meets another in flight.
    cut: a client's connection breaks.
    election: the leader is gone.
    dropped, repeated, late: what happens to a push.
    failed_read: a read is cut short.
    cancelled: a caller gives up by itself.
    damaged: a stored message can no longer be read.
    """

    lost_ack: float = 0.0
    ghost: float = 0.0
    vanished: float = 0.0
    refused: float = 0.0
    twice: float = 0.0
    busy: float = 0.0
    cut: float = 0.0
    election: float = 0.0
    dropped: float = 0.0
    repeated: float = 0.0
    late: float = 0.0
    failed_read: float = 0.0
    cancelled: float = 0.0
    damaged: float = 0.0
    lag: float = 0.0


def drawn(rng: random.Random) -> Faults:
    """The faults of a run: each kind is absent in half of them, else somewhere up to a fifth."""
    chances = {
        name: rng.random() * 0.2 if rng.random() < 0.5 else 0.0
        for name in Faults.__dataclass_fields__
    }
    damaged = chances["damaged"] * 0.05  # one ends what its subject can be read for
    return replace(Faults(**chances), lag=rng.choice([0.0, 0.05, 1.0]), damaged=damaged)

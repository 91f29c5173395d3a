"""What rests on how nats-server words and counts things, beyond its documented API.

Each is optional: the comment says what becomes of the log where a newer server differs. The
directories of the embedded server are named in `foldlog.log.embedded.staging` alone.
"""

from __future__ import annotations

import re
from typing import Final

from foldlog.log.jetstream.client import Incoming

FORBIDDEN: Final = re.compile(r'permissions violation for publish to "([^"]+)"', re.IGNORECASE)
"""An account may not publish there. Else: each such request waits for its whole time."""

REFUSED: Final = re.compile("Authorization Violation|(?:User|Account) Authentication Expired")
"""Credentials that will not be taken later either. Else: connecting is tried until time is up."""

LAST_SEQUENCE: Final = re.compile(r"wrong last sequence: (\d+)")
"""Where a subject ends, in a refused compare-and-set. Else: `AppendConflict.actual` is None."""

TOO_LARGE: Final = "Message Size Exceeds MaxBytes"
"""The end of the status of a pull that one message does not fit in. Else: a scan that meets such a
message raises LogUnavailable."""

NO_RESULTS: Final = "No Results"
"""What a direct get of last messages answers where there is none, and not where one is unreadable.
Else: a read of an empty subject has the server count records, which costs three times as much."""

STORED_HEADERS: Final = re.compile(
    rb"\r\nNats-Subject: (\S+)\r\nNats-Sequence: (\d+)\r\nNats-Time-Stamp: (\S+)\r\n"
    rb"(?:Nats-Num-Pending: \d+\r\n)?Nats-Last-Sequence: (\d+)\r\n"
)
"""The headers of a message of a direct get, or of a push, in this order: to look for these takes a
fifth of reading all headers. Else: all headers are read."""


def counted_bytes(msg: Incoming) -> int:
    """Return what the server counts of a pulled message towards `max_bytes`.

    It says when a page ends, unless the page ends exactly there. Else: such a page is waited for
    until time is up, and asked for again.
    """
    subject, reply = msg.raw
    return len(subject) + len(reply) + len(msg.block) + len(msg.data)

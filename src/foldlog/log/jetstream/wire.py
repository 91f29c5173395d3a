"""JetStream's own messages: acks, errors and stream descriptions, as far as foldlog reads them."""

from __future__ import annotations

from typing import Any

import msgspec


class ApiError(msgspec.Struct, frozen=True):
    """An error of the JetStream API; `err_code` is the specific one."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class Answer(msgspec.Struct, frozen=True):
    """An answer that says no more than whether it was done."""

    error: ApiError | None = None


class PubAck(Answer, frozen=True):
    """The answer to a publish, or to the commit of an atomic batch."""

    seq: int = 0


class StreamState(msgspec.Struct, frozen=True):
    """What a stream holds."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    num_subjects: int = 0
    subjects: dict[str, int] = {}


class Peer(msgspec.Struct, frozen=True):
    """A follower."""

    name: str = ""
    lag: int = 0


class Cluster(msgspec.Struct, frozen=True):
    """The leader, empty while there is none, and its followers."""

    leader: str | None = None
    replicas: list[Peer] = []


class StreamDescription(Answer, frozen=True):
    """The answer to STREAM.INFO and STREAM.CREATE; `created` is RFC 3339."""

    created: str = ""
    config: dict[str, Any] = {}
    state: StreamState = StreamState()
    cluster: Cluster | None = None
    total: int = 0

    @property
    def replicas(self) -> int:
        """How many servers store the stream."""
        return int(self.config.get("num_replicas", 1))

    @property
    def is_leaderless(self) -> bool:
        """Whether a replica answered for want of a leader: it may lag behind what was acked."""
        return self.replicas > 1 and not (self.cluster and self.cluster.leader)


class ConsumerDescription(Answer, frozen=True):
    """The answer to CONSUMER.CREATE."""

    num_pending: int = 0


class StoredMessage(msgspec.Struct, frozen=True):
    """One message as the leader gives it; `data` and its header block `hdrs` in base64."""

    seq: int
    time: str
    data: bytes = b""
    hdrs: bytes = b""
    subject: str = ""


class MessageAnswer(Answer, frozen=True):
    """The answer to STREAM.MSG.GET."""

    message: StoredMessage | None = None


class _ApiLevel(msgspec.Struct, frozen=True):
    level: int = 0


class AccountAnswer(Answer, frozen=True):
    """The answer to INFO: the API level."""

    api: _ApiLevel = _ApiLevel()


FIRST_TIME = "Foldlog-Time"
"""The header of a record that was restored: the time at which another log stored it first."""

_FIRST_TIME = f"\r\n{FIRST_TIME}: ".encode()


def time_of(headers: bytes, stored: str) -> str:
    """Return a message's time: that in its header block, or the one at which it was stored."""
    _, found, rest = headers.partition(_FIRST_TIME)
    return rest.partition(b"\r\n")[0].decode() if found else stored


NO_CLUSTER_LEADER = 10008
NO_MESSAGE = 10037
NO_STREAM = 10059
DUPLICATE_IN_BATCH = 10201
DUPLICATE_IN_PROCESS = 10158
STREAM_EXISTS = 10058
WRONG_LAST_SEQUENCE = 10071
WRONG_LAST_SEQUENCE_OR_BUSY = 10164
WRONG_LAST = (WRONG_LAST_SEQUENCE, WRONG_LAST_SEQUENCE_OR_BUSY)
BATCH_INCOMPLETE = 10176
NO_LEADER = 503
"""The code of an error while a cluster has no leader."""

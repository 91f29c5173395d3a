"""JetStream's own messages: acks, errors and stream descriptions, as far as foldlog reads them."""

from __future__ import annotations

import msgspec


class ApiError(msgspec.Struct, frozen=True):
    """An error of the JetStream API; `err_code` is the specific one."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class PubAck(msgspec.Struct, frozen=True):
    """The answer to a publish, or to the commit of an atomic batch."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    count: int = 0
    error: ApiError | None = None


class StreamState(msgspec.Struct, frozen=True):
    """What a stream holds."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    num_subjects: int = 0
    subjects: dict[str, int] = {}


class Republish(msgspec.Struct, frozen=True):
    """Where stored messages are pushed."""

    src: str = ""
    dest: str = ""


class StreamConfig(msgspec.Struct, frozen=True):
    """The settings that the log relies on."""

    name: str = ""
    subjects: list[str] = []
    num_replicas: int = 1
    allow_direct: bool = False
    allow_atomic: bool = False
    deny_delete: bool = False
    republish: Republish | None = None
    metadata: dict[str, str] = {}


class Peer(msgspec.Struct, frozen=True):
    """A follower."""

    name: str = ""
    lag: int = 0


class Cluster(msgspec.Struct, frozen=True):
    """Who leads and who follows; `leader` is empty while there is none."""

    leader: str | None = None
    replicas: list[Peer] = []


class StreamDescription(msgspec.Struct, frozen=True):
    """The answer to STREAM.INFO and STREAM.CREATE; `created` is RFC 3339."""

    created: str = ""
    config: StreamConfig = StreamConfig()
    state: StreamState = StreamState()
    cluster: Cluster | None = None
    total: int = 0
    error: ApiError | None = None

    @property
    def is_leaderless(self) -> bool:
        """Whether a replica answered for want of a leader: it may lag behind what was acked."""
        return self.config.num_replicas > 1 and not (self.cluster and self.cluster.leader)


class ConsumerDescription(msgspec.Struct, frozen=True):
    """The answer to CONSUMER.CREATE."""

    num_pending: int = 0
    error: ApiError | None = None


class StoredMessage(msgspec.Struct, frozen=True):
    """One message as the leader gives it; `data` and its header block `hdrs` in base64."""

    seq: int
    time: str
    data: bytes = b""
    hdrs: bytes = b""
    subject: str = ""


class MessageAnswer(msgspec.Struct, frozen=True):
    """The answer to STREAM.MSG.GET."""

    message: StoredMessage | None = None
    error: ApiError | None = None


class PurgeAnswer(msgspec.Struct, frozen=True):
    """The answer to STREAM.PURGE."""

    success: bool = False
    purged: int = 0
    error: ApiError | None = None


class DeleteAnswer(msgspec.Struct, frozen=True):
    """The answer to STREAM.MSG.DELETE."""

    success: bool = False
    error: ApiError | None = None


class _ApiLevel(msgspec.Struct, frozen=True):
    level: int = 0


class AccountAnswer(msgspec.Struct, frozen=True):
    """The answer to INFO: what the account may do, and the API level."""

    api: _ApiLevel = _ApiLevel()
    error: ApiError | None = None


NO_CLUSTER_LEADER = 10008
NO_MESSAGE = 10037
NO_STREAM = 10059
DUPLICATE_IN_BATCH = 10201
DUPLICATE_IN_PROCESS = 10158
WRONG_LAST_SEQUENCE = 10071
WRONG_LAST_SEQUENCE_OR_BUSY = 10164
WRONG_LAST = (WRONG_LAST_SEQUENCE, WRONG_LAST_SEQUENCE_OR_BUSY)
BATCH_INCOMPLETE = 10176

"""The storage promise: what a log must do. Two backends keep it, JetStream and memory.

- **Order.** Records of one subject are totally ordered by sequence; sequences of one shard never
  repeat and never go back.
- **Durability.** When `append` returns, its envelopes are stored, byte-identical, and every read
  that begins afterwards sees them.
- **Three outcomes.** `append` returns (committed), raises `AppendFailed` or `LogUnavailable` (not
  committed), or raises `AppendUnknown`. It settles a lost acknowledgement by itself where it can.
- **Compare-and-set.** With `expect`, an append succeeds only if its subject ends at that sequence.
- **Completeness.** `read` is complete to a head that the log vouches for, or raises. It never
  returns less in silence.
- **Push is a hint.** `follow` may drop, repeat or stay silent; `previous` in each record and
  `epoch` let the reader notice. The log is the truth.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from foldlog.envelope import Draft, Recorded, unpack
from foldlog.errors import LogCorrupt
from foldlog.log.incarnation import Loss
from foldlog.subjects import Branch, Namespace, Subject


class Append(msgspec.Struct, frozen=True, gc=False):
    """Envelopes for one subject, in order. `expect`: the subject's last sequence, 0 for none."""

    subject: Subject
    drafts: tuple[Draft, ...]
    expect: int | None = None


class Record(msgspec.Struct, frozen=True, gc=False):
    """One stored message. `previous` is the sequence before it in its subject, where known.

    `subject` is the name of its subject.
    """

    seq: int
    envelopes: list[Recorded]
    previous: int | None = None
    subject: str = ""


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One stored message, undecoded: its subject's name, and the bytes of its record.

    `time` is the log's clock, RFC 3339; of a record that was restored, that of its first log.
    """

    subject: str
    seq: int
    time: str
    data: bytes

    def record(self, previous: int | None = None) -> Record:
        """Return it decoded.

        Raises:
            LogCorrupt: it is no record.
        """
        try:
            envelopes = unpack(self.data, self.seq, self.time)
            return Record(self.seq, envelopes, previous, self.subject)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(self.subject, self.seq, str(error)) from error


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A shard as an operator sees it.

    Attributes:
        name: the stream.
        shard: the shard.
        messages: how many records it holds.
        bytes: bytes that they take.
        subjects: how many views they are of.
        first_seq, last_seq: the sequences of the first and the last record.
        replicas: how many servers hold it.
        leader: the server that leads, or None.
        peers_lag: how many operations each of the others is behind.
    """

    name: str
    shard: int
    messages: int
    bytes: int
    subjects: int
    first_seq: int
    last_seq: int
    replicas: int
    leader: str | None
    peers_lag: dict[str, int]


class LogInfo(NamedTuple):
    """Where the log lives, and its shards. `max_payload` in bytes; `url` without credentials.

    `rtt`: the seconds that one request takes.
    """

    url: str
    version: str
    api_level: int
    max_payload: int
    rtt: float
    streams: tuple[StreamInfo, ...] = ()


OnRecord = Callable[[Record], None]
Unfollow = Callable[[], Awaitable[None]]


class Log(Protocol):
    """An append-only log of one namespace. It lives until `close`.

    Every method that asks the log raises LogUnavailable if nobody answers, and LogTimeout if the
    answer is not complete in time. A caller that needs less than a generator yields closes it.
    """

    @property
    def namespace(self) -> Namespace:
        """The subjects that it may hold."""

    @property
    def epoch(self) -> int:
        """Grows whenever pushes may have been missed: a lost connection, a dropped message."""

    def on_epoch(self, notify: Callable[[], None]) -> None:
        """Call `notify` whenever `epoch` has grown."""

    def known(self, shard: int) -> int:
        """Return the highest sequence of a shard that this process has seen; 0 for none."""

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        """Append, and return the sequence at which each append's last envelope stands.

        Appends to one subject keep the order of the calls. With `atomic`, all or nothing, on one
        shard; only such appends may have `expect`.

        Raises:
            AppendConflict: a subject does not end where `expect` says. Nothing was appended.
            PayloadTooLarge: an envelope exceeds one message. Nothing was appended.
            LogRewound: the log has lost records. Nothing is appended until `accept`.
            AppendFailed, LogUnavailable: not committed.
            AppendUnknown: not settled in time.
        """

    async def restore(
        self, shard: int, records: Sequence[tuple[Subject, bytes, str]], *, after: int
    ) -> None:
        """Append records of another log as they are, all or none: the first at `after` + 1.

        Each comes with its time there, RFC 3339, which `Stored.time` has from then on; "" for the
        time at which it is appended. At most 1,000 of them, and some MiB. They are not looked at.

        Raises:
            AppendConflict: the shard does not end at `after`. Nothing was appended.
            PayloadTooLarge, AppendFailed, LogUnavailable, AppendUnknown: as `append`.
        """

    def read(
        self, subject: Subject | Branch, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        """Yield pages of the records after sequence `after`, up to the head of the subject, or of
        all subjects of the branch, in order.

        `strong`: the head is the leader's, as of a moment after this call. Otherwise it is what
        any replica knows.

        Raises:
            LogCorrupt: a message is no record, or the shard has lost records.
            LogRewound: the shard ends earlier than it did. So until `accept`.
        """

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        """Return the subject's last record, or None; with `upto`, of those up to that sequence.

        Errors as `read`. With `upto`, an unreadable record may be passed over.
        """

    async def are_absent(self, subjects: Sequence[Subject]) -> bool:
        """Whether none of some subjects of a shard has a record, all as of one moment after this
        call. False also where one look cannot tell. Errors as `read`.
        """

    def scan(
        self, shard: int, *, after: int = 0, only: Sequence[str] = ()
    ) -> AsyncGenerator[list[Stored]]:
        """Yield pages of all that a shard stores after sequence `after`, undecoded, in order.

        Up to the shard's head as of a moment after this call or later, whatever it has lost.

        Args:
            only: names of subjects, and filters as `Namespace.wildcard` gives them; none covers
                what another one does. Empty: everything.

        Raises:
            LogCorrupt: some cannot be read. All that can be, up to its `sequence`, was yielded; a
                scan after that sequence passes over what cannot.
        """

    async def subjects(
        self, family: str | None = None, shard: int | None = None
    ) -> dict[Subject, int]:
        """Return how many records each subject holds, shard by shard.

        For operators: its cost grows with the log. What only damaged files of an archive know of is
        not listed.

        Raises:
            LogCorrupt: the keys of a hashed subject cannot be read.
        """

    async def stored(self, shard: int, seq: int) -> Stored | None:
        """Return the message at a sequence; None if there is none, or none any more."""

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        """Return a sequence that ends what a shard had stored by that time; 0 for nothing.

        By the log's clock, the whole microsecond included. No record need stand there. What was
        restored counts by its new time: see `foldlog.log.moments`.
        """

    async def heads(self) -> list[int]:
        """Return the last sequence of each shard, as its leader says it."""

    async def barrier(self, shard: int) -> None:
        """Return when a majority of the shard's replicas has confirmed its leader.

        A strong read that begins then sees all that was acked before the call, even where a
        deposed leader still believes that it leads.
        """

    async def follow(self, subject: Subject | Branch, on_record: OnRecord) -> Unfollow:
        """Call `on_record` for records stored from now on, until the returned function is awaited.

        `on_record` must not block and must not raise.
        """

    async def purge(
        self, which: Subject | Branch | int, *, before: int, overwrite: bool = True
    ) -> None:
        """Remove records whose sequence is below `before`: of a subject, a branch or a shard.

        After an error purging again is safe.

        Args:
            overwrite: of a subject or a branch, have no file hold their bytes when this returns;
                the oldest go first, and each costs the server a rewrite of the block in which it
                stands. Otherwise, and of a shard, all go in one request, and the server frees their
                bytes when it next rewrites their block.

        Raises:
            ConfigurationError: `which` names more than one branch, or the server denies deletes.
                Nothing was removed.
        """

    async def check(self) -> list[Loss]:
        """Return what the log has lost of what it is known to have held: an error a shard.

        The log checks that itself when it opens, and before the first read or append after its
        connection was lost; `read`, `last` and `append` raise what it finds.
        """

    async def accept(self) -> None:
        """Take the log as it is from now on: a shard that lost anything is a new incarnation."""

    async def info(self) -> LogInfo:
        """Return what the server and the shards look like now, to be shown.

        Without a leader any replica answers, and may lag: `heads` is what to decide on.
        """

    async def close(self) -> None:
        """Let go of the log. Idempotent."""

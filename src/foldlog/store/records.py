"""Reading the log itself: every record as it is stored, of all views or of one session's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded, unpack
from foldlog.errors import LogCorrupt, PayloadError, shown
from foldlog.kind import Key
from foldlog.log.port import Stored
from foldlog.position import LogPosition
from foldlog.store.artifacts import POINTER
from foldlog.store.removal import Removal
from foldlog.store.restoring import restore
from foldlog.store.scopes import contents, is_own
from foldlog.subjects import Subject, checked_id
from foldlog_projections import artifacts, blobs, lineage, states
from foldlog_projections.stateartifacts import Named

_CLAIMS: Final[dict[str, type[blobs.Claimed | blobs.Released]]] = {
    blobs.CLAIMED: blobs.Claimed,
    blobs.RELEASED: blobs.Released,
}


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """One record of the log, as it is stored: one or several envelopes of one view.

    Attributes:
        shard: the shard that holds it.
        seq: its sequence there; no two records have the same shard and sequence.
        time: the log's clock, RFC 3339.
        kind: the name of the view's kind.
        keys: the keys of the view.
        data: the record's bytes (`docs/reference/log-format.md`).
    """

    shard: int
    seq: int
    time: str
    kind: str
    keys: tuple[str, ...]
    data: bytes

    @property
    def envelopes(self) -> list[Recorded]:
        """The envelopes of the record, decoded; payloads stay encoded.

        Raises:
            LogCorrupt: the bytes are no record, or one of a newer version.
        """
        try:
            return unpack(self.data, self.seq, self.time)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(self.kind, self.seq, str(error)) from error


class Records(Removal):
    """Reads records as they are stored."""

    async def records(
        self,
        *,
        kinds: Sequence[str] | None = None,
        session_id: str | None = None,
        after: LogPosition | None = None,
        until: LogPosition | None = None,
        claims: bool = False,
    ) -> AsyncGenerator[LogRecord]:
        """Yield every record of the log, each once: one shard after the other, each in log order.

        Tombstones and archived records are among them; what was purged is not, nor what is saved
        after the first record was asked for. Its memory does not grow with the log.

        Args:
            kinds: only records of the kinds of these names. None: all.
            session_id: only records that erasing this session would remove, its lineage, and what
                leads to its artifacts. What a fork shares is its origin's. None: all.
            after: only records behind this position. A record that a position includes in part is
                behind it. None: from the first record.
            until: only records up to and with this position. None: to where the log ends when the
                first record is asked for.
            claims: with `session_id`, also the records that say which artifacts the session shares
                with others; nothing of the others.

        Raises:
            ConfigurationError: the store has no such kind.
            InvalidId: the session id is empty.
            PayloadError: a position is of another number of shards.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        log = self.forked_log
        families = None if kinds is None else {self.kind(name).family for name in kinds}
        begins = self._ends(after, "after")
        ends = await log.heads() if until is None else self._ends(until, "until")
        only: dict[int, list[str]] = defaultdict(list)
        claimants: set[tuple[str, tuple[str, ...]]] | None = None
        if session_id is not None:
            subjects = await self._subjects_of(checked_id(session_id, "session_id"), claims)
            claimants = {(subject.family, subject.keys) for subject in subjects}
            for subject in subjects:
                if families is None or subject.family in families:
                    only[subject.shard].append(subject.name)
        for shard, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            if session_id is None and families is not None:
                only[shard] = [log.namespace.wildcard(shard, each) for each in sorted(families)]
            if (families is None and session_id is None) or only[shard]:
                async with aclosing(self._scanned(shard, begin, end, only[shard])) as found:
                    async for each in found:
                        if claimants is None or _is_claimed(each, claimants):
                            yield each

    def _ends(self, position: LogPosition | None, field: str) -> list[int]:
        shards = self._namespace.shards
        if position is None:
            return [0] * shards
        if not isinstance(position, LogPosition):
            raise PayloadError(field, f"{shown(position)} is no position: await store.position()")
        if len(position.shards) != shards:
            reason = f"{position} is of {len(position.shards)} shard(s), the log has {shards}"
            raise PayloadError(field, reason)
        return [reach.whole for reach in position.shards]

    async def _scanned(
        self, shard: int, begin: int, end: int, only: Sequence[str]
    ) -> AsyncGenerator[LogRecord]:
        if begin >= end:
            return
        async with aclosing(self.forked_log.scan(shard, after=begin, only=only)) as pages:
            async for page in pages:
                for stored in page:
                    if stored.seq > end:
                        return
                    yield await self._log_record(shard, stored)
                if page[-1].seq == end:
                    return

    async def _log_record(self, shard: int, stored: Stored) -> LogRecord:
        subject = self._namespace.parse(stored.subject)
        keys = await self._hashed_keys(shard, stored) if subject is None else subject.keys
        family = stored.subject.split(".", 4)[3]
        return LogRecord(shard, stored.seq, stored.time, family, keys, stored.data)

    async def _hashed_keys(self, shard: int, stored: Stored) -> tuple[str, ...]:
        """The keys of a hashed subject, which its envelopes tell."""
        try:
            found = stored.record().envelopes[-1].keys
        except LogCorrupt:
            last = await self.forked_log.last(Subject(stored.subject, shard, ()))
            found = None if last is None else last.envelopes[-1].keys
        if not found:
            reason = "the keys of a hashed subject are missing"
            raise LogCorrupt(stored.subject, stored.seq, reason)
        return tuple(found)

    async def _subjects_of(self, session_id: str, claims: bool) -> Collection[Subject]:
        """The subjects that are a session's, each once; with `claims`, of the contents it has."""
        origin = (await self.read_what_can_be(lineage.kind, session_id)).state.origin
        views = [lineage.kind(session_id), *await self.views_of_session(session_id, origin)]
        found = [self.subject(lineage.MARKER, session_id)]
        claimed = set[str]()
        for key in list(views):
            if key.kind is artifacts.kind:
                held = (await self.read_what_can_be(artifacts.kind, *key.keys)).state.values()
                found += [self.subject(POINTER, each.saved.artifact_id) for each in held]
                claimed |= {each.saved.sha256 for each in held}
            elif is_own(key):
                found_blobs = (await contents(self, key.keys[0])).blobs.values()
                claimed |= {name.partition("-")[0] for name, _ in found_blobs}
            elif key.kind is states.kind:
                named = await self._artifacts_of_state(key.keys[0])
                views += named
                for each in await self.views(named):
                    claimed |= {each.sha256} if isinstance(each, Named) else set()
        views += map(blobs.kind, sorted(claimed) if claims else ())
        return dict.fromkeys([*found, *(self.subject(key.kind, *key.keys) for key in views)])

    async def _artifacts_of_state(self, state_id: str) -> list[Key[Any]]:
        """The views of the large objects to which an execution's state refers."""
        return []


def _is_claimed(record: LogRecord, claimants: Collection[tuple[str, tuple[str, ...]]]) -> bool:
    """Whether a record of a content says nothing of others, who may have the same content."""
    if record.kind != blobs.kind.name:
        return True
    decoded = [restore(_CLAIMS[e.type], e) for e in record.envelopes if e.type in _CLAIMS]
    # Claims of an execution's large objects have no keys, and the object's as their id.
    keys = ((each.claim.family, each.claim.keys or (each.claim.id,)) for each in decoded)
    return all(each in claimants for each in keys)

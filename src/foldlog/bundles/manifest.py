"""What a bundle says of itself, made of its records: the same code writes and verifies it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final, Self

import msgspec

from foldlog import codec
from foldlog.bundles.chain import MerkleTree, chain_start, leaf_hash, link
from foldlog.envelope import Recorded
from foldlog.errors import LogCorrupt
from foldlog.store import LogRecord
from foldlog.store.restoring import FAULTS, restore
from foldlog_projections import artifacts, scoped, stateartifacts, states

FORMAT: Final = "foldlog-bundle-1"
MANIFEST, RECORDS, ARTIFACTS = "manifest.json", "records.jsonl", "artifacts/"

_TIME: Final = re.compile(r"([0-9]{4}(?:-[0-9]{2}){2}T[0-9:]{8})(?:\.([0-9]{1,9}))?(?:Z|\+00:00)")
_json: Final = msgspec.json.Encoder()


class BundledArtifact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that records of the session name: an artifact, or another large value.

    Attributes:
        sha256: their SHA-256, in hexadecimal.
        included: the bundle has them. What had been removed before is not included.
    """

    sha256: str
    included: bool


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a bundle holds, and the hashes over it. A signature or a time stamp covers all of it.

    Attributes:
        format: the format's name and version.
        namespace, session_id: whose records they are.
        position: the moment of the log up to which it holds everything.
        records, envelopes: how many it holds.
        kinds: how many records, by kind.
        clock_steps_back: how often the log's clock shows less than one record earlier there.
        chain_head, merkle_root: the hashes over the records: SHA-256, in hexadecimal.
        artifacts: the bytes that the records name.
    """

    format: str
    namespace: str
    session_id: str
    position: str
    records: int
    envelopes: int
    kinds: dict[str, int]
    clock_steps_back: int
    chain_head: str
    merkle_root: str
    artifacts: list[BundledArtifact]

    def encode(self) -> bytes:
        """Return the bytes of `manifest.json`."""
        return msgspec.json.format(_json.encode(self), indent=2) + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the manifest that `encode` made bytes of.

        Args:
            data: the bytes.

        Raises:
            ValueError: they are no manifest.
        """
        return msgspec.json.decode(data, type=cls)


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of `records.jsonl`: a record, its leaf, and the chain's hash at it."""

    shard: int
    seq: int
    time: str
    kind: str
    keys: tuple[str, ...]
    data: bytes
    leaf: str
    chain: str

    @property
    def record(self) -> LogRecord:
        """The record alone."""
        return LogRecord(self.shard, self.seq, self.time, self.kind, self.keys, self.data)

    def encode(self) -> bytes:
        """The bytes of the line, its end included."""
        return _json.encode(self) + b"\n"


class Tally:
    """Takes a session's records one by one, and says what a bundle of them is to say."""

    def __init__(self, namespace: str, session_id: str, position: str) -> None:
        self._of = {"namespace": namespace, "session_id": session_id, "position": position}
        self._head = chain_start(namespace, session_id, position)
        self._tree = MerkleTree()
        self._envelopes = self._clock_steps_back = 0
        self._kinds = Counter[str]()
        self._times: dict[int, str] = {}
        self._artifacts = set[str]()

    def add(self, record: LogRecord) -> Line:
        """Take in the next record; return its line.

        Raises:
            ValueError: it is none that a log has. It does not count.
        """
        leaf, time = leaf_hash(record), _comparable(record.time)
        self._head = link(self._head, leaf)
        self._tree.add(leaf)
        self._kinds[record.kind] += 1
        self._clock_steps_back += self.is_earlier(record)
        self._times[record.shard] = time
        return Line(**msgspec.structs.asdict(record), leaf=leaf.hex(), chain=self._head.hex())

    def is_earlier(self, record: LogRecord) -> bool:
        """Whether the log's clock shows less than at the record before it on its shard."""
        return _comparable(record.time) < self._times.get(record.shard, "")

    def open(self, record: LogRecord) -> None:
        """Take in what a record holds.

        Raises:
            LogCorrupt: it or a payload cannot be decoded.
        """
        try:
            for envelope in record.envelopes:
                self._envelopes += 1
                codec.decode(envelope.payload)
                if name := _NAMED.get((record.kind, envelope.type), _nothing)(envelope):
                    self._artifacts.add(name)
        except FAULTS as error:
            raise LogCorrupt(record.kind, record.seq, str(error)) from error

    def names(self, sha256: str) -> bool:
        """Whether a record that was taken in names bytes of that digest."""
        return sha256 in self._artifacts

    def manifest(self, included: Collection[str]) -> Manifest:
        """Return what a bundle says that has the bytes of these digests."""
        return Manifest(
            format=FORMAT,
            **self._of,
            records=self._kinds.total(),
            envelopes=self._envelopes,
            kinds=dict(sorted(self._kinds.items())),
            clock_steps_back=self._clock_steps_back,
            chain_head=self._head.hex(),
            merkle_root=self._tree.root.hex(),
            artifacts=[BundledArtifact(n, n in included) for n in sorted(self._artifacts)],
        )


def _nothing(_: Recorded) -> str:
    return ""


_NAMED: Final[dict[tuple[str, str], Callable[[Recorded], str]]] = {
    (artifacts.kind.family, artifacts.SAVED): lambda e: restore(artifacts.Saved, e).sha256,
    (scoped.kind.family, scoped.WRITTEN): lambda e: restore(scoped.Written, e).blob.split("-")[0],
    (stateartifacts.kind.family, stateartifacts.NAMED): (
        lambda e: restore(stateartifacts.Named, e).sha256
    ),
    (states.kind.family, states.DONE): lambda e: restore(states.Done, e).blob.split("-")[0],
}
"""How an envelope says which bytes it names, by its kind and type."""


def _comparable(time: str) -> str:
    """A time of the log's clock, so that texts compare as times do."""
    found = _TIME.fullmatch(time)
    if found is None:
        raise ValueError(f"its time {time!r:.40} is not RFC 3339 in UTC")
    return f"{found[1]}.{found[2] or '':<09}"

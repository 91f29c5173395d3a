"""What a bundle says of itself, made of its records: the same code writes and verifies it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any, Final, Self

import msgspec

from foldlog import codec
from foldlog.bundles.chain import MerkleTree, chain_start, leaf_hash, link
from foldlog.errors import LogCorrupt
from foldlog.store import LogRecord
from foldlog_projections import artifacts
from foldlog_projections.artifacts import Held
from foldlog_projections.fold import Folded, start, step

FORMAT: Final = "foldlog-bundle-1"
MANIFEST, RECORDS, ARTIFACTS = "manifest.json", "records.jsonl", "artifacts/"

_TIME: Final = re.compile(r"([0-9]{4}(?:-[0-9]{2}){2}T[0-9:]{8})(?:\.([0-9]{1,9}))?(?:Z|\+00:00)")
_json: Final = msgspec.json.Encoder()


class BundledArtifact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An artifact that the session held. `included`: the bundle has its bytes.

    Bytes that had expired or were removed when the bundle was made are not included.
    """

    artifact_id: str
    sha256: str
    size_bytes: int
    included: bool


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a bundle holds, and the hashes over it. A signature or a time stamp covers all of it.

    `position` is the moment of the log as of which it holds everything; `kinds` counts records by
    kind; `clock_steps_back` says how often the log's clock shows less than one record earlier on
    the same shard. Hashes are SHA-256, in hexadecimal.
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
        """The bytes of `manifest.json`."""
        return msgspec.json.format(_json.encode(self), indent=2) + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return what these bytes say. Raises ValueError or MsgspecError: they are no manifest."""
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
        self._artifacts = defaultdict[tuple[str, ...], Folded[dict[str, Held]]](_nothing_held)

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
        held = self._artifacts[record.keys] if record.kind == artifacts.kind.family else None
        try:
            for envelope in record.envelopes:
                self._envelopes += 1
                codec.decode(envelope.payload)
                if held is not None:
                    step(artifacts.kind, held, envelope)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise LogCorrupt(record.kind, record.seq, str(error)) from error

    def held(self) -> list[Held]:
        """The artifacts that the session holds after the last record."""
        return [each for folded in self._artifacts.values() for each in folded.state.values()]

    def manifest(self, included: Collection[str]) -> Manifest:
        """Return what a bundle says in which are the contents of these digests."""
        found = {
            (saved.artifact_id, saved.sha256): BundledArtifact(
                saved.artifact_id, saved.sha256, saved.size_bytes, saved.sha256 in included
            )
            for saved in (held.saved for held in self.held())
        }
        return Manifest(
            format=FORMAT,
            **self._of,
            records=self._kinds.total(),
            envelopes=self._envelopes,
            kinds=dict(sorted(self._kinds.items())),
            clock_steps_back=self._clock_steps_back,
            chain_head=self._head.hex(),
            merkle_root=self._tree.root.hex(),
            artifacts=[found[key] for key in sorted(found)],
        )


def _nothing_held() -> Folded[dict[str, Any]]:
    return start(artifacts.kind)


def _comparable(time: str) -> str:
    """A time of the log's clock, so that texts compare as times do."""
    found = _TIME.fullmatch(time)
    if found is None:
        raise ValueError(f"its time {time!r:.40} is not RFC 3339 in UTC")
    return f"{found[1]}.{found[2] or '':<09}"

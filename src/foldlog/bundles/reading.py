"""Verifying a bundle by itself: nothing of it is run, imported or written to the disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import msgspec

from foldlog.bundles import anchors
from foldlog.bundles.chain import chain_start, link
from foldlog.bundles.container import Entry, Malformed, read_chunks, read_entries, read_lines
from foldlog.bundles.manifest import ARTIFACTS, FORMAT, MANIFEST, RECORDS, Line, Manifest, Tally
from foldlog.errors import LogCorrupt, UnknownMoment
from foldlog.position import LogPosition

MOST_MANIFEST_BYTES: Final = 64 * 1024 * 1024
MOST_LINE_BYTES: Final = 96 * 1024 * 1024
"""A server takes messages of 64 MiB at most, and a line has them in base64."""

MOST_FINDINGS: Final = 1_000


class BundleFinding(NamedTuple):
    """Something in a bundle that is not as it should be.

    Attributes:
        where: the part of the file.
        reason: what is wrong.
    """

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class BundleReport(NamedTuple):
    """What was found in a bundle.

    Attributes:
        findings: what is wrong.
        notes: what was not checked, and what is odd but may be.
        manifest: what the bundle says of itself; None where that cannot be read.
        digest: the SHA-256 of the manifest.
    """

    findings: tuple[BundleFinding, ...]
    notes: tuple[str, ...]
    manifest: Manifest | None
    digest: str

    @property
    def is_good(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def verify_bundle(
    path: str | os.PathLike[str],
    *,
    public_key: bytes | None = None,
    authorities: bytes | None = None,
) -> BundleReport:
    """Check all that a bundle says against what it holds, without the log; return what was found.

    It blocks.

    Args:
        path: the bundle.
        public_key: an Ed25519 key as PEM, with which the manifest has to be signed.
        authorities: certificates as PEM; one of them has to stand behind a time stamp on it.

    Raises:
        BundleRefused: a key or a certificate is none.
        ConfigurationError: `foldlog[bundle]` is not installed, and one was given.
        OSError: the file cannot be read.
    """
    with Path(path).open("rb") as file:
        verification = Verification(file)
        verification.run(public_key, authorities)
    return verification.report()


class Verification:
    """Reads one bundle, and collects what is wrong with it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.findings: list[BundleFinding] = []
        self._more = 0
        self.notes: list[str] = []
        self._file = file
        self._manifest: Manifest | None = None
        self._raw = b""

    def report(self) -> BundleReport:
        """Return what was found so far."""
        found = list(self.findings)
        if self._more:
            found.append(BundleFinding("the bundle", f"{self._more:,} more findings"))
        digest = anchors.digest(self._raw) if self._raw else ""
        return BundleReport(tuple(found), tuple(self.notes), self._manifest, digest)

    def run(self, public_key: bytes | None, authorities: bytes | None) -> None:
        """Check everything. Errors as `verify_bundle`."""
        try:
            entries = read_entries(self._file)
            self._read_manifest(entries)
            if self._manifest is not None:
                self._check_contents(entries, self._manifest)
            self._check_anchors(entries, public_key, authorities)
        except Malformed as error:
            self._found("the file", str(error))

    def _found(self, where: str, reason: str) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(BundleFinding(where, reason))
        else:
            self._more += 1

    def _read_manifest(self, entries: Sequence[Entry]) -> None:
        named = [each for each in entries if each.name == MANIFEST]
        if len(named) != 1 or named[0].size > MOST_MANIFEST_BYTES:
            raise Malformed(f"it has not one {MANIFEST} of at most {MOST_MANIFEST_BYTES:,} bytes")
        self._raw = b"".join(read_chunks(self._file, named[0]))
        try:
            manifest = Manifest.decode(self._raw)
            LogPosition.parse(manifest.position)
        except (ValueError, msgspec.MsgspecError, UnknownMoment) as error:
            self._found(MANIFEST, f"it cannot be read: {error}")
            return
        if manifest.format != FORMAT:
            self._found(MANIFEST, f"its format is {manifest.format!r:.40}, not {FORMAT}")
            return
        self._manifest = manifest

    def _check_contents(self, entries: Sequence[Entry], says: Manifest) -> None:
        records = [each for each in entries if each.name == RECORDS]
        if len(records) != 1:
            raise Malformed(f"it has not one {RECORDS}")
        tally = Tally(says.namespace, says.session_id, says.position)
        self._check_records(records[0], says, tally)
        stored = {
            each.name.removeprefix(ARTIFACTS): each
            for each in entries
            if each.name.startswith(ARTIFACTS)
        }
        for digest, entry in stored.items():
            self._check_artifact(digest, entry)
        gives = tally.manifest(stored)
        self._compare(says, gives)
        included = {each.sha256 for each in gives.artifacts if each.included}
        anchored = [each.name for each in entries if each.name in anchors.NAMES]
        expected = [RECORDS, *sorted(ARTIFACTS + each for each in included), MANIFEST]
        expected += dict.fromkeys(anchored)
        if [each.name for each in entries] != expected:
            odd = sorted({each.name for each in entries} ^ set(expected))
            words = f"not in place: {', '.join(odd[:3])!r}" if odd else "they are in another order"
            self._found("the file", f"its entries are not those of a bundle: {words}")

    # --- records ----------------------------------------------------------------------------------

    def _check_records(self, entry: Entry, says: Manifest, tally: Tally) -> None:
        reaches = [reach.whole for reach in LogPosition.parse(says.position).shards]
        before = chain_start(says.namespace, says.session_id, says.position)
        place = (-1, 0)
        for number, raw in enumerate(read_lines(self._file, entry, MOST_LINE_BYTES), 1):
            line = self._decode_line(f"record {number}", raw)
            if line is None:
                before = b""
                continue
            where = where_of(number, line)
            if (line.shard, line.seq) <= place:
                self._found(where, f"it comes after sequence {place[1]} of shard {place[0]}")
            place = (line.shard, line.seq)
            if not 0 <= line.shard < len(reaches) or line.seq > reaches[line.shard]:
                self._found(where, f"it is not before {says.position}, where the bundle ends")
            before = self._check_chain(where, line, before, number)
            self._check_record(where, line, tally)

    def _decode_line(self, where: str, raw: bytes) -> Line | None:
        try:
            line = _LINE.decode(raw)
            bytes.fromhex(line.leaf), bytes.fromhex(line.chain)
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            self._found(where, f"its line cannot be read: {error}")
            return None
        if line.encode() != raw:
            self._found(where_of(int(where.split()[1]), line), "its line is not in a bundle's form")
        return line

    def _check_chain(self, where: str, line: Line, before: bytes, number: int) -> bytes:
        """Compare with what the line itself says, so that one change is found once."""
        if before and link(before, bytes.fromhex(line.leaf)).hex() != line.chain:
            follows = (
                "the record before it" if number > 1 else "the manifest's session and position"
            )
            reason = f"it does not follow {follows}: removed, added, moved, or its hashes altered"
            self._found(where, reason)
        return bytes.fromhex(line.chain)

    def _check_record(self, where: str, line: Line, tally: Tally) -> None:
        record = line.record
        try:
            if tally.add(record).leaf != line.leaf:
                self._found(where, "what it holds is not what its hash was made of")
            tally.open(record)
        except LogCorrupt as error:
            self._found(where, f"it cannot be decoded: {error.reason}")
        except ValueError as error:
            self._found(where, str(error))

    # --- the rest ---------------------------------------------------------------------------------

    def _check_artifact(self, digest: str, entry: Entry) -> None:
        found = hashlib.sha256()
        for chunk in read_chunks(self._file, entry):
            found.update(chunk)
        if found.hexdigest() != digest:
            self._found(entry.name, "its bytes are not those of the artifact")

    def _compare(self, says: Manifest, gives: Manifest) -> None:
        for field in Manifest.__struct_fields__:
            said, given = getattr(says, field), getattr(gives, field)
            if said != given:
                reason = f"{field} is {_shown(said)}; the bundle's records give {_shown(given)}"
                self._found(MANIFEST, reason)
        if says.encode() != self._raw:
            self._found(MANIFEST, "it is not in a bundle's form")
        if says.clock_steps_back:
            self.notes.append(
                f"times are not in order: steps back of the log's clock: {says.clock_steps_back:,}"
            )
        if missing := [each for each in says.artifacts if not each.included]:
            words = "are not included: their bytes had been removed when it was made"
            self.notes.append(f"{len(missing):,} of its artifacts {words}")

    def _check_anchors(
        self, entries: Sequence[Entry], public_key: bytes | None, authorities: bytes | None
    ) -> None:
        signature = self._anchor(entries, anchors.SIGNATURE, public_key, "--key")
        if signature is not None and public_key is not None:
            try:
                anchors.check_signature(self._raw, signature, public_key)
                self.notes.append("signed with the key that was given")
            except anchors.BadAnchor as error:
                self._found(anchors.SIGNATURE, str(error))
        response = self._anchor(entries, anchors.TIMESTAMP, authorities, "--ca")
        if response is not None and authorities is not None:
            try:
                at = anchors.check_timestamp(self._raw, response, authorities)
                self.notes.append(f"an authority that was given saw it at {at.isoformat()}")
            except anchors.BadAnchor as error:
                self._found(anchors.TIMESTAMP, str(error))
        if not any(each.name in anchors.NAMES for each in entries):
            self.notes.append("not anchored: its author could have written another")

    def _anchor(
        self, entries: Sequence[Entry], name: str, wanted: bytes | None, option: str
    ) -> bytes | None:
        for each in entries:
            if each.name == name:
                if each.size > anchors.MOST_BYTES:
                    raise Malformed(f"{name} has over {anchors.MOST_BYTES:,} bytes")
                if wanted is None:
                    self.notes.append(f"{name} was not checked: {option} names what to trust")
                return b"".join(read_chunks(self._file, each))
        if wanted is not None:
            self._found(name, "there is none")
        return None


def lines_of(file: IO[bytes]) -> Iterator[Line]:
    """Yield the lines of a bundle that can be read, as `verify_bundle` sees them."""
    for entry in read_entries(file):
        if entry.name == RECORDS:
            for raw in read_lines(file, entry, MOST_LINE_BYTES):
                try:
                    yield _LINE.decode(raw)
                except (ValueError, RecursionError, msgspec.MsgspecError):
                    continue  # a finding already


def where_of(number: int, line: Line) -> str:
    """What a record of a bundle is called in a finding."""
    return f"record {number} (shard {line.shard}, sequence {line.seq})"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        included = sum(each.included for each in value)
        return f"{len(value):,} ({included:,} included)"
    return f"{value!r:.80}"


_LINE: Final = msgspec.json.Decoder(Line)

"""Proving one record of a bundle without showing the others."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from foldlog.bundles.chain import inclusion_path, leaf_hash, root_of_path
from foldlog.bundles.reading import lines_of
from foldlog.errors import PayloadError
from foldlog.store import LogRecord


class RecordProof(msgspec.Struct, frozen=True):
    """That a record is one of those under a Merkle root. msgspec writes and reads it as JSON.

    Attributes:
        record: the record.
        number: its number, from 1.
        records: how many records there are.
        path: the hashes beside its way to the root, in hexadecimal.
    """

    record: LogRecord
    number: int
    records: int
    path: list[str]


def prove_record(path: str | os.PathLike[str], number: int) -> RecordProof:
    """Return the proof of a bundle's record. Verify the bundle first.

    Args:
        path: the bundle.
        number: the record's number, from 1.

    Raises:
        PayloadError: the bundle has no such record.
        OSError, ValueError: the file cannot be read.
    """
    leaves, found = list[bytes](), None
    with Path(path).open("rb") as file:
        for line in lines_of(file):
            leaves.append(bytes.fromhex(line.leaf))
            found = line.record if len(leaves) == number else found
    if found is None:
        raise PayloadError("number", f"the bundle has {len(leaves):,} records, from 1")
    hashes = inclusion_path(leaves, number - 1)
    return RecordProof(found, number, len(leaves), [each.hex() for each in hashes])


def check_proof(proof: RecordProof, merkle_root: str) -> bool:
    """Return whether a proof's record is under a Merkle root.

    Args:
        proof: the proof.
        merkle_root: a root that you trust, in hexadecimal.
    """
    try:
        hashes = [bytes.fromhex(each) for each in proof.path]
        root = root_of_path(leaf_hash(proof.record), proof.number - 1, proof.records, hashes)
    except ValueError:
        return False
    return root is not None and root.hex() == merkle_root

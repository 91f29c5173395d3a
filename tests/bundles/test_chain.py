"""The hashes: that they take every part of a record, and that RFC 6962's tree is the one made."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import msgspec
import pytest

from foldlog import LogRecord, PayloadError
from foldlog.bundles import RecordProof, check_proof, prove_record
from foldlog.bundles.chain import MerkleTree, encode_record, inclusion_path, root_of_path
from tests.bundles.forging import made

LEAVES = [hashlib.sha256(bytes([n])).digest() for n in range(33)]


def root_by_definition(leaves: list[bytes]) -> bytes:
    """Section 2.1 of RFC 6962, of leaves that are hashes already."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    halves = root_by_definition(leaves[:split]) + root_by_definition(leaves[split:])
    return hashlib.sha256(b"\x01" + halves).digest()


def test_the_tree_is_that_of_the_rfc() -> None:
    tree = MerkleTree()
    for count, leaf in enumerate(LEAVES):
        assert tree.root == root_by_definition(LEAVES[:count])
        tree.add(leaf)


def test_a_path_leads_to_the_root_from_its_own_leaf_alone() -> None:
    for count in range(1, len(LEAVES)):
        leaves = LEAVES[:count]
        root = root_by_definition(leaves)
        for index, leaf in enumerate(leaves):
            path = inclusion_path(leaves, index)
            assert root_of_path(leaf, index, count, path) == root
            assert root_of_path(LEAVES[-1], index, count, path) != root
            assert root_of_path(leaf, index, count, [*path, leaf]) != root
            assert root_of_path(leaf, index, count, path[:-1]) != root or not path
            others = (n for n in range(-1, count + 1) if n != index)
            assert all(root_of_path(leaf, other, count, path) != root for other in others)


def test_no_two_records_have_the_same_bytes() -> None:
    ids = ("", "a", "ab", "b")
    keys = [(), *((one,) for one in ids), *itertools.product(ids, ids)]
    records = [
        LogRecord(shard, seq, time, kind, key, data)
        for shard, seq in ((0, 1), (1, 0), (1, 1))
        for time, kind in itertools.product(ids, ids)
        for key in keys
        for data in (b"", b"a")
    ]
    assert len({encode_record(each) for each in records}) == len(records)
    for shard, seq in ((-1, 1), (0, 2**64)):
        with pytest.raises(ValueError, match="out of range"):
            encode_record(LogRecord(shard, seq, "", "", (), b""))


def test_one_record_is_proven_without_the_others(tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    _, manifest = made(path)
    proofs = [prove_record(path, number) for number in range(1, manifest.records + 1)]
    for proof in proofs:
        again = msgspec.json.decode(msgspec.json.encode(proof), type=RecordProof)
        assert check_proof(again, manifest.merkle_root)
    first, second = proofs[:2]
    swapped = msgspec.structs.replace(first, record=second.record)
    odd = msgspec.structs.replace(first, path=["x"])
    assert not check_proof(swapped, manifest.merkle_root)
    assert not check_proof(odd, manifest.merkle_root)
    with pytest.raises(PayloadError, match="records, from 1"):
        prove_record(path, 0)

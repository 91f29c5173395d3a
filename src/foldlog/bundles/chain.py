"""Hashes over records: a chain that fixes their order, and a Merkle tree that proves one of them.

Pure. `docs/reference/bundle-format.md` has the format.
A record's *leaf* is the hash of all that it is; the chain
and the tree are both made of leaves, the tree as in RFC 6962.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from foldlog.store import LogRecord

_LEAF, _NODE = b"\x00", b"\x01"
_START: Final = b"foldlog-bundle-1 start"
_LINK: Final = b"foldlog-bundle-1 link"


def encode_record(record: LogRecord) -> bytes:
    """Encode a record so that no two records have the same bytes: each part after its length.

    Raises:
        ValueError: its shard or its sequence does not fit in 64 bits, or a text is no UTF-8.
    """
    texts = (record.time, record.kind, *record.keys)
    try:
        numbers = [n.to_bytes(8) for n in (record.shard, record.seq, len(record.keys))]
    except OverflowError as error:
        raise ValueError("its shard or its sequence is out of range") from error
    parts = [*numbers, *(text.encode() for text in texts), record.data]
    return _joined(parts)


def chain_start(namespace: str, session_id: str, position: str) -> bytes:
    """Return what the first record of a session's chain follows, as of a position."""
    parts = [part.encode() for part in (namespace, session_id, position)]
    return hashlib.sha256(_START + _joined(parts)).digest()


def leaf_hash(record: LogRecord) -> bytes:
    """Return the hash of all that a record is. Errors as `encode_record`."""
    return hashlib.sha256(_LEAF + encode_record(record)).digest()


def link(previous: bytes, leaf: bytes) -> bytes:
    """Return the chain's hash at a record, given that of the record before it."""
    return hashlib.sha256(_LINK + previous + leaf).digest()


class MerkleTree:
    """The root over leaves that come one by one. It holds one hash for each level of the tree."""

    def __init__(self) -> None:
        self._complete: list[tuple[int, bytes]] = []  # subtrees: leaves in each, and their root

    def add(self, leaf: bytes) -> None:
        """Take in the next leaf."""
        size, root = 1, leaf
        while self._complete and self._complete[-1][0] == size:
            root = _node(self._complete.pop()[1], root)
            size *= 2
        self._complete.append((size, root))

    @property
    def root(self) -> bytes:
        """The root over all leaves so far; of none it is the hash of nothing."""
        if not self._complete:
            return hashlib.sha256(b"").digest()
        root = self._complete[-1][1]
        for _, left in reversed(self._complete[:-1]):
            root = _node(left, root)
        return root


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over these leaves."""
    tree = MerkleTree()
    for leaf in leaves:
        tree.add(leaf)
    return tree.root


def inclusion_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the hashes that lead from the leaf at `index` to the root, the lowest first."""
    if len(leaves) < 2:
        return []
    split = 1 << (len(leaves) - 1).bit_length() - 1
    left, right = leaves[:split], leaves[split:]
    if index < split:
        return [*inclusion_path(left, index), merkle_root(right)]
    return [*inclusion_path(right, index - split), merkle_root(left)]


def root_of_path(leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root to which a path leads from the leaf at `index` of `count`; None if to none.

    A leaf is in the tree if this is the tree's root.
    """
    if not 0 <= index < count:
        return None
    root, last = leaf, count - 1
    for each in path:
        if last == 0:
            return None
        if index & 1 or index == last:
            root = _node(each, root)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            root = _node(root, each)
        index, last = index >> 1, last >> 1
    return root if last == 0 else None


def _joined(parts: Sequence[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8) + part for part in parts)


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()

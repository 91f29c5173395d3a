"""What a writer can forge alone, and what finds it: a signature, a time stamp, the log."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

import foldlog
from foldlog.bundles import (
    add_timestamp,
    request_timestamp,
    verify_bundle,
    verify_bundle_with_log,
    write_bundle,
)
from foldlog.bundles.anchors import SIGNATURE, TIMESTAMP
from tests.bundles.authority import Authority
from tests.bundles.forging import SESSION, Parts
from tests.bundles.test_planted import FIELDS, MIDDLE, swap_artifacts
from tests.exporting.history import write


def pem(key: Any) -> bytes:
    form, none = PrivateFormat.PKCS8, NoEncryption()
    return bytes(key.private_bytes(Encoding.PEM, form, none))


def public(key: Any) -> bytes:
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


KEY = Ed25519PrivateKey.generate()
OTHER = Ed25519PrivateKey.generate()


def append_copy(parts: Parts) -> None:
    parts.lines.append({**parts.lines[-1], "seq": parts.lines[-1]["seq"] + 1})
    shards = parts.manifest["position"].split(",")
    parts.manifest["position"] = f"{shards[0]},{parts.lines[-1]['seq']}"


FORGERIES: dict[str, Callable[[Parts], Any]] = {
    "re-dated": lambda p: FIELDS["re-dated-later"](p.lines[MIDDLE]),
    "renamed": lambda p: FIELDS["key"](p.lines[0]),
    "other-kind": lambda p: FIELDS["kind"](p.lines[0]),
    "removed-first": lambda p: p.lines.pop(0),
    "removed-middle": lambda p: p.lines.pop(MIDDLE),
    "removed-last": lambda p: p.lines.pop(),
    "added": append_copy,
    "other-session": lambda p: p.manifest.update(session_id="b"),
    "other-namespace": lambda p: p.manifest.update(namespace="b"),
}
"""With every hash made anew; the last writer of a file can always do this."""


class Made(NamedTuple):
    store: foldlog.Store
    path: Path
    data: bytes


@pytest.fixture
async def made(tmp_path: Path) -> Any:
    async with foldlog.memory_store(shards=2) as store:
        await write(store)
        path = tmp_path / "a.bundle.zip"
        await write_bundle(store, SESSION, path, private_key=pem(KEY))
        yield Made(store, path, path.read_bytes())


async def test_a_forger_is_found_by_the_signature_and_by_the_log_alone(made: Made) -> None:
    good = await verify_bundle_with_log(made.store, made.path, public_key=public(KEY))
    assert good.findings == ()
    assert "signed with the key that was given" in good.notes
    for name, change in FORGERIES.items():
        parts = Parts.of(made.data)
        change(parts)
        made.path.write_bytes(parts.recomputed())
        assert verify_bundle(made.path).is_good, name  # a chain proves nothing against its writer
        [found] = verify_bundle(made.path, public_key=public(KEY)).findings
        assert str(found) == "anchor/signature: it is not that key's over this manifest"
        assert not (await verify_bundle_with_log(made.store, made.path)).is_good, name


async def test_an_artifact_that_records_do_not_name_cannot_be_forged(made: Made) -> None:
    parts = Parts.of(made.data)
    swap_artifacts(parts)
    made.path.write_bytes(parts.recomputed())
    assert not verify_bundle(made.path).is_good


async def test_a_signature_is_wanted_where_a_key_is_given(made: Made, tmp_path: Path) -> None:
    [found] = verify_bundle(made.path, public_key=public(OTHER)).findings
    assert found.where == SIGNATURE
    assert "anchor/signature was not checked" in verify_bundle(made.path).notes[0]
    bare = tmp_path / "bare"
    await write_bundle(made.store, SESSION, bare)
    assert bare.stat().st_mode & 0o077 == 0
    assert "not anchored" in verify_bundle(bare).notes[0]
    [found] = verify_bundle(bare, public_key=public(KEY)).findings
    assert found.reason == "there is none"
    other = generate_private_key(SECP256R1())
    for key in (b"", b"-----BEGIN", public(other), pem(KEY)):
        with pytest.raises(foldlog.BundleRefused, match="the public key"):
            verify_bundle(made.path, public_key=key)
    for key in (b"", pem(other), public(KEY)):
        with pytest.raises(foldlog.BundleRefused, match="the private key"):
            await write_bundle(made.store, SESSION, tmp_path / "unsigned", private_key=key)
    assert os.listdir(tmp_path) in (["a.bundle.zip", "bare"], ["bare", "a.bundle.zip"])


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
async def test_a_time_stamp_is_added_and_checked(made: Made, tmp_path: Path) -> None:
    directories = tmp_path / "one", tmp_path / "two"
    for each in directories:
        each.mkdir()
    authority, stranger = map(Authority, directories)
    trusted = authority.root.read_bytes()
    answer = authority.answer(request_timestamp(made.path))
    bare = tmp_path / "bare"
    await write_bundle(made.store, "b", bare)
    with pytest.raises(foldlog.BundleRefused, match="a time stamp on something else"):
        add_timestamp(bare, answer)
    with pytest.raises(foldlog.BundleRefused, match="no answer of RFC 3161"):
        add_timestamp(made.path, b"nothing")
    with pytest.raises(foldlog.BundleRefused, match="it is of session 'a'"):
        add_timestamp(made.path, answer, session_id="b")
    assert made.path.read_bytes() == made.data

    add_timestamp(made.path, answer, session_id="a")
    stamped = made.path.read_bytes()
    good = verify_bundle(made.path, public_key=public(KEY), authorities=trusted)
    assert good.findings == ()
    assert any(note.startswith("an authority that was given saw it at 20") for note in good.notes)
    # Anybody can check it without foldlog.
    manifest = dict(Parts.of(stamped).entries)["manifest.json"]
    assert authority.accepts(manifest, answer)
    assert not authority.accepts(manifest + b" ", answer)
    with pytest.raises(foldlog.BundleRefused, match="has a time stamp already"):
        add_timestamp(made.path, answer)

    def findings(parts: Parts, authorities: bytes = trusted) -> list[str]:
        made.path.write_bytes(parts.built())
        return [each.where for each in verify_bundle(made.path, authorities=authorities).findings]

    assert findings(Parts.of(stamped)) == []
    assert findings(Parts.of(stamped), stranger.root.read_bytes()) == [TIMESTAMP]
    for change in FORGERIES.values():
        parts = Parts.of(stamped)
        change(parts)
        parts.recomputed()
        assert findings(parts) == [TIMESTAMP]
    others = Parts.of(stamped)
    others.anchors[TIMESTAMP] = stranger.answer(request_timestamp(made.path))
    assert findings(others) == [TIMESTAMP]
    for offset in range(0, len(answer), 7):
        flipped = bytearray(answer)
        flipped[offset] ^= 4
        others.anchors[TIMESTAMP] = bytes(flipped)
        found = findings(others)
        assert found in ([], [TIMESTAMP]), offset  # some bytes of an answer nobody signs
    del others.anchors[TIMESTAMP]
    assert findings(others) == [TIMESTAMP]
    made.path.write_bytes(stamped)
    with pytest.raises(foldlog.BundleRefused, match="certificates"):
        verify_bundle(made.path, authorities=b"")

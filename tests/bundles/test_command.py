"""`foldlog bundle` and `foldlog verify-bundle`, with keys that openssl made."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bundles.forging import Parts
from tests.cli.conftest import cli as cli, imported as imported
from tests.cli.support import Cli

SESSION = "bike-repair-0"

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def test_a_bundle_is_signed_and_verified(imported: Cli, tmp_path: Path) -> None:
    key, public, path = tmp_path / "key.pem", tmp_path / "public.pem", tmp_path / "run.zip"
    openssl("genpkey", "-algorithm", "ed25519", "-out", key)
    openssl("pkey", "-in", key, "-pubout", "-out", public)
    made = imported("bundle", SESSION, "-o", path, "--sign", key, "--json").document
    again = imported("bundle", SESSION, "-o", path)
    assert (again.code, again.stdout) == (1, "")
    assert "exists: name another file, or remove it" in again.stderr

    report = imported("verify-bundle", path, "--key", public, "--against-log", "--json")
    assert (report.code, report.document["findings"]) == (0, [])
    assert report.document["holds"]["sha256"] == made["sha256"]
    assert report.document["holds"]["header"]["session_id"] == SESSION

    # Anybody can check it without foldlog.
    parts = Parts.of(path.read_bytes())
    (tmp_path / "manifest").write_bytes(parts.lines[-1])
    (tmp_path / "signature").write_bytes(parts.signature)
    signed = ("-rawin", "-in", tmp_path / "manifest", "-sigfile", tmp_path / "signature")
    openssl("pkeyutl", "-verify", "-pubin", "-inkey", public, *signed)

    wrong = imported("verify-bundle", path, "--key", path)
    assert wrong.code == 1
    assert "the public key" in wrong.stderr
    path.write_bytes(path.read_bytes()[:-1])
    cut = imported("verify-bundle", path, "--key", public)
    assert cut.code == 1
    assert cut.stdout.startswith("the file: it was cut or altered")
    assert imported("verify-bundle", path, "--json").document["findings"][0]["where"] == "the file"


def test_a_bundle_as_of_a_moment(imported: Cli, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    count = imported("bundle", SESSION, "-o", whole, "--json").document["records"]
    early = imported("bundle", SESSION, "-o", part, "--at", "@12", "--json").document
    assert early["until"].startswith("@12")
    assert 0 < early["records"] < count
    assert imported("verify-bundle", part, "--against-log").code == 0
    empty = imported("bundle", "nobody", "-o", tmp_path / "none")
    assert (empty.code, empty.stdout) == (1, "")
    assert "no session 'nobody'" in empty.stderr

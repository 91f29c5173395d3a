"""`foldlog bundle` and `foldlog verify-bundle`, with keys and an authority that openssl made."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bundles.authority import Authority
from tests.cli.conftest import cli as cli, imported as imported
from tests.cli.support import Cli

SESSION = "bike-repair-0"

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def test_a_bundle_is_signed_stamped_and_verified(imported: Cli, tmp_path: Path) -> None:
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    openssl("genpkey", "-algorithm", "ed25519", "-out", key)
    openssl("pkey", "-in", key, "-pubout", "-out", public)
    authority = Authority(tmp_path)
    path, request, answer = (tmp_path / name for name in ("run.zip", "run.tsq", "run.tsr"))

    asking = ("--sign", key, "--request-timestamp", request)
    made = imported("bundle", SESSION, "-o", path, *asking, "--json").document
    assert made["manifest"]["session_id"] == SESSION
    answer.write_bytes(authority.answer(request.read_bytes()))
    other = imported("bundle", "other", "-o", path, "--timestamp", answer)
    assert (other.code, other.stderr) == (1, f"foldlog: {path}: it is of session {SESSION!r}\n")
    assert imported("bundle", SESSION, "-o", path, "--timestamp", answer).code == 0

    trusting = ("--key", public, "--ca", authority.root)
    report = imported("verify-bundle", path, *trusting, "--against-log", "--json")
    assert report.code == 0
    assert report.document["findings"] == []
    assert report.document["digest"] == made["digest"]
    assert [note.split(" ")[0] for note in report.document["notes"]] == ["signed", "an"]

    wrong = imported("verify-bundle", path, "--key", public, "--ca", public)
    assert wrong.code == 1
    assert "certificates" in wrong.stderr
    path.write_bytes(path.read_bytes()[:-1])
    cut = imported("verify-bundle", path, *trusting)
    assert cut.code == 1
    assert cut.stdout.startswith("the file: is cut off")
    assert imported("verify-bundle", path, "--json").document["findings"][0]["where"] == "the file"


def test_a_bundle_as_of_a_moment(imported: Cli, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    count = imported("bundle", SESSION, "-o", whole, "--json").document["manifest"]["records"]
    at = ("--at", "@12")
    early = imported("bundle", SESSION, "-o", part, *at, "--json").document["manifest"]
    assert early["position"].startswith("@12")
    assert 0 < early["records"] < count
    assert imported("verify-bundle", part, "--against-log").code == 0
    empty = imported("bundle", "nobody", "-o", tmp_path / "none")
    assert (empty.code, empty.stdout) == (1, "")
    assert "no session 'nobody'" in empty.stderr
    mixed = imported("bundle", SESSION, "-o", whole, *at, "--timestamp", whole)
    assert mixed.code == 2

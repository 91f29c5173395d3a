"""A time stamp authority of RFC 3161, for tests: certificates, and openssl's answers."""

from __future__ import annotations

import subprocess
from pathlib import Path

_CONFIGURATION = """
[tsa]
default_tsa = here
[here]
serial = {directory}/serial
crypto_device = builtin
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:1
ess_cert_id_chain = no
"""
_EXTENSIONS = """
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
"""


class Authority:
    """An authority with a root certificate of its own, in `root`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.root = directory / "root.pem"
        directory.joinpath("tsa.cnf").write_text(_CONFIGURATION.format(directory=directory))
        directory.joinpath("tsa.ext").write_text(_EXTENSIONS)
        directory.joinpath("serial").write_text("01\n")
        ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        about = ("-x509", "-days", "30", "-subj", f"/CN=root {directory.name}")
        self._run("req", *ec, *about, "-keyout", "root.key", "-out", "root.pem")
        self._run("req", *ec, "-subj", "/CN=tsa", "-keyout", "tsa.key", "-out", "tsa.csr")
        signing = ("-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial", "-days", "30")
        self._run(
            "x509", "-req", "-in", "tsa.csr", *signing, "-extfile", "tsa.ext", "-out", "tsa.pem"
        )

    def answer(self, request: bytes) -> bytes:
        """The answer to a request."""
        self._directory.joinpath("q").write_bytes(request)
        signing = ("-signer", "tsa.pem", "-inkey", "tsa.key")
        config = ("-config", "tsa.cnf", "-section", "here")
        self._run("ts", "-reply", "-queryfile", "q", *config, *signing, "-out", "a")
        return self._directory.joinpath("a").read_bytes()

    def accepts(self, manifest: bytes, answer: bytes) -> bool:
        """Whether openssl verifies an answer for a manifest."""
        self._directory.joinpath("m").write_bytes(manifest)
        self._directory.joinpath("a").write_bytes(answer)
        command = ["openssl", "ts", "-verify", "-data", "m", "-in", "a", "-CAfile", "root.pem"]
        return subprocess.run(command, cwd=self._directory, capture_output=True).returncode == 0

    def _run(self, *arguments: str) -> None:
        command = ["openssl", *arguments]
        subprocess.run(command, cwd=self._directory, check=True, capture_output=True)

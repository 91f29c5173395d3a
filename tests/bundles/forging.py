"""Taking bundles apart, and putting them together again as a forger would."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from foldlog.bundles.container import SIGNATURE, member, open_zip
from foldlog.exporting.lines import Places
from foldlog.exporting.reading import MEMBER

SESSION = "a"


def pem(key: Any) -> bytes:
    form, none = PrivateFormat.PKCS8, NoEncryption()
    return bytes(key.private_bytes(Encoding.PEM, form, none))


def public(key: Any) -> bytes:
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


KEY = Ed25519PrivateKey.generate()


@dataclass
class Parts:
    """A bundle in parts, read by a reader that is not foldlog's."""

    lines: list[bytes]
    signature: bytes

    @classmethod
    def of(cls, data: bytes) -> Parts:
        """Take a bundle apart."""
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            held = {name: file.read(name) for name in file.namelist()}
        return cls(held[MEMBER].splitlines(keepends=True), held.get(SIGNATURE, b""))

    @property
    def members(self) -> dict[str, bytes]:
        """What the file holds."""
        return {MEMBER: b"".join(self.lines), SIGNATURE: self.signature}

    def built(self) -> bytes:
        """The file of these parts, in a bundle's form whatever they say."""
        return built(self.members)

    def alter(self, number: int, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change what a line says, and nothing else of it."""
        line = json.loads(self.lines[number])
        change(line)
        self.lines[number] = encoded(line)

    def recomputed(self) -> bytes:
        """The file of these parts with every hash and count made anew: what a writer can do."""
        places, end = Places(), json.loads(self.lines[-1])
        lines = list[bytes]()
        for number, line in enumerate(self.lines[:-1]):
            says = json.loads(line)
            says.pop("line", None), says.pop("before", None)
            if number:
                lines.append(places.placed(encoded(says)))
            else:
                lines.append(encoded(says))
                places.add(lines[0])
        blobs = sum(line.startswith(b'{"blob"') for line in lines)
        end |= {"records": len(lines) - 1 - blobs, "blobs": blobs, "sha256": places.sha256}
        self.lines = [*lines, encoded(end)]
        return self.built()


def encoded(line: dict[str, Any]) -> bytes:
    """A line as foldlog writes it."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def built(members: dict[str, bytes]) -> bytes:
    """A file in a bundle's form."""
    file = io.BytesIO()
    with open_zip(file.write) as bundle:
        for name, data in members.items():
            with bundle.open(member(name), "w") as to:
                to.write(data)
    return file.getvalue()

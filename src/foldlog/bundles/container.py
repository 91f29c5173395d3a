"""The file of a bundle: a ZIP of an export and its signature, each of whose bytes is determined."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, cast

from foldlog.exporting.reading import MEMBER, read_errors

SIGNATURE: Final = "signature"

Write = Callable[[bytes], int]


class _Sink:
    """All that `zipfile` needs to write a file in one go."""

    def __init__(self, write: Write) -> None:
        self.write = write

    def flush(self) -> None:
        """Nothing is kept back."""


def open_zip(write: Write) -> zipfile.ZipFile:
    """Return a ZIP under way."""
    return zipfile.ZipFile(cast(IO[bytes], _Sink(write)), "w")


def member(name: str) -> zipfile.ZipInfo:
    """Return what a ZIP says of a member: the same for every bundle."""
    found = zipfile.ZipInfo(name)
    found.external_attr = 0o600 << 16
    return found


def read_form(path: Path) -> tuple[bytes | None, str | None]:
    """Return a bundle's signature, and what is wrong with the form of its file.

    Each byte has to be what foldlog would write of its members: so nothing stands between them,
    before or behind them that another reader would show.

    Raises:
        ImportFailed: it is no bundle, or cannot be read.
    """
    with read_errors(path), path.open("rb") as file, zipfile.ZipFile(file) as bundle:
        names = bundle.namelist()
        if any(each.compress_type for each in bundle.infolist()):
            raise zipfile.BadZipFile("it is compressed")  # and how large inside?
        signature = bundle.read(SIGNATURE) if SIGNATURE in names else None
        if names != [MEMBER, SIGNATURE][: len(names)] or not names:
            return signature, f"its members are not those of a bundle: {', '.join(names):.80}"
        is_exact, at = True, 0

        def compare(data: bytes) -> int:
            nonlocal is_exact, at
            file.seek(at)
            at += len(data)
            is_exact = is_exact and file.read(len(data)) == data
            return len(data)

        with open_zip(compare) as again:
            for name in names:
                with bundle.open(name) as old, again.open(member(name), "w") as new:
                    shutil.copyfileobj(old, new)
        file.seek(at)
        is_exact = is_exact and not file.read(1)
        return signature, None if is_exact else "it is not as foldlog writes it around its members"

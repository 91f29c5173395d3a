"""`-` on the command line: standard input, or standard output."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

DASH: Final = Path("-")


@contextmanager
def readable(file: Path) -> Iterator[Path]:
    """The file itself; of `-` a copy of standard input, which can be read more than once."""
    if file != DASH:
        yield file
        return
    with tempfile.NamedTemporaryFile(prefix="standard-input-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)

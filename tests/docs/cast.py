"""Record `foldlog demo` as a moving picture for the README: `python -m tests.docs.cast`.

The demo runs in a terminal of its own; each line appears in the picture when it appeared there.
"""

from __future__ import annotations

import os
import pty
import re
import sys
import time
from io import StringIO

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.text import Text

from tests.docs.markdown import ROOT

PICTURE = ROOT / "docs/images/demo.svg"
COLUMNS = 118
NAME = "demo"
SLOWER = 8
"""The demo takes about a second; nobody reads that fast."""
_FONTS = re.compile(r"@font-face \{\{.*?\n    \}\}\n", re.DOTALL)
_LINE = re.compile(rf'clip-path="url\(#{NAME}-line-(\d+)\)"')


def record() -> tuple[list[str], list[float]]:
    """Run the demo; return the lines that it showed, and their seconds after the first."""
    lines, moments, rest, began = [], [], "", time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
        os.execv(sys.executable, [sys.executable, "-m", "foldlog", "demo"])
    while shown := _read(terminal):
        *whole, rest = (rest + shown.decode("utf-8", "replace")).split("\r\n")
        lines += whole
        moments += [time.monotonic() - began] * len(whole)
    _, status = os.waitpid(child, 0)
    assert status == 0, rest
    return lines, [moment - moments[0] for moment in moments]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the terminal is closed: the demo has ended
        return b""


def picture(lines: list[str], moments: list[float]) -> str:
    """Draw the lines, each of which appears at its moment. Nothing is loaded from elsewhere."""
    console = Console(width=COLUMNS, record=True, file=StringIO(), force_terminal=True)
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, crop=True)
    template = _FONTS.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code, ", "")
    template = template.replace("{styles}", "{styles}\n    " + _appearing(moments))
    drawn = console.export_svg(title="foldlog demo", code_format=template, unique_id=NAME)
    drawn = _LINE.sub(r'\g<0> data-line="\1"', drawn)
    return "".join(f"{line.rstrip()}\n" for line in drawn.splitlines())


def _appearing(moments: list[float]) -> str:
    rules = [
        f'[data-line="{number}"] {{{{ animation-delay: {moment * SLOWER:.1f}s }}}}'
        for number, moment in enumerate(moments)
    ]
    return "\n    ".join(
        [
            "@keyframes appear {{ from {{ opacity: 0 }} }}",
            "@media (prefers-reduced-motion: no-preference) {{",
            "[data-line] {{ animation: appear 0.2s both }}",
            *rules,
            "}}",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(*record()), "utf-8")

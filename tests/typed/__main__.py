"""How much of the public names has a type, and what a program outside sees of the types.

    python -m tests.typed [ENVIRONMENT]

pyright looks for the libraries in ENVIRONMENT, a directory that `python -m venv` made; by default
in this program's own. That has no frameworks: what an adapter inherits does not count there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCES = [str(HERE.parents[1] / name) for name in ("src", "projections")]
UNKNOWN = ("Type of base class", "Type of metaclass unknown")


def main() -> int:
    """Print what lacks a type; return the exit code."""
    environment = Path(sys.argv[1] if len(sys.argv) > 1 else sys.prefix).resolve()
    found = completeness(environment)
    lacking = [each for each in found["symbols"] if each["isExported"] and lacks_type(each)]
    is_own = environment == Path(sys.prefix).resolve()
    excused = [each for each in lacking if is_adapters(each)] if is_own else []
    for each in lacking:
        if each not in excused:
            print(each["name"], *(problem["message"] for problem in each["diagnostics"]))
    counts = found["exportedSymbolCounts"]
    total, known = sum(counts.values()), counts["withKnownType"]
    print(
        f"{known} of {total} public names have a type; "
        f"{len(excused)} take theirs from a framework that is not installed"
    )
    return int(known + len(excused) < total) or outside()


def completeness(environment: Path) -> Any:
    """What `pyright --verifytypes` reports."""
    ran = subprocess.run(
        ["pyright", "--verifytypes", "foldlog", "--ignoreexternal", "--outputjson"],
        env={
            **os.environ,
            "VIRTUAL_ENV": str(environment),
            "PATH": os.pathsep.join(
                [str(environment / "bin"), str(Path(sys.prefix) / "bin"), os.environ["PATH"]]
            ),
            "PYTHONPATH": os.pathsep.join(SOURCES),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if not ran.stdout.startswith("{"):
        sys.exit(ran.stdout + ran.stderr)
    return json.loads(ran.stdout)["typeCompleteness"]


def lacks_type(symbol: Any) -> bool:
    """Whether a name has no type, or one that type checkers infer differently."""
    return symbol["isTypeAmbiguous"] or not symbol["isTypeKnown"]


def is_adapters(symbol: Any) -> bool:
    """Whether a name lacks its type for what an adapter inherits."""
    return symbol["name"].startswith("foldlog.integrations.") and all(
        problem["message"].startswith((*UNKNOWN, "Return type is partially unknown"))
        for problem in symbol["diagnostics"]
    )


def outside() -> int:
    """Check a program that is no part of the project, from another directory."""
    codes = []
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "consumer.py"
        program.write_bytes((HERE / "consumer.py").read_bytes())
        pyright = ["pyright", "--pythonpath", sys.executable]
        for checker in (["mypy", "--strict", "--no-incremental"], pyright):
            command = [sys.executable, "-m", *checker, program.name]
            codes.append(subprocess.run(command, cwd=directory, check=False).returncode)
    return max(codes)


if __name__ == "__main__":
    raise SystemExit(main())

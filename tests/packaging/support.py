"""Pythons of this machine, empty environments of them, and what is built and pinned."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from tests.docs.markdown import ROOT

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Those that the project supports."""

INSTALL_SECONDS = 300.0
"""How long pip may take."""

PROJECT: dict[str, Any] = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))


class Distributions(NamedTuple):
    """What a release consists of."""

    wheel: Path
    sdist: Path


class Outside:
    """An environment outside the checkout: no variables, an empty folder, nothing but pip."""

    def __init__(self, interpreter: Path, folder: Path) -> None:
        self.folder = folder / "empty"
        self.folder.mkdir()
        self._bin = folder / "venv" / "bin"
        self._run([interpreter, "-m", "venv", folder / "venv"])

    def install(self, requirement: str, constraints: Path, *options: str) -> str:
        """Install with pip, of which the machine's own configuration says whence."""
        variables = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        pip = ("pip", "--disable-pip-version-check", "--no-input", "install", *options)
        command = [self._bin / "python", "-m", *pip, "--constraint", constraints, requirement]
        return self._run(command, **variables)

    def run(self, program: str, *arguments: str | Path) -> str:
        """Run an installed program; returns what it prints."""
        return self._run([self._bin / program, *arguments])

    def _run(self, command: list[str | Path], **variables: str) -> str:
        ran = subprocess.run(
            command,
            cwd=self.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout


def interpreter(version: str) -> Path | None:
    """A Python of that version that can make environments: pyenv's, else the one on the PATH."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [*pyenv.glob(f"versions/{version}.*/bin/python{version}")]
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        found.append(Path(on_path))
    return next((python for python in found if _makes_environments(python)), None)


def _makes_environments(python: Path) -> bool:
    """A shim of a Python that is not there, and Debian's without python3-venv, are of no use."""
    return not subprocess.run([python, "-c", "import ensurepip"], capture_output=True).returncode


def without_hashes(constraints: str, folder: Path) -> Path:
    """A constraints file for pip, which would ask for the hash of our own wheel, too."""
    lines = ROOT.joinpath(constraints).read_text("utf-8").splitlines()
    pinned = [line.removesuffix(" \\") for line in lines if re.match(r"[a-z0-9]", line)]
    file = folder / constraints
    file.write_text("\n".join(pinned), "utf-8")
    return file

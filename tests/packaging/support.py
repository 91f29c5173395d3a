"""Pythons of this machine, empty environments of them, and what is built and pinned."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.docs.markdown import ROOT
from tests.support.containers import docker_reason

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Those that the project supports."""

COMMAND_SECONDS = 300.0
"""How long a command may take, pip's among them."""

PROJECT: dict[str, Any] = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))


class Distributions(NamedTuple):
    """What a release consists of."""

    wheel: Path
    sdist: Path


class Outside:
    """An environment outside the checkout: no variables, an empty folder, nothing but pip.

    Args:
        python: makes the environment.
        folder: where it is made, unless there is a container.
        container: a running one, in which all of it happens.
    """

    def __init__(self, python: str | Path, folder: Path, container: str | None = None) -> None:
        self._container = container
        self._folder = folder / "empty" if container is None else Path("/srv")  # empty in Debian
        if container is None:
            self._folder.mkdir()
        self._bin = self._folder.parent / "venv" / "bin"
        self._run([python, "-m", "venv", self._bin.parent])

    def install(self, requirement: str, constraints: Path, *options: str) -> str:
        """Install with pip; where packages come from is the machine's own configuration."""
        variables = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        pip = ("pip", "--disable-pip-version-check", "--no-input", "install", *options)
        command = [self._bin / "python", "-m", *pip, "--constraint", constraints, requirement]
        return self._run(command, **variables)

    def run(self, program: str, *arguments: str | Path) -> str:
        """Run an installed program; returns what it prints."""
        return self._run([self._bin / program, *arguments])

    def _run(self, command: list[str | Path], **variables: str) -> str:
        if self._container is not None:
            given = (f"--env={name}={value}" for name, value in variables.items())
            inside = ("docker", "exec", f"--workdir={self._folder}", *given, self._container)
            return ran([*inside, *command])
        return ran(command, self._folder, variables)


def ran(
    command: Sequence[str | Path], folder: Path = ROOT, variables: Mapping[str, str] = os.environ
) -> str:
    """Run a command that has to succeed; returns what it prints."""
    ran = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@contextmanager
def environment(version: str, folder: Path) -> Iterator[Outside]:
    """An empty environment: in a container of nothing but Python where Docker has one, else here.

    Skips the test where neither is to be had.
    """
    if docker_image(version):
        with container(f"python:{version}-slim", folder, "sleep", "infinity") as name:
            yield Outside("python", folder, name)
        return
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here, and no image of it can be had")
    yield Outside(python, folder)


@contextmanager
def container(image: str, folder: Path, *arguments: str) -> Iterator[str]:
    """A container that runs; it sees `folder` and the checkout. Removed at the end."""
    shared = [f"--volume={path}:{path}:ro" for path in (folder, ROOT)]
    started = ("docker", "run", "--detach", "--network=host", *shared, image, *arguments)
    name = ran(started).strip()
    try:
        yield name
    finally:
        ran(("docker", "rm", "--force", "--volumes", name))


@cache
def docker_image(version: str) -> bool:
    """Whether Docker has the image of a Python, or can have it."""
    if docker_reason() is not None or shutil.which("docker") is None:
        return False
    image = f"python:{version}-slim"
    asks = (("image", "inspect", image), ("pull", "--quiet", image))
    return any(
        not subprocess.run(
            ["docker", *ask], capture_output=True, timeout=COMMAND_SECONDS
        ).returncode
        for ask in asks
    )


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

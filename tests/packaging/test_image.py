"""The image of deploy/Dockerfile: confined to its volume, it serves, and what it saves stays."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from tests.docs.markdown import ROOT
from tests.packaging.support import Distributions, docker_image, ran

pytestmark = pytest.mark.long

DEPLOY = ROOT / "deploy"
IMAGE = "foldlog:test"
PYTHON = "3.14"
CONFINED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none")
SAVE = """
import asyncio, os, foldlog

async def main():
    async with foldlog.connect() as store:
        await store.save_memory_state("key", {"user": os.getuid()})

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def image(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> str:
    if not docker_image(PYTHON):
        pytest.skip(f"Docker has no image of Python {PYTHON}")
    context = tmp_path_factory.mktemp("context")
    for source in (distributions.wheel, DEPLOY / "requirements.txt"):
        folder = context / ("deploy" if source.suffix == ".txt" else "build/dist")
        folder.mkdir(parents=True)
        shutil.copy(source, folder)
    build = ("docker", "build", "--quiet", "--network=host", f"--tag={IMAGE}")
    ran([*build, f"--file={DEPLOY / 'Dockerfile'}", context])
    return IMAGE


@pytest.fixture
def volume() -> Iterator[str]:
    name = ran(["docker", "volume", "create"]).strip()
    yield name
    ran(["docker", "volume", "rm", "--force", name])


def test_what_is_saved_outlives_the_container(image: str, volume: str) -> None:
    run = ("docker", "run", *CONFINED, f"--volume={volume}:/data")
    ran([*run, "--rm", "--entrypoint=python", image, "-c", SAVE])

    serving = ran([*run, "--detach", image]).strip()
    try:
        health = json.loads(ran(["docker", "inspect", serving]))[0]["Config"]["Healthcheck"]
        assert json.loads(ran(["docker", "exec", serving, *health["Test"][1:]]))["healthy"]
        exported = ran(["docker", "exec", serving, "foldlog", "export", "-"])
        assert '"user":10001' in exported
        ran(["docker", "stop", serving])
        assert json.loads(ran(["docker", "inspect", serving]))[0]["State"]["ExitCode"] == 0
    finally:
        ran(["docker", "rm", "--force", serving])


def test_it_has_what_its_commands_need_and_no_installer(image: str) -> None:
    needed = "import duckdb, nkeys, obstore, opentelemetry.proto, pyarrow, starlette, uvicorn"
    look = f"{needed}; from importlib.util import find_spec; assert find_spec('pip') is None"
    ran(["docker", "run", "--rm", *CONFINED, "--entrypoint=python", image, "-c", look])

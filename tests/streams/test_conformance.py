"""The protocol's own suite, from npm, on the embedded server and on three nodes."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import foldlog
from tests.streams.conftest import Serving
from tests.support.cluster import LocalCluster

SUITE = "@durable-streams/server-conformance-tests@0.3.6"
SECONDS = 600.0
TESTS = """
import { runConformanceTests } from "@durable-streams/server-conformance-tests"
runConformanceTests({ baseUrl: process.env.CONFORMANCE_TEST_URL })
"""
# The suite's own command finds no tests where npm has put it, so that they are run by its function.
COMMAND = ("npx", "vitest", "run", "--testTimeout=30000", "suite.test.mjs")
PASSED = re.compile(r"Tests\s+(\d+) passed")

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the suite is installed."""
    if shutil.which("npm") is None or shutil.which("npx") is None:
        pytest.skip("there is no npm here")
    path = tmp_path_factory.mktemp("suite")
    (path / "package.json").write_text('{"private": true}')
    (path / "suite.test.mjs").write_text(TESTS)
    options = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
    code, said = asyncio.run(_run(("npm", "install", *options, SUITE), path))
    if code:
        pytest.skip(f"npm could not install {SUITE}: {said[-300:]}")
    return path


async def test_the_suite_passes_on_the_embedded_server(
    suite: Path, tmp_path: Path, serving: Serving
) -> None:
    async with foldlog.connect(path=tmp_path) as store, serving(store, poll_seconds=1) as url:
        await _all_pass(suite, url)


async def test_the_suite_passes_on_three_nodes(suite: Path, serving: Serving) -> None:
    async with LocalCluster() as cluster:
        connected = foldlog.connect(",".join(cluster.urls), replicas=3, timeout=30)
        async with connected as store, serving(store, poll_seconds=1) as url:
            await _all_pass(suite, url)


async def _all_pass(suite: Path, url: str) -> None:
    code, said = await _run(COMMAND, suite, CONFORMANCE_TEST_URL=url)
    found = PASSED.search(said)
    assert code == 0, said[-8000:]
    assert found is not None
    assert int(found[1]) >= 318, said[-2000:]


async def _run(command: Sequence[str], path: Path, **environment: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=path,
        env=os.environ | {"NO_COLOR": "1", "CI": "true"} | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SECONDS):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, said.decode(errors="replace")

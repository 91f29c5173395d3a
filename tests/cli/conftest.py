"""Commands on the test run's embedded server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from foldlog.importer import demo_transcript
from tests.cli.support import Cli
from tests.support.stores import fresh_namespace


@pytest.fixture
def cli(embedded_path: Path) -> Cli:
    """Commands on a namespace that no other test uses."""
    return Cli(embedded_path, fresh_namespace())


@pytest.fixture(scope="session")
def imported(embedded_path: Path) -> Cli:
    """Commands on a namespace that holds the bundled transcript, and events of it. For reading."""
    imported = Cli(embedded_path, fresh_namespace())
    assert imported("import", demo_transcript()).code == 0
    asyncio.run(imported.record_events())
    return imported

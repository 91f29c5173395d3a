"""The kit as a third party meets it: under pytest, in strict mode, with their own fixtures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from foldlog import testing
from tests.testing.running import CONTRACTS, checks_of

ROOT = Path(__file__).parents[2]
STRICT = """
[pytest]
asyncio_mode = strict
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
ALL = (*CONTRACTS, testing.RetentionContract)


def run_pytest(tmp_path: Path, module: Path | str, *arguments: str) -> str:
    """What pytest prints for a module, with a configuration that is not this project's."""
    settings = tmp_path / "strict.ini"
    settings.write_text(STRICT)
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", settings, "-p", "no:cacheprovider"),
            *("--confcutdir", Path(module).parent, "-rs", "-q", module, *arguments),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ran.stdout + ran.stderr


def test_a_correct_store_passes_in_strict_mode(tmp_path: Path) -> None:
    printed = run_pytest(tmp_path, ROOT / "tests/testing/kit_on_plain_store.py")
    tests = sum(len(checks_of(contract)) for contract in CONTRACTS)
    assert f"{tests - 2} passed, 2 skipped" in printed
    assert printed.count("no fixture `advance_clock`: nothing was checked about expiry") == 2


MINIMAL = """
import pytest
from foldlog import testing

class Store:
    def __init__(self):
        self.events = {}
    async def save_event(self, event):
        held = self.events.setdefault(event.trace_id, [])
        if event not in held:
            held.append(event)
    async def load_history(self, trace_id):
        return sorted(self.events.get(trace_id, []), key=lambda event: event.ts)
    async def save_remote_binding(self, binding):
        pass

@pytest.fixture
def store():
    return Store()

class TestMine(testing.StateStoreContract):
    test_an_event_without_a_trace_is_kept = None  # we have no global events
"""


def test_a_store_without_persistence_is_told_what_was_not_checked(tmp_path: Path) -> None:
    module = tmp_path / "test_mine.py"
    module.write_text(MINIMAL)
    printed = run_pytest(tmp_path, module, "--tb=line", "-rfs")
    assert "no fixture `reopen`: nothing was checked about a restart" in printed
    assert "test_an_event_without_a_trace_is_kept" not in printed
    failed = set(re.findall(r"FAILED .*::(test_\w+)", printed))
    # It keeps the caller's own objects, and dict equality takes 1, 1.0 and True for one payload.
    assert failed == {
        "test_events_that_differ_in_any_field_are_different",
        "test_what_was_saved_may_be_changed_afterwards",
        "test_what_was_loaded_may_be_changed",
    }


def test_a_known_deviation_is_expected_until_it_is_gone(tmp_path: Path) -> None:
    deviations = {
        "test_what_was_loaded_may_be_changed": "it is the caller's own",
        "test_traces_do_not_see_each_other": "long mended",
    }
    module = tmp_path / "test_mine.py"
    module.write_text(MINIMAL + f"    deviations = {deviations}\n")
    printed = run_pytest(tmp_path, module, "--tb=line", "-rfx")
    assert "::test_what_was_loaded_may_be_changed - it is the caller's own" in printed
    failed = set(re.findall(r"FAILED .*::(test_\w+)", printed))
    assert failed == {
        "test_events_that_differ_in_any_field_are_different",
        "test_what_was_saved_may_be_changed_afterwards",
        "test_traces_do_not_see_each_other",
    }


BROKEN_REOPEN = """
import pytest
from foldlog import testing

@pytest.fixture
def store():
    return object()

@pytest.fixture
def reopen(a_fixture_that_is_missing):
    return None

class TestMine(testing.MemoryStateContract):
    pass
"""


def test_a_fixture_that_is_broken_is_no_fixture_that_is_missing(tmp_path: Path) -> None:
    module = tmp_path / "test_mine.py"
    module.write_text(BROKEN_REOPEN)
    printed = run_pytest(tmp_path, module, "-k", "restart")
    assert "1 error" in printed
    assert "a_fixture_that_is_missing" in printed


@pytest.mark.parametrize("contract", ALL, ids=lambda contract: contract.__name__)
def test_every_test_says_what_it_rests_on(contract: type[testing.Contract]) -> None:
    said = re.compile(r"(MUST|SHOULD|MAY|Beyond)\b")
    silent = [t for t in checks_of(contract) if not said.match(getattr(contract, t).__doc__ or "")]
    assert silent == []


def test_all_of_it_is_public() -> None:
    contracts = {name for name in testing.__all__ if name.endswith("Contract")}
    assert contracts == {c.__name__ for c in ALL} | {"Contract", "CursorContract"}


def test_using_foldlog_does_not_need_pytest() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "import foldlog, foldlog.compat, foldlog.schemas; foldlog.memory_store()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

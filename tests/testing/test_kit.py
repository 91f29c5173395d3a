"""The kit as a third party meets it: under pytest, in strict mode, with their own fixtures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from foldlog import testing
from tests.support.fresh import fresh_python
from tests.testing.running import CHECKS, CONTRACTS, names_of

ROOT = Path(__file__).parents[2]
STRICT = """
[pytest]
asyncio_mode = strict
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


def run_pytest(tmp_path: Path, module: Path | str, *arguments: str) -> str:
    """What pytest prints for a module, with a configuration that is not this project's."""
    settings = tmp_path / "strict.ini"
    settings.write_text(STRICT)
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", settings),
            *("-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider"),
            *("--confcutdir", Path(module).parent, "-rs", "-q", module, *arguments),
        ],
        cwd=ROOT,
        # The one plugin that the kit asks for; others only cost time.
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ran.stdout + ran.stderr


def test_a_correct_store_passes_in_strict_mode(tmp_path: Path) -> None:
    printed = run_pytest(tmp_path, ROOT / "tests/testing/kit_on_plain_store.py")
    assert f"{len(CHECKS) - 2} passed, 2 skipped" in printed
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


EVENTUAL = """
import pytest
from foldlog import testing
from tests.testing.copying import fingerprint
from tests.testing.plain_store import Data, PlainStore

class Store(PlainStore):
    '''Sees what others saved when it has settled.'''
    def __init__(self, data):
        super().__init__(data)
        self.mine = set()
    async def save_runtime_event(self, event):
        self.mine.add(fingerprint(event))
        await super().save_runtime_event(event)
    async def load_history(self, trace_id):
        history = await super().load_history(trace_id)
        return [each for each in history if fingerprint(each) in self.mine | self.data.taken]

@pytest.fixture
def data():
    return Data()

@pytest.fixture
def store(data):
    return Store(data)

@pytest.fixture
def reopen(data):
    async def open_store():
        return Store(data)
    return open_store

class TestImpatient(testing.StateStoreContract): ...

class TestPatient(testing.StateStoreContract):
    @pytest.fixture
    def settle(self, data):
        async def settle():
            data.taken |= {fingerprint(each) for events in data.events.values() for each in events}
        return settle
"""


def test_a_store_may_take_its_time_where_the_specification_lets_it(tmp_path: Path) -> None:
    module = tmp_path / "test_mine.py"
    module.write_text(EVENTUAL)
    printed = run_pytest(tmp_path, module, "--tb=line", "-rf")
    failed = re.findall(r"FAILED .*::(\w+)::(test_\w+)", printed)
    assert set(failed) == {
        ("TestImpatient", "test_equal_timestamps_keep_their_order_after_a_restart"),
        ("TestImpatient", "test_history_stays_ordered_after_a_restart"),
        ("TestImpatient", "test_saving_an_event_again_after_a_restart_keeps_one"),
        ("TestImpatient", "test_two_stores_saving_one_event_keep_one"),
        ("TestImpatient", "test_two_stores_writing_lose_nothing"),
    }


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
def test_what_has_to_be_strong_waits_for_nothing(contract: type[testing.Contract]) -> None:
    strong = {testing.PlannerStateContract, testing.TasksContract, testing.SteeringContract}
    assert contract.strong is (contract in strong)


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


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
def test_every_test_says_what_it_rests_on(contract: type[testing.Contract]) -> None:
    said = re.compile(r"(MUST|SHOULD|MAY), [\w\s:]+|Beyond\b")
    silent = [t for t in names_of(contract) if not said.match(getattr(contract, t).__doc__ or "")]
    assert silent == []


def test_all_of_it_is_public() -> None:
    contracts = {name for name in testing.__all__ if name.endswith("Contract")}
    assert contracts == {c.__name__ for c in CONTRACTS} | {"Contract", "CursorContract"}


def test_using_foldlog_does_not_need_pytest() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "import foldlog, foldlog.compat, foldlog.schemas; foldlog.memory_store()"
    )
    assert fresh_python(code) == ""

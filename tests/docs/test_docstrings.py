"""Every public docstring suffices by itself: `help()` shows what a caller has to know."""

from __future__ import annotations

from pathlib import Path

import pytest

import foldlog
from foldlog.sessions import SessionState
from tests.docs import examples
from tests.docs.docstrings import complaints
from tests.docs.surface import Documented, internal_methods, surface

SURFACE = {each.name: each for each in surface()}
WITH_EXAMPLES = [name for name, each in SURFACE.items() if ">>> " in each.doc]
ENTRY_POINTS = {
    "foldlog.connect",
    "foldlog.memory_store",
    "foldlog.Kind",
    *(
        f"foldlog.Store.{name}"
        for name in (
            *("save_update", "list_updates", "watch_updates", "save_task", "list_tasks"),
            *("save_event", "load_history", "save_steering", "watch_steering"),
            *("save_planner_state", "append", "decide", "view", "items", "atomic"),
            *("session", "waiting", "answer", "at", "fork", "erase_session", "agents", "sql"),
            "run",
        )
    ),
    "foldlog.exporting.export",
    "foldlog.Run.ask",
    "foldlog.scoped.ScopedStore.write",
    "foldlog.sessions.Session.start_task",
    "foldlog.sessions.Session.steer",
}


def test_no_public_docstring_is_under_its_checklist() -> None:
    lacking = {name: found for name, each in SURFACE.items() if (found := list(complaints(each)))}
    assert lacking == {}


@pytest.mark.parametrize("name", sorted(ENTRY_POINTS))
def test_what_is_used_most_has_an_example(name: str) -> None:
    assert ">>> " in SURFACE[name].doc


@pytest.mark.parametrize("name", WITH_EXAMPLES)
async def test_an_example_gives_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert await examples.run(SURFACE[name]) == []


def test_what_is_internal_is_not_part_of_the_surface() -> None:
    internal = internal_methods(SessionState)
    assert {"brief", "briefs", "group_record"} <= set(internal)
    assert not {f"foldlog.sessions.SessionState.{name}" for name in internal} & SURFACE.keys()
    assert not internal_methods(foldlog.Store)


# --- the checker ---------------------------------------------------------------------------------

WHOLE = """Return a page of updates.

Args:
    session_id: whose updates.
    timeout: seconds that it may take.

Raises:
    InvalidId: the id is empty.
    LogUnavailable, ValueError: the log did not answer.
"""


@pytest.mark.parametrize(
    ("instead_of", "planted", "complaint"),
    [
        ("", "", None),
        (WHOLE, "", "has no docstring"),
        ("Return a page of updates.", "return a page of updates", "its first line is no sentence"),
        ("Return a page of updates.", "A page of updates.", "it does not say what it returns"),
        ("    session_id: whose updates.\n", "", "it does not name session_id"),
        ("session_id: whose updates.", "`session_id_of`", "it does not name session_id"),
        ("seconds that", "how long", "it gives no unit for timeout"),
        (WHOLE[WHOLE.index("Raises") :], "", "it lists no errors"),
        ("InvalidId: the", "WrongId: the", "WrongId is no public error"),
        ("    InvalidId: the id is empty.\n", "    Errors as `view`.\n", "it sends the reader"),
        ("whose updates", "see `foldlog.store.cursor.page`", "it sends the reader elsewhere"),
        ("whose updates", "whoever it belongs to", "it says 'whoever'"),
    ],
)
def test_the_checker_finds_what_is_planted(
    instead_of: str, planted: str, complaint: str | None
) -> None:
    parameters = {"session_id": "str", "timeout": "float"}
    doc = WHOLE.replace(instead_of, planted) if instead_of else WHOLE
    said = list(complaints(Documented("f", "method", doc, parameters, "list[str]", True)))
    assert len(said) == (complaint is not None)
    assert complaint is None or said[0].startswith(complaint)


async def test_the_runner_finds_a_wrong_example() -> None:
    def of(example: str) -> Documented:
        return Documented("f", "method", f"Do.\n\n{example}\n", {}, "None", False)

    assert await examples.run(of(">>> await store.list_updates('a')\n[]")) == []
    assert "gives [1]" in (await examples.run(of(">>> [1]\n[2]")))[0]
    assert "NameError" in (await examples.run(of(">>> nonexistent")))[0]

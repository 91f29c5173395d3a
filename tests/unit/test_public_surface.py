"""What `import foldlog` offers: exactly what it says, documented, and cheap."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import pydoc
import re
import traceback
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import foldlog
from foldlog import errors
from tests.support.fresh import fresh_python


def public_names(module: ModuleType) -> list[str]:
    return [name for name in vars(module) if not name.startswith("_")]


def every_module() -> list[ModuleType]:
    """All but the adapters whose framework is not installed."""
    found = []
    for info in pkgutil.walk_packages(foldlog.__path__, "foldlog.", onerror=adapter_is_refused):
        try:
            found.append(importlib.import_module(info.name))
        except foldlog.ConfigurationError:
            adapter_is_refused(info.name)
    return found


def adapter_is_refused(name: str) -> None:
    assert name.startswith("foldlog.integrations."), name
    with pytest.raises(foldlog.ConfigurationError, match="is not installed: pip install 'foldlog"):
        importlib.import_module(name)


# --- the names ----------------------------------------------------------------------------------


def test_help_on_the_module_can_be_read() -> None:
    names: dict[str, Any] = {}
    exec("from foldlog import *", names)
    assert sorted(names.keys() - {"__builtins__"}) == sorted(foldlog.__all__)
    assert set(foldlog.__all__) <= set(foldlog._PUBLIC)
    shown = pydoc.plain(pydoc.render_doc(foldlog)).splitlines()
    assert len(shown) < 500
    assert any("foldlog.Store " in line for line in shown[:30])


def test_type_checkers_see_the_names_that_load() -> None:
    """The names under TYPE_CHECKING are written a second time; here they are compared."""
    tree = ast.parse(Path(foldlog.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    written = {
        name: node.module
        for node in imports
        for name in (alias.name for alias in node.names)
        if node.module != "foldlog"  # a module of its own, which loads as an attribute
    }
    assert written == foldlog._HOME_OF


def test_no_private_name_leaks() -> None:
    assert [name for name in foldlog._PUBLIC if name.startswith("_")] == []
    homes = list(foldlog._HOMES)
    assert [home for home in homes if any(part.startswith("_") for part in home.split("."))] == []
    underscored = {
        name: value
        for name in foldlog._PUBLIC
        if getattr(value := getattr(foldlog, name), "__name__", name).startswith("_")
    }
    assert underscored == {}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonexistent"):
        foldlog.nonexistent  # noqa: B018 - reading the attribute is the test


def test_dir_lists_the_public_names() -> None:
    assert set(foldlog._PUBLIC) <= set(dir(foldlog))


def test_the_version_is_that_of_the_package() -> None:
    assert foldlog.__version__ == metadata.version("foldlog")


# --- the words ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", foldlog._PUBLIC)
def test_a_public_name_loads_and_has_a_docstring_of_its_own(name: str) -> None:
    public = getattr(foldlog, name)
    assert public is not None
    doc = public.__doc__
    assert doc
    assert doc.strip()
    # What dataclasses and named tuples get without one is their signature.
    assert not doc.startswith(f"{name}(")


def test_every_method_of_a_store_has_a_docstring() -> None:
    store = foldlog.memory_store()
    methods = {name for name in dir(foldlog.Store) if not name.startswith("_")}
    methods -= {name for name in methods if name in foldlog.Store.__annotations__}
    artifacts = {f"artifact_store.{n}" for n in dir(store.artifact_store) if not n.startswith("_")}
    assert {"save_event", "list_tasks", "watch_updates", "close"} <= methods
    assert "artifact_store.put_bytes" in artifacts
    undocumented = [
        name for name in sorted(methods | artifacts) if not inspect.getdoc(_resolve(store, name))
    ]
    assert undocumented == []


def test_help_on_the_class_tells_of_every_method_of_a_store() -> None:
    store = foldlog.memory_store()
    methods = {
        name: method
        for name, method in inspect.getmembers(foldlog.Store, inspect.isfunction)
        if not name.startswith("_")
    }
    assert len(methods) > 30
    shown = pydoc.plain(pydoc.render_doc(foldlog.Store))
    for name, method in methods.items():
        # Python 3.13 breaks a long signature into lines.
        found = re.search(rf"^ \|  (async )?{name}(\([\s|]*self| = )", shown, re.MULTILINE)
        assert found, name
        assert inspect.signature(getattr(store, name)).parameters.keys() == {
            parameter for parameter in inspect.signature(method).parameters if parameter != "self"
        }


async def test_a_method_can_be_called_through_the_class() -> None:
    store = foldlog.memory_store()
    await foldlog.Store.save_memory_state(store, "key", {"n": 1})
    assert await foldlog.Store.load_memory_state(store, "key") == {"n": 1}
    await store.close()


def _resolve(store: foldlog.Store, path: str) -> Any:
    *parts, last = path.split(".")
    owner: Any = store
    for part in parts:
        owner = getattr(owner, part)
    # A property's words are its class's, not those of the value it gives.
    found = getattr(type(owner), last, None)
    return found if isinstance(found, property) else getattr(owner, last)


# --- the errors ---------------------------------------------------------------------------------


def test_every_error_is_public_and_a_foldlog_error() -> None:
    defined = {
        name: value
        for name in public_names(errors)
        if isinstance(value := getattr(errors, name), type) and issubclass(value, BaseException)
    }
    assert defined.keys() == set(foldlog._PUBLIC) - foldlog._HOME_OF.keys()
    assert [
        name for name, value in defined.items() if not issubclass(value, foldlog.FoldlogError)
    ] == []


def test_the_page_of_errors_explains_each_of_them() -> None:
    """And a traceback ends with the place."""
    page = Path(__file__).parents[2] / "docs" / f"{foldlog.FoldlogError.page}.md"
    explained = {found.lower() for found in re.findall("^### (.+)$", page.read_text(), re.M)}
    pages = {
        value.page
        for module in every_module()
        for name in public_names(module)
        if isinstance(value := getattr(module, name), type)
        and issubclass(value, foldlog.FoldlogError)
    }
    anchors = {page.partition("#")[2] for page in pages if page.startswith("reference/errors#")}
    assert anchors - explained == set()
    adapters = Path(foldlog.__file__).parent / "integrations"  # some may not be installed
    sources = "".join(path.read_text().lower() for path in adapters.rglob("*.py"))
    assert [each for each in explained - anchors if f"class {each}(" not in sources] == []
    assert pages - {f"reference/errors#{each}" for each in anchors} == {
        "reference/errors",
        "reference/cli/index#ids",
    }
    shown = traceback.format_exception_only(foldlog.StoreClosed())
    assert shown[-1] == "see docs: reference/errors#storeclosed\n"


def test_an_error_of_a_program_points_to_that_of_its_base() -> None:
    class OwnConflict(foldlog.AppendConflict):
        """A program's."""

    assert OwnConflict.page == "reference/errors#appendconflict"


INTERNAL_ERRORS = {
    "foldlog.importer.conversation.ShapeError",  # becomes a BrokenLine inside the importer
    "foldlog.log.archive.manifests.Superseded",  # has an archiver or an erasure begin again
    "foldlog.log.archive.segments.SegmentGone",  # has a question be asked of the next manifest
    "foldlog.bounds.Refused",  # becomes an answer over HTTP
    "foldlog.otlp.wire.Malformed",  # becomes an answer over HTTP
    "foldlog.sql.database.Refused",  # becomes a message from the process that answers a query
    "foldlog.otlp.wire.TooMany",  # becomes an answer over HTTP
    "foldlog.log.snapshots.Unusable",  # becomes a fold of the log, and a line in the program's log
}


def test_no_module_defines_a_public_error_outside_the_family() -> None:
    strays = {
        f"{module.__name__}.{name}"
        for module in every_module()
        for name in public_names(module)
        if isinstance(value := getattr(module, name), type)
        and value.__module__ == module.__name__
        and issubclass(value, BaseException)
        and not issubclass(value, foldlog.FoldlogError)
    }
    assert strays == INTERNAL_ERRORS


# --- the price ----------------------------------------------------------------------------------


def test_importing_foldlog_imports_neither_nats_nor_pydantic() -> None:
    code = "import sys, foldlog; print(sorted({'nats', 'pydantic'} & sys.modules.keys()))"
    assert fresh_python(code) == "[]"


def test_a_name_loads_what_it_needs_when_it_is_first_used() -> None:
    code = (
        "import sys, foldlog; foldlog.Store; foldlog.StateUpdate;"
        "print(sorted({'nats', 'pydantic'} & sys.modules.keys()), foldlog.Store.__module__)"
    )
    assert fresh_python(code) == "['nats', 'pydantic'] foldlog.opening.store"


def test_a_store_loads_nothing_that_nobody_has_asked_for() -> None:
    code = (
        "import sys, foldlog; foldlog.memory_store();"
        "asked = 'agents', 'runs', 'scoped', 'sessions', 'sql';"
        "never = {'typer', 'rich', *(f'foldlog.{name}' for name in asked)};"
        "print(sorted(never & sys.modules.keys()))"
    )
    assert fresh_python(code) == "[]"

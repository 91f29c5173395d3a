"""The public API: what each module's `__all__` offers, and the public members of its classes.

A method whose docstring begins with "Internal" is for foldlog's own modules, and not part of it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from types import ModuleType
from typing import Any, NamedTuple

from tests.docs.markdown import ROOT

MODULES = (
    "foldlog",
    "foldlog.agents",
    "foldlog.blocking",
    "foldlog.bundles",
    "foldlog.compat",
    "foldlog.exporting",
    "foldlog.importer",
    "foldlog.kinds",
    "foldlog.mcp",
    "foldlog.otlp",
    "foldlog.runs",
    "foldlog.schemas",
    "foldlog.scoped",
    "foldlog.sessions",
    "foldlog.sql",
    "foldlog.streams",
    "foldlog.telemetry",
    "foldlog.testing",
    "foldlog.ui",
)
ADAPTERS = ROOT / "src/foldlog/integrations"
_HOLD = ("fget", "func", "__func__")
INTERNAL = ("Internal:", "Internal.")


class Documented(NamedTuple):
    """A public module, class, function, method or property, and what it says of itself.

    Attributes:
        raises: whether its callers have errors to expect: it awaits, or it has a `raise`.
        is_adapters: whether a framework says what its arguments are.
    """

    name: str
    what: str
    doc: str
    parameters: dict[str, str]
    returns: str
    raises: bool
    is_adapters: bool = False


@cache
def surface() -> tuple[Documented, ...]:
    """All of it, each once."""
    found: dict[int, Documented] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        found[id(module)] = Documented(name, "module", module.__doc__ or "", {}, "", False)
        values = {each: getattr(module, each) for each in public_names(module)}
        # A method is named by the class that it comes from, where that is public.
        for each in sorted(values, key=lambda n: len(getattr(values[n], "__mro__", ()))):
            _collect(found, f"{name}.{each}", values[each])
    return (*found.values(), *_adapters())


def public_names(module: ModuleType) -> list[str]:
    """What a module offers: `foldlog` lists everything by `dir`, others in `__all__`."""
    names = dir(module) if module.__name__ == "foldlog" else module.__all__
    return [name for name in names if not name.startswith("_")]


def internal_methods(of: type) -> list[str]:
    """The methods and properties of a class that only foldlog's own modules call."""
    return [n for n, value in _members(of) if (inspect.getdoc(value) or "").startswith(INTERNAL)]


def _collect(found: dict[int, Documented], name: str, value: Any) -> None:
    if inspect.isclass(value) and value.__module__.startswith("foldlog"):
        if id(value) in found:
            return
        found[id(value)] = _of_class(name, value)
        if issubclass(value, BaseException):
            return
        for member, each in _members(value):
            function = next(filter(None, (getattr(each, n, None) for n in _HOLD)), each)
            function = inspect.unwrap(function)
            module = getattr(function, "__module__", None) or ""
            if id(function) in found or not module.startswith("foldlog"):
                continue
            if member.startswith("test_") or (inspect.getdoc(each) or "").startswith(INTERNAL):
                continue
            what = "property" if isinstance(each, property | cached_property) else "method"
            given = getattr(function, "__name__", member)  # an alias has another one
            known_as = given if hasattr(value, given) else member
            about = _of_function(f"{name}.{known_as}", what, function)
            found[id(function)] = about._replace(raises=about.raises and not is_protocol(value))
    elif inspect.isfunction(value):
        found[id(value)] = _of_function(name, "function", value)


def _members(of: type) -> list[tuple[str, Any]]:
    """The public functions and properties of a class, its bases' included."""
    every = [(name, inspect.getattr_static(of, name)) for name in dir(of)]
    return [
        (name, each)
        for name, each in every
        if not name.startswith("_")
        and (
            inspect.isfunction(each)
            or isinstance(each, property | cached_property | classmethod | staticmethod)
        )
    ]


def _of_class(name: str, value: type) -> Documented:
    doc = inspect.getdoc(value) or ""
    parameters: dict[str, str] = {}
    if fields := getattr(value, "model_fields", None):
        parameters = {field: str(each.annotation) for field, each in fields.items()}
    elif not issubclass(value, BaseException) and not is_protocol(value):
        with suppress(ValueError):  # an enumeration's, or what is made in C
            parameters = _parameters(inspect.signature(value))
    return Documented(name, "class", doc, parameters, "", False)


def is_protocol(value: type) -> bool:
    """Whether a class is never made by calling it with arguments: a protocol, or an enumeration."""
    return bool(getattr(value, "_is_protocol", False)) or hasattr(value, "__members__")


def _of_function(name: str, what: str, function: Callable[..., Any]) -> Documented:
    signature = inspect.signature(function)
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    raises = is_async or "  raise " in inspect.getsource(function)
    doc = inspect.getdoc(function) or ""
    returns = str(signature.return_annotation)
    return Documented(name, what, doc, _parameters(signature), returns, raises)


def _parameters(signature: inspect.Signature) -> dict[str, str]:
    return {
        name: str(each.annotation)
        for name, each in signature.parameters.items()
        if name not in ("self", "cls") and not name.startswith("_")
    }


# --- adapters: read without being imported, for their frameworks are not installed ---------------


def _adapters() -> Iterator[Documented]:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(ADAPTERS.rglob("*.py"))}
    for path, tree in trees.items():
        names = _public_names(tree)
        package = path.parent if path.name == "__init__.py" else None
        if not names or (package is None and path.parent != ADAPTERS):
            continue
        beside = [t for p, t in trees.items() if p == path or p.parent == package]
        module = "foldlog.integrations." + (package.name if package else path.stem)
        for node in (node for each in beside for node in each.body):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name in names:
                yield from _of_node(f"{module}.{node.name}", node)


def _public_names(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _of_node(
    name: str, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[Documented]:
    doc = ast.get_docstring(node) or ""
    if not isinstance(node, ast.ClassDef):
        returns = ast.unparse(node.returns) if node.returns else ""
        yield Documented(name, "function", doc, _arguments(node), returns, False)
        return
    functions = [n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    made = next((n for n in functions if n.name == "__init__"), None)
    init_doc = (ast.get_docstring(made) or "") if made else ""
    parameters = _arguments(made) if made else {}
    yield Documented(name, "class", f"{doc}\n{init_doc}", parameters, "", False)
    for each in functions:
        if not each.name.startswith("_"):
            said = ast.get_docstring(each) or ""
            yield Documented(f"{name}.{each.name}", "method", said, {}, "", False, True)


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    named = [each for each in every if each.arg not in ("self", "cls")]
    return {each.arg: ast.unparse(each.annotation) if each.annotation else "" for each in named}

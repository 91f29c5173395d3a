"""The checklist of a public docstring: `complaints` says which points one misses."""

from __future__ import annotations

import builtins
import importlib
import re
from collections.abc import Iterator
from functools import cache

import foldlog
from tests.docs.surface import MODULES, Documented, public_names

NUMBER = re.compile(r"\b(int|float)\b")
MEASURE = re.compile(
    r"(^|_)(timeout|ttl|seconds|age|delay|interval|grace|lease|bytes|size|older_than|within)($|_)"
)
UNIT = re.compile(r"\b(seconds?|minutes?|hours?|days?|milliseconds?|bytes?|[KMG]iB)\b")
RETURNS = re.compile(r"\b(return|yield)s?\b|\basync with\b|\b(True|False)\b", re.IGNORECASE)
SECTION = re.compile(r"^(?:Raises|Errors)(?: \([^)]+\))?:(.*)$", re.MULTILINE)
ENTRY = re.compile(r"([A-Z]\w+(?:, [A-Z]\w+)*): ")
ELSEWHERE = re.compile(
    r"\b[Ss]ee `(?!docs/)|^As `|\b(?:[Oo]ther(?:s|wise)|[Ee]rrors?|[Mm]ethods)\b[^.]{0,20} as "
    r"(?:`|those)|: as `|\bErrors and end as",
    re.MULTILINE,
)
MADE_ELSEWHERE = re.compile(r"\b[Mm]ade by `")
"""Of a class whose objects another public function makes: its arguments are foldlog's."""

BANNED = re.compile(
    r"\b(footing|vehicle|room|led|[Tt]ogether|[Ww]hoever|[Oo]f which|belonging|absent|kept|ground"
    r"|told)\b|\bof (?:its|their|your|his|one's) own\b",
)


def complaints(of: Documented) -> Iterator[str]:
    """Say what a docstring lacks; nothing where it has all."""
    if not of.doc.strip():
        yield "has no docstring"
        return
    first = of.doc.strip().splitlines()[0]
    if not re.match(r"[A-Z`\"0-9]", first) or not first.rstrip().endswith((".", ":", "?", "`")):
        yield "its first line is no sentence"
    prose = re.sub(r"^.*>>> .*$|`[^`\n]*`", "", of.doc, flags=re.MULTILINE)
    if found := BANNED.search(prose):
        yield f"it says {found[0]!r}"
    if found := ELSEWHERE.search(of.doc):
        yield f"it sends the reader elsewhere: {found[0]!r}"
    if of.what == "module":
        return
    if not MADE_ELSEWHERE.search(of.doc):
        yield from _of_parameters(of)
    if not of.is_adapters and of.what != "class":
        yield from _of_returns(of)
        yield from _of_errors(of)


def _of_parameters(of: Documented) -> Iterator[str]:
    for name, annotation in of.parameters.items():
        listed = rf"^ *(?:[\w*]+, )*\**{name}(?:, [\w*]+)*: +."
        named = re.search(rf"{listed}|`\**{name}\b", of.doc, re.MULTILINE)
        if not named:
            yield f"it does not name {name}"
        elif NUMBER.search(annotation) and MEASURE.search(name):
            around = of.doc[max(named.start() - 160, 0) : named.start() + 240]
            if not UNIT.search(around):
                yield f"it gives no unit for {name}"


def _of_returns(of: Documented) -> Iterator[str]:
    if (
        of.what != "property"
        and of.returns not in ("None", "NoReturn", "")
        and not RETURNS.search(of.doc)
    ):
        yield "it does not say what it returns"


def _of_errors(of: Documented) -> Iterator[str]:
    sections = list(SECTION.finditer(of.doc))
    if not sections and of.raises and "raises nothing" not in of.doc.lower():
        yield "it lists no errors"
    for section in sections:
        text = section[1] + of.doc[section.end() :].split("\n\n")[0]
        names = [name for entry in ENTRY.findall(text) for name in entry.split(", ")]
        if not names and not re.search(r"\bWhat .* raise", text):
            yield "its list of errors names none"
        yield from (f"{name} is no public error" for name in names if not is_error(name))


def is_error(name: str) -> bool:
    """Whether a name is that of an exception which users of foldlog can import."""
    value = getattr(foldlog, name, None) or getattr(builtins, name, None) or _errors().get(name)
    return isinstance(value, type) and issubclass(value, BaseException)


@cache
def _errors() -> dict[str, object]:
    found = [importlib.import_module(name) for name in MODULES]
    return {name: getattr(module, name) for module in found for name in public_names(module)}

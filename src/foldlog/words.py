"""Records in plain words: the line that a kind declares for each of its records.

The page, the shell and what else says what went on show these lines. They name no types of records
and no fields: "task research started: Compare fares", "ann: When is the ferry?".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from string import Formatter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog.errors import ConfigurationError
from foldlog.jsonable import compact

if TYPE_CHECKING:
    from foldlog.models import Waiting

CLIP: Final = 200
"""Characters that a text has in a line."""

_ITEMS: Final = 8
_DEPTH: Final = 4
_RAW_BYTES: Final = 100_000

_SAYING: Final = (
    *("text", "content", "instruction", "question", "description", "reason", "message", "value"),
    *("parts", "title", "digest", "status"),
)
"""Fields by which frameworks and people name what is said; the first that holds a text counts."""


class Line(NamedTuple):
    """A record in a line.

    Attributes:
        what: what happened, to what, or who spoke: "task research started", "ann". Names, ids and
            states; content belongs into `text`.
        text: what was said, on one line; "" for nothing.
        group: under which word readers show or hide the record. "": that of its kind.
        tone: "failed", "waiting" for a person, or "aside" for what a story goes without. "": none.
        about: names of what it is about, such as a step. A story adds this record to what it has
            of that already.
        under: what it begins a new part of the story with, `about[0]`, is a part of: another name,
            or "" for nothing. None: it begins no part.
    """

    what: str
    text: str = ""
    group: str = ""
    tone: str = ""
    about: tuple[str, ...] = ()
    under: str | None = None

    def __str__(self) -> str:
        return f"{self.what}: {self.text}" if self.text else self.what


S = TypeVar("S")

Words = str | Line | Callable[[Any], Line | str]
"""How a record is put in words: a function of the record, or a text with names in braces.

The names are of the record's fields and the view's keys: `"file {name} saved: {title}"`. Behind a
colon stands what was said. A line has them in `what` and in `text`.
"""

Speak = Callable[[Any, Sequence[str]], Line]


class Rows(NamedTuple, Generic[S]):
    """A table of what a view holds now, for SQL, where a row for each record would not tell.

    Attributes:
        table: its name.
        row: what a row is.
        schema: the struct of a row. Its fields are columns.
        of: returns the rows of a state by id: structs of `schema`, or encoded ones.
        changed: returns the ids of the rows that a record changes; None: no row depends on it.
    """

    table: str
    row: str
    schema: type[msgspec.Struct]
    of: Callable[[S], Mapping[Any, msgspec.Struct | msgspec.Raw]]
    changed: Callable[[Any], Iterable[Any] | None]


@dataclass(frozen=True)
class Shown(Generic[S]):
    """How a kind's records and views are shown.

        shown = foldlog.Shown({"file.saved": "file {name} saved: {title}"})

    Args:
        lines: by type, how a record is put in words, as `foldlog.words.Words`. Of others the type
            and the first text of their content are shown.
        titles: by type, what gives a session or a trace its title: words as of `lines`, "" for
            none. The first one that is not "" counts.
        group: under which word readers show or hide the records. "": the kind's name.
        entries: returns what a state holds, by id, as plain values: for comparing views. None: a
            list by its records, a dict by its keys, anything else as one value.
        rows: a table for SQL. None: a row for each record, or for each that the fold keeps.
        audited: by type, the kind of event as which the session's audit trail shows a record.
        effective: returns of a view's envelopes, all from the first, those that an audit trail
            shows, whole. None: all.
    """

    lines: Mapping[str, Words] = field(default_factory=dict[str, Words])
    _: KW_ONLY
    titles: Mapping[str, Words] = field(default_factory=dict[str, Words])
    group: str = ""
    entries: Callable[[S], Mapping[str, Any]] | None = None
    rows: Rows[S] | None = None
    audited: Mapping[str, str] = field(default_factory=dict[str, str])
    effective: Callable[[Iterable[Recorded]], Iterable[Recorded]] | None = None


class Speaker:
    """Puts the records of one kind in words. What a user's function raises costs its words only."""

    def __init__(
        self,
        words: Mapping[str, Words],
        schemas: Mapping[str, type[msgspec.Struct]],
        keys: Sequence[str],
    ) -> None:
        if unknown := words.keys() - schemas.keys():
            raise ConfigurationError(f"it shows {min(unknown)}, which is no record of it")
        self._said = {type_: speaker(each, keys, schemas[type_]) for type_, each in words.items()}

    def line(self, type: str, record: Any, keys: Sequence[str]) -> Line | None:
        """Return the words for a record; None: it has none, or they cannot be found."""
        say = self._said.get(type)
        try:
            return None if say is None else say(record, keys)
        except Exception:  # noqa: BLE001 - a user's function may raise anything, and a reader goes on
            return None


def speaker(words: Words, keys: Sequence[str], schema: type[msgspec.Struct]) -> Speak:
    """Return what puts a record of a view in words, given the record and the view's keys.

    Raises:
        ConfigurationError: the words name what is neither a field nor a key.
    """
    if isinstance(words, str):
        what, _, text = words.partition(": ")
        words = Line(what, text)
    elif not isinstance(words, Line):
        return lambda record, _: _as_line(words(record))
    line = words
    say, tell = (_filler(each, keys, schema) for each in (line.what, line.text))
    return lambda record, values: line._replace(what=say(record, values), text=tell(record, values))


def _as_line(said: Line | str) -> Line:
    return said if isinstance(said, Line) else Line(said)


def _filler(
    template: str, keys: Sequence[str], schema: type[msgspec.Struct]
) -> Callable[[Any, Sequence[str]], str]:
    parts = [(literal, name) for literal, name, _, _ in Formatter().parse(template)]
    for _, name in parts:
        if name is not None and name not in schema.__struct_fields__ and name not in keys:
            known = ", ".join((*schema.__struct_fields__, *keys))
            raise ConfigurationError(f"{template!r} names {name!r}, and there are {known}")

    def fill(record: Any, values: Sequence[str]) -> str:
        of_view = dict(zip(keys, values, strict=False))
        return "".join(
            literal + (brief(getattr(record, name, of_view.get(name))) if name else "")
            for literal, name in parts
        )

    return fill


def clip(text: str, limit: int = CLIP) -> str:
    """Return the beginning of a text on one line, with "…" where something is left out."""
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit and len(text) <= limit * 4 else f"{line[: limit - 1]}…"


def brief(value: Any, limit: int = CLIP) -> str:
    """Return a value on one line: a text, nothing for None, else the beginning of its JSON."""
    if isinstance(value, msgspec.Raw):
        value = codec.decode(value) if len(bytes(value)) <= _RAW_BYTES else "(a large value)"
    if value is None or value is msgspec.UNSET:
        return ""
    return clip(value if isinstance(value, str) else compact(_small(value)), limit)


def _small(value: Any, depth: int = _DEPTH) -> Any:
    """A value without most of what is large in it: enough for a line."""
    if isinstance(value, str | bytes):
        return value[:CLIP]
    if isinstance(value, dict):
        some = list(value.items())[:_ITEMS]
        return {name: _small(each, depth - 1) if depth else "…" for name, each in some}
    if isinstance(value, list | tuple):
        return [_small(each, depth - 1) if depth else "…" for each in value[:_ITEMS]]
    return value


def first_text(value: Any, depth: int = _DEPTH) -> str:
    """Return the first text in a value: of a message in any framework's shape what it says.

    "" if there is none.
    """
    if isinstance(value, str):
        return value
    found = ""
    if depth and isinstance(value, dict):
        named = (first_text(value.get(name), depth - 1) for name in _SAYING)
        found = next(filter(None, named), "")
    elif depth and isinstance(value, list | tuple):
        found = next(filter(None, (first_text(each, depth - 1) for each in value)), "")
    return found


def said(value: Any) -> str:
    """Return what a value says, on one line: its first text, or the beginning of its JSON."""
    return clip(first_text(value)) or brief(value or None)


def called(name: Any, given: Any) -> str:
    """Return the call of a tool on one line: `search({"to":"Oslo"})`."""
    return f"{name or 'tool'}({brief(given)})"


def in_bytes(size: float) -> str:
    """Return a number of bytes in words: `12 KB`."""
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def question(item: Waiting) -> str:
    """Return what a person is asked by what waits, on one line."""
    return f"did {item.step} happen?" if item.kind == "step" else asked(item.asked)


def in_seconds(seconds: float) -> str:
    """Return a duration in words: `40 ms`, `1.2 s`, `3 min 5 s`."""
    if seconds < 0.01:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def asked(request: Any) -> str:
    """Return what a person is asked, on one line: a tool to allow, or a text."""
    inside = request.get("payload") or request if isinstance(request, dict) else request
    calls = inside.get("asked") if isinstance(inside, dict) else None
    if isinstance(calls, list) and calls and isinstance(calls[0], dict) and calls[0].get("tool"):
        return called(calls[0]["tool"], calls[0].get("arguments"))
    return clip(first_text(inside)) or clip(first_text(request)) or brief(inside)

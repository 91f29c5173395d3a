"""The words of scoped state: hints, links, results. Durations are in milliseconds.

`to_json` and `from_json` speak the forms that layer0 writes: snake_case, None left out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar, cast

import msgspec
from msgspec import structs

from foldlog.envelope import Position
from foldlog.errors import PayloadError
from foldlog.subjects import checked_id

F = TypeVar("F", bound="_Form")


class MemoryTier(StrEnum):
    """How often a value is wanted, as its writer sees it."""

    HOT = "hot"
    WARM = "warm"
    COLD = "cold"


class Lifetime(StrEnum):
    """How long a value lives: in this process, until its session ends, or for ever."""

    TRANSIENT = "transient"
    SESSION = "session"
    DURABLE = "durable"


class ContentKind:
    """What kind of memory a value is: one of the four, or `ContentKind.custom(name)`.

    EPISODIC is what happened, SEMANTIC what is so, PROCEDURAL how it is done, STRUCTURAL how things
    stand around the agent.

    Args:
        name: the kind.
        is_custom: it is none of the four.
    """

    __slots__ = ("is_custom", "name")

    EPISODIC: ClassVar[ContentKind]
    SEMANTIC: ClassVar[ContentKind]
    PROCEDURAL: ClassVar[ContentKind]
    STRUCTURAL: ClassVar[ContentKind]

    def __init__(self, name: str, *, is_custom: bool = False) -> None:
        self.name: Final = name
        self.is_custom: Final = is_custom

    @classmethod
    def custom(cls, name: str) -> Self:
        """Return a kind of yours; never the same as one of the four, whatever its name.

        Args:
            name: the name.

        Raises:
            InvalidId: the name is empty.
        """
        return cls(checked_id(name, "content_kind"), is_custom=True)

    def to_json(self) -> Any:
        """Return `"episodic"`, or `{"custom": "name"}`."""
        return {"custom": self.name} if self.is_custom else self.name

    @classmethod
    def from_json(cls, data: Any) -> ContentKind:
        """Return the kind that `to_json`, or layer0, wrote.

        Args:
            data: what was written.

        Raises:
            PayloadError: it is no kind.
            InvalidId: its name is empty.
        """
        if isinstance(data, str) and data in _KINDS:
            return _KINDS[data]
        if isinstance(data, Mapping) and list(data) == ["custom"]:
            return cls.custom(data["custom"])
        raise PayloadError("content_kind", f"{data!r:.80} is no kind of content")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ContentKind):
            return NotImplemented
        return (self.name, self.is_custom) == (other.name, other.is_custom)

    def __hash__(self) -> int:
        return hash((self.name, self.is_custom))

    def __repr__(self) -> str:
        if self.is_custom:
            return f"ContentKind.custom({self.name!r})"
        return f"ContentKind.{self.name.upper()}"


_KINDS: Final = {
    name: ContentKind(name) for name in ("episodic", "semantic", "procedural", "structural")
}
for _kind in _KINDS.values():
    setattr(ContentKind, _kind.name.upper(), _kind)


class _Form(msgspec.Struct, frozen=True, omit_defaults=True):
    """What has a form in layer0's JSON."""

    def to_json(self) -> dict[str, Any]:
        """Return what is set, as JSON types."""
        found: dict[str, Any] = msgspec.to_builtins(self, enc_hook=ContentKind.to_json)
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the object that `to_json`, or layer0, wrote.

        Args:
            data: what was written.

        Raises:
            PayloadError: it is no such object.
        """
        try:
            return msgspec.convert(data, cls, dec_hook=_kind_from_json)
        except msgspec.ValidationError as error:
            raise PayloadError(cls.__name__, str(error)) from None


class StoreOptions(_Form, frozen=True, kw_only=True, omit_defaults=True):
    """Hints of a write, and of a read.

    Attributes:
        tier: what searches filter by. None is HOT. Means nothing for a read.
        lifetime: TRANSIENT values are never stored; a `read` with options sees them until
            `clear_transient`. SESSION values go with `end_session`. None is DURABLE. Of a read:
            only values of that lifetime.
        content_kind: what searches filter by. Of a read: only a value of that kind.
        salience: from 0 to 1. Among equal results of a search the most salient come first. None is
            0.5. Means nothing for a read.
        ttl: milliseconds from the log's time of the write, after which there is no such value.
            More than 10**16 of them, up to layer0's longest duration, mean never. Means nothing
            for a read.
    """

    tier: MemoryTier | None = None
    lifetime: Lifetime | None = None
    content_kind: ContentKind | None = None
    salience: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    ttl: Annotated[int, msgspec.Meta(ge=0)] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the options that `to_json`, or layer0, wrote.

        Args:
            data: what was written.

        Raises:
            PayloadError: they are no options.
        """
        return cast(Self, checked_options(super().from_json(data)))


class SearchOptions(_Form, frozen=True, kw_only=True, omit_defaults=True):
    """What a search is to find.

    Attributes:
        min_score: results below are left out.
        content_kind, tier: only values written with these.
        max_depth: results lead, along links, to others up to so many steps away.
    """

    min_score: float | None = None
    content_kind: ContentKind | None = None
    tier: MemoryTier | None = None
    max_depth: Annotated[int, msgspec.Meta(ge=0)] | None = None


class MemoryLink(_Form, frozen=True, omit_defaults=True):
    """An edge from one key to another of the same scope.

    Attributes:
        from_key, to_key: the keys.
        relation: what the one is to the other.
        metadata: JSON.
    """

    from_key: str
    to_key: str
    relation: str
    metadata: Any = None


class SearchResult(_Form, frozen=True, omit_defaults=True):
    """A key that matched.

    Attributes:
        key: the key.
        score: from 0 to 1.
        snippet: a part of the value's text.
    """

    key: str
    score: float
    snippet: str | None = None


class Revision(msgspec.Struct, frozen=True):
    """What one write, or one deletion, made of a key.

    Attributes:
        key: the key.
        value: the value.
        version: names the revision, for `expected=`.
        position: where the log recorded it, for `at=`.
        recorded_at: when the log recorded it, for `at=`.
        options: the hints of the write.
        deleted: the key was deleted.
    """

    key: str
    value: Any
    version: str
    position: Position
    recorded_at: dt.datetime
    options: StoreOptions
    deleted: bool = False


def checked_options(options: StoreOptions) -> StoreOptions:
    """Return options with their parts as what they should be, or raise PayloadError."""
    checked = _checked(options, StoreOptions, "options")
    if checked.ttl is None or checked.ttl <= _LONGEST_TTL:
        return checked
    if checked.ttl > _U64_MAX:
        raise PayloadError("options.ttl", f"{checked.ttl:.3e} ms are more than 64 bits hold")
    return structs.replace(checked, ttl=None)


def checked_search(options: SearchOptions) -> SearchOptions:
    """Return options with their parts as what they should be, or raise PayloadError."""
    return _checked(options, SearchOptions, "options")


def checked_link(link: MemoryLink) -> MemoryLink:
    """Return a link as it is, or raise PayloadError if it is none."""
    if not isinstance(link, MemoryLink):
        raise PayloadError("link", f"{link!r:.80} is no MemoryLink")
    return link


_U64_MAX: Final = 2**64 - 1
"""layer0's longest duration, which stands for ever."""

_LONGEST_TTL: Final = 10**16
"""Milliseconds: some 300,000 years, which a float of seconds still tells apart."""


def _checked(given: F, form: type[F], name: str) -> F:
    """A form with members where their bare values were given."""
    if not isinstance(given, form):
        raise PayloadError(name, f"{given!r:.80} is no {form.__name__}")
    try:
        return msgspec.convert(structs.asdict(given), form, dec_hook=_kind_from_json)
    except msgspec.ValidationError as error:
        raise PayloadError(name, str(error)) from None


def _kind_from_json(type_: type, data: Any) -> ContentKind:
    assert type_ is ContentKind, "the other fields are of types that msgspec knows"
    return data if isinstance(data, ContentKind) else ContentKind.from_json(data)

"""Kinds: what is kept, under which keys, whose it is, and how its records fold into a view.

A kind is declared once. The registry, clearing and erasing, forks, redaction, the spool,
snapshots, `diff` and telemetry derive what they need from the declaration:

    class Asked(msgspec.Struct, frozen=True):
        question: foldlog.Content[str]

    asked = foldlog.Kind(
        "asked",
        keys=("session_id",),
        owner="session",
        records={"question.asked": Asked},
        fold=foldlog.every,
    )

    async with foldlog.connect(kinds=[asked]) as store:
        await store.append(asked("trip"), Asked("Window or aisle?"))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from foldlog import codec
from foldlog.envelope import Recorded, upsert_id
from foldlog.errors import ConfigurationError, PayloadError
from foldlog.subjects import checked_id

S = TypeVar("S")
T = TypeVar("T")

Content = Annotated[T, msgspec.Meta(extra={"content": True})]
"""The type of a record's field that holds what a user wrote: `redact=` sees it, and nothing else.

All other fields are ids, names, numbers and times.
"""

Owner = Literal["session", "trace"]
"""Whose records they are: the session, or the trace, that the first key names."""

IdRule = Callable[[Any, bytes], str]
"""Makes a record's idempotency key of the record and its encoding."""

_NAME: Final = re.compile("[a-z][a-z0-9_]{0,31}")
_TYPE: Final = re.compile(r"[a-z][a-z_.]{0,63}")


def fresh_id(record: Any, body: bytes) -> str:
    """The id of a record that replaces: another one each time, which also tells its content."""
    return upsert_id(body)


def content_digest(record: Any, body: bytes) -> str:
    """The id of a record whose content has one effect, however often it is saved."""
    return codec.digest(body)


def field_id(name: str) -> IdRule:
    """The id is the record's field of that name: saving it again has no effect."""

    def given(record: Any, body: bytes) -> str:
        return checked_id(getattr(record, name), name)

    return given


class Folding(Protocol[S]):
    """How records become a state: a module or an object with these two functions.

    Beside them it may have `keep(state) -> bytes` and `restore(bytes) -> state`, by which long
    views get snapshots; `replaces(envelope) -> key`, for records of which the last by that key
    stands; and `latest_only`, where the state follows from the last record alone.
    """

    def initial(self) -> S:
        """The state before the first record."""
        ...

    def apply(self, state: S, envelope: Recorded, /) -> S:
        """The state after `envelope`. It may change and return the state that it is given."""
        ...


@dataclass(frozen=True, slots=True)
class Fold(Generic[S]):
    """A fold of plain functions: see `Folding`."""

    initial: Callable[[], S]
    apply: Callable[[S, Recorded], S]
    keep: Callable[[S], bytes] | None = None
    restore: Callable[[bytes], S] | None = None
    replaces: Callable[[Recorded], Hashable | None] | None = None
    latest_only: bool = False


class RecordType(NamedTuple):
    """One type of a kind's records.

    `schema` is its struct. `content` are the values that `redact=` sees, `is_redacted` says that
    whoever makes the record has had them redacted already. `open_fields` hold values of any kind.
    """

    schema: type[msgspec.Struct]
    content: tuple[str, ...]
    is_redacted: bool
    open_fields: tuple[str, ...]


class Kind(Generic[S]):
    """A kind of records, declared once and for all stores; made when a module is imported.

    Calling it with keys names one view of it: `tasks("trip")`. It is a projection as well: it has
    `name`, `family`, `version`, `initial` and `apply`, and what else its fold has.

    Args:
        name: small letters, digits and `_`, 32 at most; unique in a store.
        keys: what its keys are called, in order. The first one chooses the shard.
        records: the struct of each type of records, by the type's name. Types are unique in a
            store. A kind without records folds those of another: see `of`.
        fold: how records become a state: `foldlog.every`, `foldlog.last`, `foldlog.last_by(...)`
            or functions of your own: see `Folding`.
        owner: whose they are by the first key; erasing or clearing that takes them along, a fork
            of a session shares them. None: nobody's.
        version: grows with every change of what the fold computes; snapshots of other versions
            are ignored.
        id: what makes two records the same one: `fresh_id`, `content_digest`,
            `field_id("field")`, or a function of your own.
        of: the kind whose records it folds, for a view of another kind's records.
        redacted: types whose content is redacted before the record is made, with what the hook
            is shown of each.

    Raises:
        ConfigurationError: the declaration cannot work; the message says why.
    """

    def __init__(
        self,
        name: str,
        *,
        fold: Folding[S],
        keys: tuple[str, ...] = (),
        records: Mapping[str, type[msgspec.Struct]] | None = None,
        owner: Owner | None = None,
        version: int = 1,
        id: IdRule = fresh_id,
        of: Kind[Any] | None = None,
        redacted: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"a kind's name is 1 to 32 small letters, digits and _, not {name!r:.80}"
            )
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise ConfigurationError(f"kind {name!r}: version is 1 or more, not {version!r:.80}")
        if of is not None and records:
            raise ConfigurationError(f"kind {name!r} folds records of {of.name!r}: none are its")
        self.name: str = name
        self.of = of
        self.keys: tuple[str, ...] = keys if of is None else of.keys
        if not self.keys:
            raise ConfigurationError(f"kind {name!r} needs at least one key")
        self.family: str = name if of is None else of.name
        self.owner: Owner | None = owner if of is None else of.owner
        if self.owner not in (None, "session", "trace"):
            raise ConfigurationError(
                f'kind {name!r}: owner is "session", "trace" or None, not {owner!r:.80}'
            )
        self.version = version
        self.id = id
        before = redacted or {}
        self.records = {
            type_: _record_type(type_, schema, before.get(type_))
            for type_, schema in (records or {}).items()
        }
        self._types = {schema: type_ for type_, schema in (records or {}).items()}
        self._decoders = {
            type_: codec.decoder(found.schema) for type_, found in self.records.items()
        }
        self._take_fold(name, fold)

    def _take_fold(self, name: str, fold: Any) -> None:
        for function in ("initial", "apply"):
            if not callable(getattr(fold, function, None)):
                raise ConfigurationError(f"kind {name!r}: its fold has no function {function}")
        self.latest_only = bool(getattr(fold, "latest_only", False))
        self.initial: Callable[[], S] = fold.initial
        self.apply: Callable[[S, Recorded], S] = fold.apply
        self.replaces: Callable[[Recorded], Hashable | None] | None = getattr(
            fold, "replaces", None
        )
        for function in ("keep", "restore"):
            if (found := getattr(fold, function, None)) is not None:
                setattr(self, function, found)

    def __call__(self, *keys: str) -> Key[S]:
        """Name one view, by all of its keys.

        Raises:
            PayloadError: there are more or fewer keys than the kind has.
        """
        if len(keys) != len(self.keys):
            wanted = ", ".join(self.keys)
            raise PayloadError(self.name, f"takes {wanted}, and was given {len(keys)} key(s)")
        return Key(self, keys)

    def type_of(self, record: msgspec.Struct) -> str:
        """The type of a record.

        Raises:
            PayloadError: the kind has no such records.
        """
        type_ = self._types.get(type(record))
        if type_ is None:
            known = ", ".join(schema.__name__ for schema in self._types)
            raise PayloadError(
                self.name, f"its records are {known or 'none'}, not {type(record).__name__}"
            )
        return type_

    def decode(self, envelope: Recorded) -> Any:
        """The record that an envelope of this kind holds.

        Raises:
            msgspec.MsgspecError: it holds something else.
        """
        decoder = self._decoders.get(envelope.type)
        if decoder is None and self.of is not None:
            return self.of.decode(envelope)
        if decoder is None:
            raise msgspec.ValidationError(f"{envelope.type} is no record of {self.name}")
        return decoder.decode(envelope.payload)

    def __repr__(self) -> str:
        return f"<Kind {self.name} of {', '.join(self.keys)}>"


class Key(NamedTuple, Generic[S]):
    """One view: a kind and its keys. `kind(*keys)` makes one."""

    kind: Kind[S]
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind.name}({', '.join(map(repr, self.keys))})"


def _record_type(
    type_: str, schema: type[msgspec.Struct], redacted: tuple[str, ...] | None
) -> RecordType:
    if not _TYPE.fullmatch(type_):
        raise ConfigurationError(f"a record's type is like task.saved, not {type_!r:.80}")
    if not (isinstance(schema, type) and issubclass(schema, msgspec.Struct)):
        raise ConfigurationError(f"{type_}: its records are msgspec structs, not {schema!r:.80}")
    content, open_fields = [], []
    for field in _fields(schema):
        found = field.type
        if isinstance(found, msgspec.inspect.Metadata):
            if (found.extra or {}).get("content"):
                content.append(field.name)
            found = found.type
        if _holds_anything(found):
            open_fields.append(field.name)
    return RecordType(
        schema,
        tuple(content) if redacted is None else redacted,
        redacted is not None,
        tuple(open_fields),
    )


def _fields(schema: type[msgspec.Struct]) -> tuple[msgspec.inspect.Field, ...]:
    found = msgspec.inspect.type_info(schema)
    if not isinstance(found, msgspec.inspect.StructType):
        raise ConfigurationError(f"{schema.__name__} is no struct that msgspec can look into")
    return found.fields


def _holds_anything(found: msgspec.inspect.Type) -> bool:
    """Whether a field's type lets in values that MessagePack has no types for."""
    match found:
        case msgspec.inspect.AnyType():
            return True
        case msgspec.inspect.DictType(value_type=inner) | msgspec.inspect.ListType(item_type=inner):
            return _holds_anything(inner)
        case msgspec.inspect.UnionType(types=inners):
            return any(map(_holds_anything, inners))
    return False

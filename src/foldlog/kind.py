"""Kinds: the records of a view, its keys, its owner, and how the records fold into it.

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
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache, cached_property
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from foldlog import codec
from foldlog.envelope import Recorded, upsert_id
from foldlog.errors import ConfigurationError, PayloadError
from foldlog.recordtypes import (
    Blob as Blob,
    Content as Content,
    Incidental as Incidental,
    RecordType,
    fields_of as fields_of,
    record_type,
)
from foldlog.subjects import checked_id
from foldlog.words import Line, Shown, Speaker, clip, first_text

S = TypeVar("S")

Owner = Literal["session", "trace", "scope"] | Callable[..., str | None]
"""Whose a view is. The first key names the session; or a trace, which goes with the sessions that
list it; or a scope, which is a session's if it is `session:<id>`. Or a function of all keys returns
the session's id, None for nobody's: what is saved to such a view is entered in a list of the
session.
"""

Named = Callable[[S], Iterable[tuple[str, tuple[str, ...]]]]
"""Returns what a state names: pairs of a kind's name and a view's keys."""

KeysIn = Callable[[tuple[str, ...], str], tuple[str, ...]]
"""Returns the keys that a view of these keys has in the session of that id."""

IdRule = Callable[[Any, bytes], str]
"""Makes a record's idempotency key of the record and its encoding."""

_OF_SESSION: Final = "session:"
_NAME: Final = re.compile("[a-z][a-z0-9_]{0,31}")


def fresh_id(record: Any, body: bytes) -> str:
    """Return the id of a record that replaces: new each time, with a hash of the content.

    Args:
        record: the record.
        body: the record, encoded.
    """
    return upsert_id(body)


def content_digest(record: Any, body: bytes) -> str:
    """Return the id of a record whose content has one effect, however often it is saved.

    Args:
        record: the record.
        body: the record, encoded.
    """
    return codec.digest(body)


@dataclass(frozen=True, slots=True)
class content_rule:  # noqa: N801 - a rule, as the functions beside it
    """Declare that a function's ids follow from the content: equal ids mean equal contents.

    Args:
        make: returns the id of a record, given the record and its encoding.
    """

    make: IdRule

    def __call__(self, record: Any, body: bytes) -> str:
        return self.make(record, body)


def field_id(name: str) -> IdRule:
    """Return an id rule by which a field of the record is its id: a repeat has no effect.

    Args:
        name: the field's name.
    """

    def given(record: Any, body: bytes) -> str:
        return checked_id(getattr(record, name), name)

    return given


@dataclass(frozen=True, slots=True)
class Fold(Generic[S]):
    """How records become a state: `apply(state, record, envelope)` returns the state after one.

        def add(calls, event, envelope):
            calls[event.node_name] = calls.get(event.node_name, 0) + 1
            return calls

        fold = foldlog.Fold(dict, add, state=dict[str, int])

    `apply` may change and return the state that it is given. It does no I/O and reads no clock.
    The kind decodes the record, and refuses types that it does not know.

    Args:
        initial: returns the state before the first record.
        apply: returns the state after a record; called `apply(state, envelope)` with
            `takes="envelope"`.
        state: the state's type, which msgspec encodes and decodes: long views get snapshots.
        takes: `"record"`: the record as its struct. `"native"`: the same, but `Any` fields hold
            MessagePack's own types, with extensions left as they are. `"envelope"`: nothing is
            decoded, for folds that store envelopes or decode a single field.
            `"field"`: `apply(state, value, envelope)`, where `value` is what `replaces` finds;
            nothing else is decoded.
        replaces: the field, or fields, by which a record replaces an earlier one; or a function
            from envelope to key, None for nothing. A record that arrives late then never takes
            the place of a newer one of the same writer.
        keep: makes bytes of a state, where `state` cannot describe it.
        restore: makes a state of these bytes.
        latest_only: the state follows from the last record alone.
        forgets_ids: applying a record again is harmless, or is mended by its readers. The fold then
            remembers the ids of late records only, as a list does whose entries come and go. If its
            state is a dict by what `replaces` finds, a key that goes is forgotten, too.
        remains: what clearing a view leaves of it, for late writers to be refused by: a function
            from the state to bytes, which hold no content, and one from those to the state with
            which the view begins anew, which is false as an empty one is. What the first one makes
            is in the log: later versions read it, too.
        early_snapshots: restoring a state is much cheaper than folding it. Snapshots are then
            taken of short views, too, once nobody has written to them for a second, and looked
            for before the log is read.
    """

    initial: Callable[[], S]
    apply: Callable[[S, Any, Recorded], S] | Callable[[S, Recorded], S]
    _: KW_ONLY
    state: Any = None
    takes: Literal["record", "native", "envelope", "field"] = "record"
    replaces: str | tuple[str, ...] | Callable[[Recorded], Hashable | None] | None = None
    keep: Callable[[S], bytes] | None = None
    restore: Callable[[bytes], S] | None = None
    latest_only: bool = False
    forgets_ids: bool = False
    remains: tuple[Callable[[S], bytes], Callable[[bytes], S]] | None = None
    early_snapshots: bool = False


class Listing(NamedTuple):
    """An entry that a view has in a list, which is a view of another kind.

    Attributes:
        list: the kind of the list.
        off: returns the records that take the view off the list, given the view's keys and the
            list's state.
        keys: returns the list's keys, given the view's keys and state; None: there is no entry.
            Left out: each shard has one list, with the views of that shard.
    """

    list: Kind[Any]
    off: Callable[[tuple[str, ...], Any], Sequence[msgspec.Struct]]
    keys: Callable[[tuple[str, ...], Any], tuple[str, ...] | None] | None = None


class Kind(Generic[S]):
    """A kind of records, declared once and for all stores; made when a module is imported.

    Calling it with keys names one view of it: `tasks("trip")`.

    Args:
        name: small letters, digits and `_`, 32 at most; unique in a store.
        keys: what its keys are called, in order. The first one chooses the shard.
        records: the struct of each type of records, by the type's name. Types are unique in a
            store.
        fold: how records become a state: `foldlog.every`, `foldlog.last`, `foldlog.last_by(...)`
            or a `foldlog.Fold` made of your functions.
        owner: whose its views are, as a `foldlog.Owner`. Clearing or erasing the owner removes
            them, and a fork of a session shares them.
        owns: returns what else belongs to the owner of a view, given the view's state: pairs of
            `"trace"` and a trace's id, or of another kind's name and a view's keys.
        pointers: returns the views of other kinds that only say where something of a view is, given
            one of its records: pairs as of `owns`. They go when the view goes.
        listed: the entries of a view in lists, which go when the view goes.
        version: grows with every change of what the fold computes; snapshots of other versions
            are ignored.
        id: what makes two records the same one: `fresh_id`, `content_digest`,
            `field_id("field")`, or a function from record and encoded record to id.
        of: the kind whose records it folds, for a view of another kind's records.
        beside: types of records that say something about the record before them, where the state
            follows from the last record alone: they leave it as it is.
        redacted: types whose content is redacted before the record is made, with what the hook
            is shown.
        shown: how its records and views are shown, in plain words.
        keys_in: returns the keys that a view of these keys has in another session, given that
            session's id: for an owner that is a function. A fork then reads its origin's views
            under its own keys.
        of_storage: it says how this log is stored, so that no table shows it, and no copy of the
            log has it.

    Raises:
        ConfigurationError: the declaration cannot work; the message says why.

    Examples:
        >>> class Cost(msgspec.Struct):
        ...     euros: float
        >>> costs = foldlog.Kind(
        ...     "costs", keys=("trip",), records={"cost.added": Cost}, fold=foldlog.every
        ... )
        >>> costs("oslo").keys
        ('oslo',)
    """

    def __init__(
        self,
        name: str,
        *,
        fold: Fold[S],
        keys: tuple[str, ...] = (),
        records: Mapping[str, type[msgspec.Struct]] | None = None,
        owner: Owner | None = None,
        owns: Named[S] | None = None,
        pointers: Named[Any] | None = None,
        listed: Sequence[Listing] = (),
        version: int = 1,
        id: IdRule = fresh_id,
        of: Kind[Any] | None = None,
        redacted: Mapping[str, tuple[str, ...]] | None = None,
        beside: Sequence[str] = (),
        shown: Shown[S] | None = None,
        keys_in: KeysIn | None = None,
        of_storage: bool = False,
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"a kind's name is 1 to 32 small letters, digits and _, not {name!r:.80}"
            )
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise ConfigurationError(f"kind {name!r}: version is 1 or more, not {version!r:.80}")
        if of is not None and records:
            raise ConfigurationError(
                f"kind {name!r} folds the records of {of.name!r}, and can have none itself: leave "
                "out records="
            )
        if not isinstance(fold, Fold):
            raise ConfigurationError(f"kind {name!r}: fold is a foldlog.Fold, not {fold!r:.80}")
        self.name: str = name
        self.version = version
        self.id: IdRule = id if of is None else of.id
        self.of = of
        self.family: str = name if of is None else of.name
        self.keys: tuple[str, ...] = keys if of is None else of.keys
        self.owner: Owner | None = owner if of is None else of.owner
        if not self.keys:
            raise ConfigurationError(f"kind {name!r} needs at least one key")
        if self.owner not in (None, "session", "trace", "scope") and not callable(self.owner):
            raise ConfigurationError(
                f'kind {name!r}: owner is "session", "trace", "scope", a function of its keys or '
                f"None, not {owner!r:.80}"
            )
        self.owns = owns
        self.pointers = pointers
        self.beside: frozenset[str] = frozenset(beside) if of is None else of.beside
        self.listed: tuple[Listing, ...] = tuple(listed)
        self.records: dict[str, RecordType] = {
            type_: record_type(type_, schema, (redacted or {}).get(type_))
            for type_, schema in (records or {}).items()
        }
        self._types = {each.schema: type_ for type_, each in self.records.items()}
        self._schemas: Mapping[str, Any] = (records or {}) if of is None else of._schemas
        self._decoders = _Decoders(self, codec.decoder)
        self.digest_of: Callable[[str], Callable[[bytes], int]] | None = None
        if self.id not in (fresh_id, content_digest) and not isinstance(self.id, content_rule):
            self.digest_of = cache(self._digest_of)
        of_session = self.owner in ("trace", "scope") and self._in_session
        self.keys_in: KeysIn | None = keys_in or of_session or None
        self.of_storage: bool = of_storage
        self._take_shown(shown or (Shown() if of is None else of.shown))
        self._take_fold(fold)

    def _take_shown(self, shown: Shown[S]) -> None:
        self.shown: Shown[S] = shown
        try:
            self._lines = Speaker(self.shown.lines, self._schemas, self.keys)
            self._titles = Speaker(self.shown.titles, self._schemas, self.keys)
        except ConfigurationError as error:
            raise ConfigurationError(f"kind {self.name!r}: {error}") from None

    def _digest_of(self, type_: str) -> Callable[[bytes], int]:
        record = (self if self.of is None else self.of).records.get(type_)
        # A fork's records name their session otherwise.
        return zlib.crc32 if record is None else record.digest_without(self.keys)

    @cached_property
    def has_blobs(self) -> bool:
        """Whether its records can name large values."""
        return any(each.blobs is not None for each in self.records.values())

    def session_of(self, keys: tuple[str, ...]) -> str | None:
        """Return the session whose a view is, by its keys; None if they name none.

        Args:
            keys: the view's keys.
        """
        if callable(self.owner):
            return self.owner(*keys)
        if self.owner == "session":
            return keys[0]
        if self.owner is not None and keys[0].startswith(_OF_SESSION):
            return keys[0].removeprefix(_OF_SESSION) or None
        return None

    def line(self, type: str, record: Any, keys: Sequence[str]) -> Line:
        """Internal: see `Key.line`."""
        found = self._lines.line(type, record, keys)
        if found is None:
            known = (self.of or self).records.get(type)
            content = [getattr(record, name) for name in known.content] if known else []
            found = Line(type.replace(".", " ").replace("_", " "), clip(first_text(content)))
        return found._replace(group=found.group or self.shown.group or self.family)

    def title(self, type: str, record: Any, keys: Sequence[str]) -> str:
        """Internal: see `Key.title`."""
        return str(self._titles.line(type, record, keys) or "")

    def _in_session(self, keys: tuple[str, ...], session_id: str) -> tuple[str, ...]:
        return (f"{_OF_SESSION}{session_id}", *keys[1:])

    def _take_fold(self, fold: Fold[S]) -> None:
        self.initial: Callable[[], S] = fold.initial
        # Where an id may come again, the last record alone does not tell whether it is a repeat.
        self.latest_only: bool = fold.latest_only and self.id is fresh_id
        self.forgets_ids: bool = fold.forgets_ids
        self.early_snapshots: bool = fold.early_snapshots
        self.state: Any = fold.state
        self.remains: tuple[Callable[[S], bytes], Callable[[bytes], S]] | None = fold.remains
        apply: Any = fold.apply
        self.apply: Callable[[S, Recorded], S] = apply
        replaces = (fold.replaces,) if isinstance(fold.replaces, str) else fold.replaces
        if fold.latest_only:
            replaces = self._everything
            if self.beside:
                self.apply = lambda state, envelope: (
                    state if envelope.type in self.beside else apply(state, envelope)
                )
        key_of = self._fields(replaces) if isinstance(replaces, tuple) else replaces
        self.replaces: Callable[[Recorded], Any] | None = key_of
        if fold.takes == "field":
            if key_of is None:
                raise ConfigurationError(f'kind {self.name!r}: takes="field" needs replaces=')
            self.apply = lambda state, envelope: apply(state, key_of(envelope), envelope)
        elif fold.takes != "envelope":
            native = fold.takes == "native"
            decoders = _Decoders(self, msgspec.msgpack.Decoder) if native else self._decoders
            self.apply = lambda state, envelope: apply(
                state, decoders[envelope.type].decode(envelope.payload), envelope
            )
        self.keep: Callable[[S], bytes] | None = fold.keep
        self.restore: Callable[[bytes], S] | None = fold.restore
        if fold.state is not None:
            self.keep = fold.keep or msgspec.msgpack.Encoder().encode
            self.restore = fold.restore or msgspec.msgpack.Decoder(fold.state).decode

    def _everything(self, envelope: Recorded) -> str | None:
        return None if envelope.type in self.beside else ""

    def _fields(self, names: tuple[str, ...]) -> Callable[[Recorded], Any]:
        of_type = {type_: fields_of(*names, of=each) for type_, each in self._schemas.items()}
        of_others = fields_of(*names)
        return lambda envelope: of_type.get(envelope.type, of_others)(envelope)

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
        """Return the type of a record.

        Args:
            record: a record of this kind.

        Raises:
            PayloadError: the kind has no such records.
        """
        type_ = self._types.get(type(record))
        if type_ is None:
            known = ", ".join(schema.__name__ for schema in self._types) or "none"
            raise PayloadError(self.name, f"its records are {known}, not {type(record).__name__}")
        return type_

    def decode(self, envelope: Recorded) -> Any:
        """Return the record that an envelope of this kind holds.

        Args:
            envelope: an envelope, as `Fold(takes="envelope")` is given it.

        Raises:
            ValueError: it holds something else, or its type is unknown (`msgspec.MsgspecError`).
        """
        return self._decoders[envelope.type].decode(envelope.payload)

    def __repr__(self) -> str:
        return f"<Kind {self.name} of {', '.join(self.keys)}>"


class Told(Protocol):
    """A record and its type, as a `foldlog.Item` has them."""

    @property
    def type(self) -> str: ...
    @property
    def record(self) -> Any: ...


class Key(NamedTuple, Generic[S]):
    """One view: a kind and its keys. `kind(*keys)` makes one.

    Attributes:
        kind: the kind.
        keys: the keys, in the order in which the kind declares them.
    """

    kind: Kind[S]
    keys: tuple[str, ...]

    def line(self, item: Told) -> Line:
        """Return one of the view's records in plain words, which `Kind(shown=...)` declares.

        Args:
            item: an item of `store.items` or `store.watch`.
        """
        return self.kind.line(item.type, item.record, self.keys)

    def title(self, item: Told) -> str:
        """Return the title that a record gives its session or trace, "" for none.

        Args:
            item: an item of `store.items` or `store.watch`.
        """
        return self.kind.title(item.type, item.record, self.keys)

    def __str__(self) -> str:
        return f"{self.kind.name}({', '.join(map(repr, self.keys))})"


class _Decoders(dict[str, Any]):
    """A decoder for each type of records that a kind folds; other types are refused."""

    def __init__(self, kind: Kind[Any], decoder_of: Callable[[Any], Any]) -> None:
        super().__init__({type_: decoder_of(each) for type_, each in kind._schemas.items()})
        self._name = kind.name

    def __missing__(self, type_: str) -> Any:
        raise msgspec.ValidationError(f"{type_} is no record of {self._name}")

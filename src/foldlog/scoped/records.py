"""The envelopes of scoped state, made and read. No I/O."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from foldlog import codec
from foldlog.envelope import CLEARED, FORKED, Draft, Recorded, draft
from foldlog.errors import LogCorrupt
from foldlog.log.port import Record
from foldlog.scoped.documents import Text
from foldlog.scoped.models import ContentKind, Lifetime, MemoryLink, MemoryTier, StoreOptions
from foldlog.scoped.text import text_of
from foldlog.store.payloads import dump
from foldlog.store.restoring import FAULTS, load, restoring, unreadable
from foldlog.subjects import checked_id, unescape
from foldlog.upcasting import UPCASTERS
from foldlog_projections.scoped import scoped
from foldlog_projections.scoped.scoped import OWN, Embedded, Linked, Written


class Change(NamedTuple):
    """What is to be appended to a key; of a link, to the scope's own subject."""

    key: str
    draft: Draft


class KeyEvent(NamedTuple):
    """What the log recorded of a key; of a link, under the scope's own. `record` is None where that
    says that the key is gone; `text` is what can be found of a value.
    """

    key: str
    envelope: Recorded
    record: Written | Linked | Embedded | None
    text: Text | None = None


class Held(NamedTuple):
    """A key's last envelope. `written` is None if it says that the key is gone."""

    envelope: Recorded
    written: Written | None

    @property
    def version(self) -> str:
        """The id by which writers compare."""
        return self.envelope.id

    def is_there(self, now: float) -> bool:
        """Whether the key has a value at that time, in Unix seconds."""
        if self.written is None:
            return False
        ttl = self.written.ttl
        return ttl < 0 or self.envelope.recorded_at + ttl / 1000 > now


def written(key: str, body: bytes, options: StoreOptions, version: str, blob: str = "") -> Change:
    """The key gets this value: an encoded payload, which is in the `blob` if there is one."""
    hints: dict[str, Any] = {
        "tier": options.tier or "",
        "lifetime": options.lifetime or "",
        "content_kind": kind_text(options.content_kind),
        "salience": None if options.salience is None else float(options.salience),
        "ttl": -1 if options.ttl is None else options.ttl,
        "blob": blob,
    }
    value = Written(**hints) if blob else Written(value=msgspec.Raw(body), **hints)
    return Change(checked_id(key, "key"), draft(scoped.WRITTEN, dump(value), id=version))


def deleted(key: str) -> Change:
    """The key goes."""
    body = dump(scoped.Deleted())
    return Change(checked_id(key, "key"), draft(scoped.DELETED, body, id=new_version()))


def linked(link: MemoryLink) -> Change:
    """The link is made, or gets this metadata."""
    return Change(OWN, _link(scoped.LINKED, link))


def unlinked(from_key: str, to_key: str, relation: str) -> Change:
    """The link goes."""
    return Change(OWN, _link(scoped.UNLINKED, MemoryLink(from_key, to_key, relation)))


@restoring
def read(envelope: Recorded) -> Held:
    """An envelope of a key, read."""
    if envelope.type == scoped.DELETED:
        return Held(envelope, None)
    if envelope.type == scoped.WRITTEN:
        return Held(envelope, load(Written, envelope.payload))
    raise msgspec.ValidationError(f"{envelope.type} is not known to this version")


def events_of(page: Sequence[Record]) -> list[KeyEvent]:
    """What the records of a scope say, in order. It takes its time: call it on a thread."""
    return [
        _event_of(key_of(record.subject, each), each)
        for record in page
        for each in record.envelopes
    ]


def _event_of(key: str, envelope: Recorded) -> KeyEvent:
    if envelope.type in (CLEARED, FORKED, scoped.DELETED):
        return KeyEvent(key, envelope, None)
    try:
        record = scoped.kind.decode(UPCASTERS.bring_up(envelope))
    except msgspec.MsgspecError as error:
        raise LogCorrupt(scoped.kind.name, envelope.seq, str(error)) from error
    if not isinstance(record, Written) or record.blob:
        return KeyEvent(key, envelope, record)
    return KeyEvent(key, envelope, record, text_in(key, record.value, envelope))


def text_in(key: str, payload: bytes | msgspec.Raw, envelope: Recorded) -> Text:
    """What can be found of an encoded value. Raises LogCorrupt: it cannot be read."""
    return Text.of(key, key, text_of(decoded(payload, envelope)))


def decoded(payload: bytes | msgspec.Raw, envelope: Recorded) -> Any:
    """An encoded value, decoded: a new object. Raises LogCorrupt: it cannot be read."""
    try:
        return codec.decode(payload)
    except FAULTS as fault:
        raise unreadable(envelope, fault) from fault


def options_of(found: Written) -> StoreOptions:
    """The hints of a write, as they were given."""
    return StoreOptions(
        tier=MemoryTier(found.tier) if found.tier else None,
        lifetime=Lifetime(found.lifetime) if found.lifetime else None,
        content_kind=kind_of(found.content_kind),
        salience=found.salience,
        ttl=None if found.ttl < 0 else found.ttl,
    )


def kind_text(kind: ContentKind | None) -> str:
    """A kind of content as it stands in an envelope."""
    if kind is None:
        return ""
    return f"custom:{kind.name}" if kind.is_custom else kind.name


def kind_of(text: str) -> ContentKind | None:
    """The kind of content that stands in an envelope so."""
    if not text:
        return None
    kind, _, name = text.partition(":")
    return ContentKind.custom(name) if name else ContentKind.from_json(kind)


def time_of(envelope: Recorded) -> dt.datetime:
    """When the log recorded it."""
    return dt.datetime.fromisoformat(envelope.time)


def _link(type: str, link: MemoryLink) -> Draft:
    body = dump(
        Linked(
            from_key=checked_id(link.from_key, "from_key"),
            to_key=checked_id(link.to_key, "to_key"),
            relation=checked_id(link.relation, "relation"),
            metadata=msgspec.Raw(codec.encode(link.metadata, "link.metadata")),
        )
    )
    return draft(type, body, id=new_version())


def key_of(subject: str, envelope: Recorded) -> str:
    """The key of a scope to which an envelope belongs, by its subject's name.

    Raises:
        LogCorrupt: neither tells it.
    """
    key = envelope.keys[-1] if envelope.keys else unescape(subject.rpartition(".")[2])
    if key is None:
        raise LogCorrupt(subject, envelope.seq, "the keys of a hashed subject are missing")
    return key


def new_version() -> str:
    """An id that no other envelope has."""
    return secrets.token_hex(10)

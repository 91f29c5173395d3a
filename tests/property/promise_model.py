"""What a store owes whoever saves in it: the shapes of views, and a model of what each must hold.

Every kind is the same to the model: a view is the list of the saves that took effect in it since
it was last cleared, and its state is what the kind's fold makes of that list.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec

import foldlog
from foldlog import Store
from foldlog.kind import Key
from tests.support.build import event, steering, task, update

Identity = Literal["given", "content", "fresh"]
"""What makes two saves the same one: the id that they give, their content, or nothing."""


class Effect(NamedTuple):
    """A save that took effect."""

    identity: Hashable
    id: str
    content: str


class Note(msgspec.Struct, frozen=True):
    """The record of the kinds declared here. `parity` is a field that several ids share."""

    id: str
    content: str
    parity: str


def note(id: str, content: str) -> Note:
    """Make a record."""
    return Note(id, content, "odd" if id in "ace" else "even")


def _count(state: dict[str, int], each: Note, envelope: object) -> dict[str, int]:
    state[each.content] = state.get(each.content, 0) + 1
    return state


def _declared(name: str, fold: foldlog.Fold[Any], id: Any, owner: Any = "session") -> Any:
    records = {f"{name}.saved": Note}
    return foldlog.Kind(name, keys=("session_id",), records=records, fold=fold, id=id, owner=owner)


_given = foldlog.field_id("id")
_count_fold: foldlog.Fold[Any] = foldlog.Fold(dict, _count, state=dict[str, int])

notes = _declared("notes", foldlog.every, _given)
marks = _declared("marks", foldlog.every, foldlog.content_digest)
ticks = _declared("ticks", foldlog.every, foldlog.fresh_id)
newest = _declared("newest", foldlog.last, _given)
verdicts = _declared("verdicts", foldlog.last, foldlog.content_digest)
sides = _declared("sides", foldlog.last_by("parity"), _given)
counts = _declared("counts", _count_fold, _given)
boards = _declared("boards", foldlog.every, _given, None)

KINDS = (notes, marks, ticks, newest, verdicts, sides, counts, boards)

Pair = tuple[str, str]


def _every(effects: Iterable[Effect]) -> Any:
    return [(each.id, each.content) for each in effects]


def _last(effects: Iterable[Effect]) -> Any:
    return next(reversed(_every(effects)), None)


def _sides(effects: Iterable[Effect]) -> Any:
    return {note(*pair).parity: pair for pair in _every(effects)}


def _by_id(effects: Iterable[Effect]) -> Any:
    return list({id: (id, content) for id, content in _every(effects)}.values())


def _counts(effects: Iterable[Effect]) -> Any:
    found: dict[str, int] = {}
    for each in effects:
        found[each.content] = found.get(each.content, 0) + 1
    return found


def _contents(effects: Iterable[Effect]) -> Any:
    return sorted(each.content for each in effects)


def _last_content(effects: Iterable[Effect]) -> Any:
    return next(reversed([each.content for each in effects]), None)


class Shape(NamedTuple):
    """One sort of view: how it is saved to and read, and what it must be.

    Attributes:
        key: the view of a session.
        save: saves an id and a content.
        read: returns the state as plain data, strongly.
        fold: what `read` must return.
        identity: what makes two saves the same one.
        record: makes a record for `decide`; None where the model decides nothing.
        is_owned: it goes with its session, and a fork shares it.
    """

    key: Callable[[str], Key[Any]]
    save: Callable[[Store, str, str, str], Awaitable[None]]
    read: Callable[[Store, str], Awaitable[Any]]
    fold: Callable[[Iterable[Effect]], Any]
    identity: Identity
    record: Callable[[str, str], msgspec.Struct] | None = None
    is_owned: bool = True


def _pair(each: Note) -> Pair:
    return each.id, each.content


def _plain(state: Any) -> Any:
    """A state of one of the kinds declared here, as `fold` gives it."""
    if isinstance(state, Note):
        return _pair(state)
    if isinstance(state, list):
        return [_pair(each) for each in state]
    if isinstance(state, dict):
        return {k: _pair(v) if isinstance(v, Note) else v for k, v in state.items()}
    return state


def _shape(
    kind: Any, fold: Callable[[Iterable[Effect]], Any], identity: Identity, owned: bool = True
) -> Shape:
    async def save(store: Store, session: str, id: str, content: str) -> None:
        await store.append(kind(session), note(id, content))

    async def read(store: Store, session: str) -> Any:
        return _plain(await store.view(kind(session), consistency="strong"))

    return Shape(kind, save, read, fold, identity, note, owned)


async def _save_update(store: Store, session: str, id: str, content: str) -> None:
    await store.save_update(update(id, session, content=content))


async def _read_updates(store: Store, session: str) -> Any:
    found = await store.list_updates(session, consistency="strong")
    return [(each.update_id, each.content) for each in found]


async def _save_steering(store: Store, session: str, id: str, content: str) -> None:
    await store.save_steering(steering(id, session, payload={"text": content}))


async def _read_steering(store: Store, session: str) -> Any:
    found = await store.list_steering(session, consistency="strong")
    return [(each.event_id, each.payload["text"]) for each in found]


def _message(id: str, content: str) -> foldlog.Message:
    return foldlog.Message(id, "text", content)


async def _save_message(store: Store, session: str, id: str, content: str) -> None:
    await store.append_messages(session, [_message(id, content)])


async def _read_messages(store: Store, session: str) -> Any:
    found = await store.list_messages(session, consistency="strong")
    return [(each.id, each.body) for each in found]


async def _save_task(store: Store, session: str, id: str, content: str) -> None:
    await store.save_task(task(id, session, description=content))


async def _read_tasks(store: Store, session: str) -> Any:
    found = await store.list_tasks(session, consistency="strong")
    return [(each.task_id, each.description) for each in found]


def _memory_of(session: str) -> str:
    return f"acme:ann:{session}"


async def _save_memory(store: Store, session: str, id: str, content: str) -> None:
    await store.save_memory_state(_memory_of(session), {"said": content})


async def _read_memory(store: Store, session: str) -> Any:
    found = await store.load_memory_state(_memory_of(session), consistency="strong")
    return None if found is None else found["said"]


async def _save_event(store: Store, session: str, id: str, content: str) -> None:
    said = f"{session} {id} {content}"  # an event says where it was, so that no fork repeats it
    await store.save_event(event(f"session:{session}", kind="mine", payload={"said": said}))


async def _read_events(store: Store, session: str) -> Any:
    found = await store.load_history(f"session:{session}", consistency="strong")
    return sorted(each.payload["said"] for each in found if each.kind == "mine")


def _events(effects: Iterable[Effect]) -> Any:
    return sorted(str(each.identity) for each in effects)


kinds = foldlog.kinds

SHAPES: dict[str, Shape] = {
    "updates": Shape(kinds.updates, _save_update, _read_updates, _every, "given"),
    "steering": Shape(kinds.steering, _save_steering, _read_steering, _every, "given"),
    "messages": Shape(kinds.messages, _save_message, _read_messages, _every, "given", _message),
    "tasks": Shape(kinds.tasks, _save_task, _read_tasks, _by_id, "fresh"),
    "memory": Shape(
        lambda session: kinds.memory(_memory_of(session)),
        _save_memory,
        _read_memory,
        _last_content,
        "fresh",
    ),
    "events": Shape(
        lambda session: kinds.events(f"session:{session}"),
        _save_event,
        _read_events,
        _events,
        "content",
    ),
    "notes": _shape(notes, _every, "given"),
    "marks": _shape(marks, _every, "content"),
    "ticks": _shape(ticks, _every, "fresh"),
    "newest": _shape(newest, _last, "given"),
    "verdicts": _shape(verdicts, _last, "content"),
    "sides": _shape(sides, _sides, "given"),
    "counts": _shape(counts, _counts, "given"),
    "boards": _shape(boards, _every, "given", False),
}


class Place(NamedTuple):
    """A view: the name of its shape, and its session."""

    shape: str
    session: str

    def __str__(self) -> str:
        return f"{self.shape}({self.session})"


@dataclass
class View:
    """What took effect since the last clearing, which ended at a sequence of the log.

    `removed` took effect before a clearing, and `shared` before a fork.
    """

    effects: list[Effect] = field(default_factory=list)
    cleared_at: int = 0
    removed: set[Effect] = field(default_factory=set)
    shared: set[Effect] = field(default_factory=set)

    def clear(self) -> None:
        """Empty it."""
        self.removed.update(self.effects)
        self.effects = []
        self.shared = set()


_fresh = itertools.count()


class Model:
    """What a log must hold."""

    def __init__(self) -> None:
        self.views: dict[Place, View] = defaultdict(View)
        self.sessions: list[str] = ["ann", "bob"]
        self.origins: dict[str, str] = {}

    def identity(self, place: Place, id: str, content: str) -> Hashable:
        """Return what a save of that content is recognised by."""
        match SHAPES[place.shape].identity:
            case "given":
                return id
            case "content":
                return (
                    f"{place.session} {id} {content}"
                    if place.shape == "events"
                    else (
                        id,
                        content,
                    )
                )
        return next(_fresh)

    def stored(self, place: Place, identity: Hashable) -> Effect | None:
        """Return what took effect under an identity since the last clearing."""
        found = (each for each in self.views[place].effects if each.identity == identity)
        return next(found, None)

    def save(self, place: Place, effect: Effect) -> None:
        """Have a save take effect, unless it is a repeat or one that its id refuses."""
        if self.stored(place, effect.identity) is None:
            self.views[place].effects.append(effect)

    def state(self, place: Place) -> Any:
        """Return what a reader must find."""
        return SHAPES[place.shape].fold(self.views[place].effects)

    def owned(self, session: str) -> list[Place]:
        """Return the views that go with a session."""
        return [Place(name, session) for name, shape in SHAPES.items() if shape.is_owned]

    def used(self, session: str) -> list[Place]:
        """Return the views of a session in which anything was ever saved."""
        places = [Place(name, session) for name in SHAPES]
        return [each for each in places if self.views[each].effects or self.views[each].removed]

    def forks(self, session: str) -> list[str]:
        """Return the sessions that share the past of one."""
        return [fork for fork, origin in self.origins.items() if origin == session]

    def can_fork(self, session: str) -> bool:
        """Whether a session holds anything that a fork shares for certain."""
        return any(
            self.views[place].effects
            for place in self.owned(session)
            if place.shape not in ("memory", "events")
        )

    def fork(self, session: str, name: str) -> None:
        """Have a new session hold what another one holds."""
        self.sessions.append(name)
        self.origins[name] = session
        for place in self.owned(session):
            effects = self.views[place].effects
            self.views[Place(place.shape, name)] = View(list(effects), shared=set(effects))

    def clear(self, session: str) -> None:
        """Empty what goes with a session, which leaves its origin."""
        for place in self.owned(session):
            self.views[place].clear()
        self.origins.pop(session, None)

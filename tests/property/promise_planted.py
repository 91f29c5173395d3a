"""Bugs against promise 0, planted one at a time: the property must find each.

They are planted in the log, where nothing depends on how a store keeps the promise: what is
appended is stored otherwise than it was given, or what is read is not what was stored. The others
are planted in the store's public methods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, NamedTuple
from unittest.mock import patch

from msgspec.structs import replace

from foldlog import Store
from foldlog.envelope import CLEARED, FORKED, Draft, content_id, pack, unpack
from foldlog.errors import AppendFailed
from foldlog.log.forks import ForkedLog
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append, Record
from foldlog.subjects import Branch, Subject
from tests.property.promise import IdTaken
from tests.property.promise_client import UNREPEATABLE, Client

Plant = Callable[[], AbstractContextManager[Any]]


class Planted(NamedTuple):
    """A bug, and what the property says of it: a pattern."""

    plant: Plant
    symptom: str


PLANTED: dict[str, Planted] = {}


def planted(symptom: str) -> Callable[[Plant], Plant]:
    """Name a bug, and the words by which it must be found."""

    def plant(bug: Plant) -> Plant:
        PLANTED[bug.__name__] = Planted(bug, symptom)
        return bug

    return plant


def _is_save(draft: Draft) -> bool:
    return draft.type not in UNREPEATABLE


# --- clearing -------------------------------------------------------------------------------------


class _Refusing:
    """What was in each subject of each log before it was cleared."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, Subject], set[str]] = defaultdict(set)
        self._refused: dict[tuple[int, Subject], set[str]] = defaultdict(set)

    def note(self, log: Client, append: Append) -> None:
        """Take notice of what is appended."""
        place = id(log.shared), append.subject
        for draft in append.drafts:
            if draft.type == CLEARED:
                self._refused[place] |= self._held.pop(place, set())
            else:
                self._held[place].add(content_id(draft.id))

    def admitted(self, log: Client, append: Append) -> Append:
        """Return an append without what was cleared."""
        refused = self._refused[id(log.shared), append.subject]
        drafts = [each for each in append.drafts if content_id(each.id) not in refused]
        return replace(append, drafts=tuple(drafts))


_append = Client.append


def _refusing(is_refused: Callable[[Append], bool]) -> AbstractContextManager[Any]:
    refusing = _Refusing()

    async def append(self: Client, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        admitted = [refusing.admitted(self, e) if is_refused(e) else e for e in appends]
        left = [each for each in admitted if each.drafts]
        seqs = await _append(self, left, atomic=atomic) if left else []
        for each in left:
            refusing.note(self, each)
        heads = await self.heads()
        stored = iter(seqs)
        return [next(stored) if each.drafts else heads[0] for each in admitted]

    return patch.object(Client, "append", append)


@planted(r"(save|repeat|atomic) .*is (\[\]|None|\{\}|\[.*\]|\(.*\)|\{.*\}|x|y) to .*, not")
def a_log_that_refuses_for_ever_what_was_cleared() -> AbstractContextManager[Any]:
    """As the fold did that remembered every id and content: acked, and dropped."""
    return _refusing(lambda each: each.expect is None)


@planted(r"(decide|transact) .*to a new process, not")
def decisions_that_are_refused_for_their_content() -> AbstractContextManager[Any]:
    return _refusing(lambda each: each.expect is not None and _is_save(each.drafts[0]))


_store = MemoryLog.append


@planted(r"replay .*to a new process, not")
def late_repeats_that_come_back() -> AbstractContextManager[Any]:
    """Whoever sends late what was removed seems to know of the removal."""

    async def append(
        self: MemoryLog, appends: Sequence[Append], *, atomic: bool = False
    ) -> list[int]:
        [head] = await self.heads()
        informed = [
            replace(each, drafts=tuple(replace(draft, known=head) for draft in each.drafts))
            for each in appends
        ]
        return await _store(self, informed, atomic=atomic)

    return patch.object(MemoryLog, "append", append)


# --- other content under a known id ---------------------------------------------------------------


def _quiet(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A method that never says that an id is taken; one that reads is called again."""

    async def call(*args: Any, **options: Any) -> Any:
        try:
            return await method(*args, **options)
        except IdTaken:
            reads = method.__name__.startswith(("view", "list"))
            return await method(*args, **options) if reads else None

    return call


_SAYING = (
    *("append", "append_messages", "save_update", "save_steering"),
    *("view", "list_messages", "list_updates", "list_steering"),
)


@planted("not refused|never learned")
def other_content_that_is_dropped_in_silence() -> AbstractContextManager[Any]:
    plants = ExitStack()
    for name in _SAYING:
        plants.enter_context(patch.object(Store, name, _quiet(getattr(Store, name))))
    return plants


@planted("never learned")
def other_content_that_no_read_tells_of() -> AbstractContextManager[Any]:
    """What was in memory is refused at once; what was not, never."""
    plants = ExitStack()
    for name in _SAYING[4:]:
        plants.enter_context(patch.object(Store, name, _quiet(getattr(Store, name))))
    return plants


# --- answers --------------------------------------------------------------------------------------


@planted("knew of all clearings")
def a_refusal_of_what_is_stored() -> AbstractContextManager[Any]:
    save = Store.append

    async def append(self: Store, *args: Any) -> None:
        await save(self, *args)
        raise AppendFailed("it was cleared meanwhile")

    return patch.object(Store, "append", append)


@planted("does not name the clearing")
def a_refusal_that_names_no_clearing() -> AbstractContextManager[Any]:
    """Whoever does not know of a clearing is told that something went wrong."""
    save = Store.append

    async def append(self: Store, key: Any, *records: Any) -> None:
        if self.log.known(0) < (await self.log.heads())[0]:
            raise AppendFailed("something went wrong")
        await save(self, key, *records)

    return patch.object(Store, "append", append)


# --- forks and backups ----------------------------------------------------------------------------


def _renamed(envelope: Any) -> Any:
    return (
        envelope
        if envelope.type in UNREPEATABLE | {FORKED}
        else replace(envelope, id=f"{envelope.id}-again")
    )


_read = ForkedLog.read


def _sharing(share: Callable[[Record], list[Record]]) -> AbstractContextManager[Any]:
    """Change what a fork reads of its origin."""

    async def read(
        self: ForkedLog, subject: Subject | Branch, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        async for page in _read(self, subject, after=after, strong=strong):
            found = [
                other
                for each in page
                for other in (share(each) if each.subject != subject.name else [each])
            ]
            if found:
                yield found

    return patch.object(ForkedLog, "read", read)


@planted(r"p\d (?!fork).*\((fork\d)\) is .* to .*, not")
def a_fork_that_forgets_the_ids_that_it_shares() -> AbstractContextManager[Any]:
    """A repeat of what it shares takes effect once more."""
    return _sharing(
        lambda record: [replace(record, envelopes=[_renamed(each) for each in record.envelopes])]
    )


@planted(r"fork .*\((fork\d)\) is .* to a new process, not")
def a_fork_that_shares_nothing() -> AbstractContextManager[Any]:
    return _sharing(lambda record: [])


_restore = MemoryLog.restore


@planted(r"p\d (?!restore).* to .*, not")
def a_backup_without_ids() -> AbstractContextManager[Any]:
    """After it was restored, repeats of what it holds take effect once more."""

    async def restore(
        self: MemoryLog, shard: int, records: Sequence[tuple[Subject, bytes, str]], *, after: int
    ) -> None:
        def renamed(data: bytes) -> bytes:
            return pack(
                [
                    Draft(e.id, e.type, e.v, e.ts, e.payload, e.keys, e.writer, e.n, e.known)
                    for e in map(_renamed, unpack(data, 1, ""))
                ]
            )

        changed = [(subject, renamed(data), time) for subject, data, time in records]
        await _restore(self, shard, changed, after=after)

    return patch.object(MemoryLog, "restore", restore)


# --- blocks ---------------------------------------------------------------------------------------


@planted(r"(atomic|transact) .*to .*, not")
def a_block_of_which_a_part_is_stored() -> AbstractContextManager[Any]:
    async def append(self: Client, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        drafts = [draft for each in appends for draft in each.drafts]
        if not atomic or not all(map(_is_save, drafts)):
            return await _append(self, appends, atomic=atomic)
        seqs = await _append(self, appends[:1], atomic=True)
        return seqs * len(appends)

    return patch.object(Client, "append", append)


@planted(r"abandon .*to .*, not")
def an_abandoned_block_that_is_stored() -> AbstractContextManager[Any]:
    """Each save in a block is appended at once."""
    return patch.object(Store, "atomic", lambda self: nullcontext())

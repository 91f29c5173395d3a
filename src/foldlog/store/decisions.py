"""Decisions: the one compare-and-set of the project, and blocks of saves and decisions."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from typing import Any, Final, Literal, NamedTuple, TypeVar

from foldlog.envelope import Draft
from foldlog.errors import (
    AppendConflict,
    AppendUnknown,
    FoldlogError,
    LogCorrupt,
    LogUnavailable,
    Misuse,
    ReadOnlyStore,
)
from foldlog.kind import Key
from foldlog.log.packing import check_shards
from foldlog.log.port import Append
from foldlog.store.blocks import Block, begun, open_block
from foldlog.store.core import DECIDE_SECONDS, Capability, Core
from foldlog.store.operation import nothing, operation
from foldlog.store.spool import Spooled
from foldlog.subjects import Subject
from foldlog.views import Consistency
from foldlog_projections.fold import Folded

T = TypeVar("T")

_log: Final = logging.getLogger("foldlog")

_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.064
"""Seconds before a decision is made again, half of them by chance: doubled each time."""

InAtomic = Literal["stage", "at once", "refuse"]
"""What becomes of a decision inside `atomic()`: it is appended with the block; it acts at once,
because the bytes or purges that follow it cannot wait; or it is refused, because what follows it
happens outside of the log.
"""


class Attempts:
    """Attempts at one decision, with a pause between two of them, until time is up."""

    def __init__(self, seconds: float) -> None:
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._longest = _FIRST_PAUSE

    async def pause(self, error: Exception) -> None:
        """Wait a moment, half of it by chance, and longer each time; past the end raise `error`."""
        left = self._deadline - asyncio.get_running_loop().time()
        if left <= 0:
            raise error
        await asyncio.sleep(min(self._longest * random.uniform(0.5, 1.0), left))
        self._longest = min(2 * self._longest, _LONGEST_PAUSE)


class At:
    """A view's fold and the sequence at which its subject ended when it was read.

    `counts`: a decision has looked at it. What it has not looked at needs no proof.
    """

    def __init__(self, folded: Folded[Any], head: int) -> None:
        self._read = folded, head
        self.counts: bool = False

    @property
    def folded(self) -> Folded[Any]:
        """The fold. Use it before the next await; never change it."""
        self.counts = True
        return self._read[0]

    @property
    def head(self) -> int:
        """The sequence at which the subject ended."""
        self.counts = True
        return self._read[1]


class Decided(NamedTuple):
    """What is appended to a key, and what the caller is given for it."""

    drafts: Sequence[Draft]
    value: Any = None


class Stored(NamedTuple):
    """What was decided for a key, and the sequence at which it stands."""

    value: Any
    seq: int


class Decisions(Capability):
    """What a store does with decisions."""

    def atomic(self) -> AbstractAsyncContextManager[None]:
        """Make the saves and decisions inside `async with store.atomic():` one append, or none.

        The append is made when the block ends. If the block raises, nothing is appended. Reads
        inside do not see what the block saves; decisions do, those of sessions, executions and
        agents included. A block inside another joins it. Removing, erasing, forking and the bytes
        of artifacts act at once.

        In a store with `on_error="degrade"`, a block without a decision waits in the spool while
        the log is away. It counts as stored then: what follows a stored block, such as the
        telemetry of a session, happens at once. If the block is lost, because the spool is full
        or the log refuses it, what follows is left out, and the failure is counted and logged.

        Raises:
            AppendConflict: the block decided on something, and others wrote to it since. Nothing
                was stored: run the block again, or use `transact`.
            Misuse: what was saved lives on several shards. Nothing was stored. A store
                that degrades raises this, too.
            IdTaken: a view has another record of an id; what was saved under it has no effect.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: the block may have been stored; running it again is safe.

        Examples:
            >>> async with store.atomic():
            ...     await store.save_memory_state("acme:ann:trip", {"n": 1})
            ...     await store.save_memory_state("acme:ann:home", {"n": 2})
            >>> await store.load_memory_state("acme:ann:home")
            {'n': 2}
        """
        if self._core.reads_only:
            raise ReadOnlyStore("atomic")
        return self._atomic()

    @operation(encloses=True)
    async def transact(
        self, body: Callable[[], Awaitable[T]], *, timeout: float = DECIDE_SECONDS
    ) -> T:
        """Run `body` in an `atomic()` block, and again while others write to what it decides on.

            async def move() -> None:
                await store.decide(stock("tea"), take_one)
                await store.save_update(taken)

            await store.transact(move)

        Inside another block `body` runs once, as part of it; the outer block's caller runs it
        again.

        Args:
            body: a coroutine function. It may run several times; what it saves takes effect once.
                What it raises is raised.
            timeout: seconds until a body that other writers prevent is given up.

        Returns:
            What `body` returns.

        Raises:
            AppendConflict: others wrote all the time. Nothing was stored.
            IdTaken: a view has another record of an id; what was saved under it has no effect.
            Misuse: what was saved lives on several shards. Nothing was stored.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: the block may have been stored; running it again is safe.
        """
        if open_block(self._core) is not None:
            return await body()
        attempts = Attempts(timeout)
        while True:
            try:
                async with self.atomic():
                    return await body()
            except AppendConflict as conflict:
                if type(conflict) is not AppendConflict:  # an answer or a version: it stays so
                    raise
                await attempts.pause(conflict)

    @asynccontextmanager
    async def _atomic(self) -> AsyncIterator[None]:
        if open_block(self._core) is not None:
            yield
            return
        try:
            with begun(self._core) as block:
                yield
            check_shards(block.drafts)
            if block.is_decided and block.drafts:
                with block.appended():
                    await self._append_decisions(block)
            elif block.drafts or block.before:
                await self._append_saves(block)
            else:
                block.outcome = "stored"
            if block.then and block.outcome == "stored":
                await self._follow_up(block)
        finally:
            block.end()

    @operation(nothing, writes=True, name="atomic")
    async def _append_saves(self, block: Block) -> None:
        with block.appended():
            if block.before:
                with suppress(Spooled):  # so is what follows, which says so
                    await self._core.append_drafts(*block.before)
            await self._core.append_drafts(*block.drafts.items(), atomic=True)

    @operation(nothing, writes=True, name="atomic")
    async def _follow_up(self, block: Block) -> None:
        """Await what waits for the block: the caller cannot tell how much of all is done."""
        try:
            for then in block.then:
                await then()
        except FoldlogError as error:
            ids = [each.id for drafts in block.drafts.values() for each in drafts]
            raise AppendUnknown(ids, f"what follows the block failed: {error}") from error

    @operation(writes=True, name="atomic")
    async def _append_decisions(self, block: Block) -> None:
        """Append a block with a decision that its caller has seen: never spooled nor degraded."""
        core, expected, saves = self._core, block.expected, list[Append]()
        await core.settle()
        if block.before:
            await core.append_drafts(*block.before)
        decided_on = {core.subject_of(key): key for key in expected}
        for subject, drafts in block.drafts.items():
            if subject not in decided_on:
                new, _ = await core.without_repeats(subject, drafts)
                saves += [Append(subject, tuple(new))] if new else []

        def decision(*read: At) -> dict[Key[Any], Decided]:
            for (subject, key), at in zip(decided_on.items(), read, strict=True):
                if at.head != expected[key]:
                    raise AppendConflict(subject.name, expected[key], at.head)
            return {key: Decided(block.drafts[subject]) for subject, key in decided_on.items()}

        await decide_drafts(core, list(expected), decision, also=saves)


def refuse_in_block(core: Core, what: str) -> None:
    """Raise Misuse inside `atomic()`, for what happens outside of the log."""
    if open_block(core) is not None:
        raise Misuse(
            f"{what} cannot be written inside store.atomic(): what it records happens "
            "outside of the log, and would not go with the block; write it before or after"
        )


async def decide_drafts(
    core: Core,
    keys: Sequence[Key[Any]],
    decision: Callable[..., Mapping[Key[Any], Decided]],
    *,
    timeout: float = DECIDE_SECONDS,
    in_atomic: InAtomic = "stage",
    also: Sequence[Append] = (),
    on_conflict: Callable[[], Awaitable[None]] | None = None,
) -> dict[Key[Any], Stored]:
    """As `Store.decide`, of decisions that are drafts.

    Args:
        keys: those that must not have been written to meanwhile. What is decided for others
            is appended in the same moment, wherever they end; on the same shard.
            None: the drafts are appended wherever their views end.
        in_atomic: what becomes of it inside `atomic()`: see `InAtomic`.
        also: what is appended beside it, of decisions that act at once.
        on_conflict: awaited after a conflict; raises where deciding again is of no use.

    1. Read, behind what waits in the spool: what is in memory at first, which the append
    proves, and strongly what the decision has looked at and the append does not prove; all of it
    strongly after a conflict. What holds nothing is looked at together. 2. Decide.
    3. Append where the reading ended. 4. After a conflict, pause and begin again. 5. Where the
    outcome is unknown, read back: what is there was appended, and what is not there can only
    come while its subject ends where it did.
    """
    if in_atomic == "refuse":
        refuse_in_block(core, str(keys[0]))
    block = open_block(core) if in_atomic == "stage" else None
    attempts, staged = Attempts(timeout), block is not None
    consistency: Consistency = "strong" if staged else "session"
    if block is not None:
        block.is_decided = True
    read, wanted = dict[Key[Any], tuple[Folded[Any], int]](), list(keys)
    unproven, refused = set[Key[Any]](), dict[Key[Any], int]()
    while True:
        began = time.monotonic()
        asked = [(key.kind, core.subject_of(key)) for key in wanted]
        none: set[Subject] | None = None
        for n, key in enumerate(wanted):  # a later key is never older than one before it
            if none is None:
                none = await core.hot_views.look_for_none(asked[n:], consistency)
            owed = "session" if none and asked[n][1] in none else consistency
            read[key] = await core.read_at(key, consistency=owed, staged=staged)
        # No await from here on: a view may go on while others read, and its head with it.
        ats = {key: At(*read[key]) for key in keys}
        heads = {key: head for key, (_, head) in read.items()}
        unproven -= set(wanted)
        if consistency != "strong":
            looked = core.hot_views.looked_since
            unproven = {k for k in keys if not looked(k.kind, core.subject_of(k), began)}
        decided: Mapping[Key[Any], Decided] = {}
        refusal: Exception | None = None
        try:
            found = decision(*(ats[key] for key in keys))
            for key in found.keys() & ats.keys():
                ats[key].counts = True  # what is a repeat is seen in the fold
            decided = _new(core, found, read)
        except Exception as error:  # noqa: BLE001 - it is raised below
            refusal = error
        # What is decided proves itself, and what was not looked at needs no proof.
        stale = {key for key in unproven - decided.keys() if ats[key].counts}
        if refusal is not None and not stale:
            seen = {key: heads[key] for key in keys if ats[key].counts}
            if len(seen) < 2 or seen == refused:
                raise refusal
            if refused:
                await attempts.pause(refusal)
            refused, stale = seen, set(seen)  # what was appended between two reads is in one
        consistency = "strong"
        if stale:
            first = min(keys.index(key) for key in stale)
            wanted = [key for key in keys[first:] if key not in decided]
            continue
        wanted, unproven = list(keys), set()
        if block is not None:
            for key, each in decided.items():
                if key in heads:
                    block.expected.setdefault(key, heads[key])
                block.add([(core.subject_of(key), each.drafts)])
            return {key: Stored(each.value, 0) for key, each in decided.items()}
        appends = [
            Append(core.subject_of(key), tuple(each.drafts), heads.get(key))
            for key, each in decided.items()
        ]
        appends += also
        if not appends:
            return {}
        try:
            seqs = await _append_decided(core, appends, attempts)
        except AppendConflict as conflict:
            if on_conflict is not None:
                await on_conflict()
            await attempts.pause(conflict)
        else:
            stored = zip(decided.items(), seqs, strict=False)
            return {key: Stored(each.value, seq) for (key, each), seq in stored}


def _new(
    core: Core,
    decided: Mapping[Key[Any], Decided],
    read: Mapping[Key[Any], tuple[Folded[Any], int]],
) -> dict[Key[Any], Decided]:
    """What was decided, without what the views have already. IdTaken: it is other content.

    What is all repeats is sent again beside something new: that proves what was read of it.
    """
    new = {
        key: core.unsaved(core.subject_of(key), found.drafts, read[key][0] if key in read else None)
        for key, found in decided.items()
    }
    if any(new.values()):
        new |= {key: decided[key].drafts for key in read if key in new and not new[key]}
    return {key: decided[key]._replace(drafts=drafts) for key, drafts in new.items() if drafts}


async def append_directly(core: Core, *appends: tuple[Subject, Sequence[Draft]]) -> None:
    """Append all or nothing, never through the spool; inside `atomic()` with the block.

    Errors as `Log.append`.
    """
    block = open_block(core)
    if block is None:
        await core.append_at_once([Append(subject, tuple(d)) for subject, d in appends])
    else:
        block.is_decided = True
        block.add(appends)


async def _append_decided(core: Core, appends: Sequence[Append], attempts: Attempts) -> list[int]:
    """Append; where an outcome is unknown, read back, and append again what is not there."""
    doubt: AppendUnknown | None = None
    while True:
        conflict: AppendConflict | None = None
        try:
            return await core.append_at_once(appends)
        except AppendUnknown as error:
            doubt = error
        except (AppendConflict, LogUnavailable) as error:
            if doubt is None:
                raise
            conflict = error if isinstance(error, AppendConflict) else None
        try:
            seqs = [await _stored_at(core, append) for append in appends]
        except LogUnavailable as error:
            _log.debug("the outcome of a decision was not read back: %s", error)
        except LogCorrupt as error:  # for instance of a list that is written beside it
            raise doubt from error
        else:
            if all(seqs):
                return seqs
            if conflict is not None:
                raise conflict
        await attempts.pause(doubt)


async def _stored_at(core: Core, append: Append) -> int:
    """The sequence at which an append stands; 0 if it does not."""
    last = append.drafts[-1].id
    async with aclosing(core.forked_log.read(append.subject, after=append.expect or 0)) as pages:
        async for records in pages:
            for record in records:
                if any(each.id == last for each in record.envelopes):
                    core.hot_views.unsettled(append.subject)
                    return record.seq
    return 0

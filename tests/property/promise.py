"""The driver of promise 0: random work by several processes on one log, checked at each step.

A run is a list of steps, made of a seed. Each step is checked as soon as it is done: what the call
answered, and what other processes then read. A run that fails is cut down to the steps that matter.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import foldlog
from foldlog import FoldlogError, SessionHasForks
from foldlog.errors import AppendConflict
from foldlog.exporting import export, restore
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append
from tests.property.promise_client import Abandoned, Block, Call, Process, Saving
from tests.property.promise_model import KINDS, SHAPES, Effect, Model, Place
from tests.property.promise_steps import PROCESSES, Step, steps_of


class _NotYet(FoldlogError):
    """Stands for `IdTaken` where foldlog has none."""


IdTaken: Final[type[Any]] = getattr(foldlog, "IdTaken", _NotYet)

_SESSIONS: Final = 4

_TINY: Final = 1
"""Bytes of hot views of the last process: it reads nearly everything cold."""

_REMOVAL: Final = re.compile("clear|eras|delet|remov", re.IGNORECASE)


class Broken(AssertionError):
    """The promise does not hold."""


def check_run(seed: int) -> Counter[str]:
    """Make the run of a seed; return which cases it met, and how often.

    Raises:
        Broken: the promise breaks. The message has the fewest steps that were found to break it.
    """
    steps = steps_of(seed)
    met = Counter[str]()
    found = broken(steps, met)
    if found is None:
        return met
    steps, reason = shrunk(steps, *found)
    lines = "\n".join(f"  {number}. {each}" for number, each in enumerate(steps))
    raise Broken(f"seed {seed}: {reason}\nafter the steps\n{lines}")


def broken(steps: Sequence[Step], met: Counter[str] | None = None) -> tuple[int, str] | None:
    """Make a run; return at which step the promise breaks and how, None if it holds.

    Args:
        steps: what is done.
        met: is given the cases that the run meets.
    """
    return asyncio.run(_broken(steps, Counter() if met is None else met))


async def _broken(steps: Sequence[Step], met: Counter[str]) -> tuple[int, str] | None:
    world = World(met)
    try:
        for at, step in enumerate(steps):
            try:
                await world.take(step)
                if at == len(steps) - 1:
                    await world.check_all()
            except (AssertionError, FoldlogError) as error:
                return at, f"{step}: {type(error).__name__}: {error}"
    finally:
        await world.close()
    return None


def shrunk(steps: list[Step], at: int, reason: str) -> tuple[list[Step], str]:
    """Cut a run down: nothing after the break, and no step without which it breaks as well."""
    steps = steps[: at + 1]
    for number in reversed(range(at)):
        fewer = steps[:number] + steps[number + 1 :]
        found = broken(fewer)
        if found is not None:
            steps, reason = fewer[: found[0] + 1], found[1]
    return steps, reason


class World:
    """Processes on one log, and the model of what it must hold."""

    def __init__(self, met: Counter[str]) -> None:
        self.met = met
        self.model = Model()
        self.shared = MemoryLog()
        self.sent: list[tuple[list[Append], bool]] = []
        self.processes: list[Process] = []
        self._folder = tempfile.TemporaryDirectory()
        self._open_all()

    def _open(self, number: int) -> Process:
        tiny = number == PROCESSES - 1
        return Process(f"p{number}", self.shared, _TINY if tiny else 1 << 26)

    def _open_all(self) -> None:
        self.processes = [self._open(number) for number in range(PROCESSES)]

    async def close(self) -> None:
        for process in self.processes:
            await process.store.close()
        self._folder.cleanup()

    async def take(self, step: Step) -> None:
        """Do one step, and check it."""
        process = self.processes[step.process]
        session = self.model.sessions[step.session % len(self.model.sessions)]
        places = [(Place(name, session), id, content) for name, id, content in step.saves]
        match step.what:
            case "save":
                await self.save(process, *places[0])
            case "repeat":
                await self.save(process, *self._again(places[0], step.number))
            case "atomic" | "abandon":
                await self.atomic(process, places, fails=step.what == "abandon")
            case "decide" | "transact":
                await self.decide(process, places[0][0], also=step.what == "transact")
            case "clear" | "erase":
                await self.clear(process, session, erases=step.what == "erase")
            case "delete":
                await self.delete(process, places[0][0])
            case "replay":
                await self.replay(step.number)
            case "fork":
                await self.fork(process, session)
            case "restore":
                await self.restore(process)
            case "reopen":
                await self.reopen(step.process)
            case "leave" | "return":
                process.client.is_away = step.what == "leave"
            case "read":
                await self.read(process, places[0][0])
            case "race":
                await self.race(process, self.processes[step.number % PROCESSES], *places[0])

    # --- what is looked at --------------------------------------------------------------------

    async def check(self, *places: Place, by: Process | None = None) -> None:
        """Have a new process read these views, and one that was there before: they agree.

        `by` does not read: its next read may have to tell what became of its save.
        """
        others = [each for each in self.processes[:2] if not (each.client.is_away or each is by)]
        fresh = self._open(0)
        try:
            for place in places:
                wanted = self.model.state(place)
                found = await SHAPES[place.shape].read(fresh.store, place.session)
                expect(found == wanted, f"{place} is {found} to a new process, not {wanted}")
                for other in others[:1]:
                    await self.read(other, place)
        finally:
            await fresh.store.close()

    async def check_all(self) -> None:
        """Check every view that was ever written to."""
        for session in self.model.sessions:
            await self.check(*self.model.used(session))

    async def read(self, process: Process, place: Place) -> None:
        """Read strongly: what is found is what the model holds."""
        found = await SHAPES[place.shape].read(process.store, place.session)
        wanted = self.model.state(place)
        expect(found == wanted, f"{place} is {found} to {process.name}, not {wanted}")
        process.current.add(place)
        process.aware.add(place)

    def is_aware(self, process: Process, place: Place) -> bool:
        """Whether a process knows of the last clearing of a view."""
        known = process.client.known(0) >= self.model.views[place].cleared_at
        return known or place in process.aware

    def has_at_hand(self, process: Process, place: Place) -> bool:
        """Whether a process has in memory all that a view holds."""
        if place not in process.current:
            return False
        return process.store.peek(SHAPES[place.shape].key(place.session), _yes) is not None

    def changed(self, place: Place, by: Process) -> None:
        """Note that only one process has seen the last save in a view."""
        for each in self.processes:
            if each is not by:
                each.current.discard(place)

    # --- saves --------------------------------------------------------------------------------

    def _again(self, given: tuple[Place, str, str], number: int) -> tuple[Place, str, str]:
        """A save that was made before, if there was one; now and then with other content."""
        place = given[0]
        effects = self.model.views[place].effects
        if not effects:
            return given
        effect = effects[number % len(effects)]
        return place, effect.id, effect.content if number % 3 else given[2]

    async def save(self, process: Process, place: Place, id: str, content: str) -> None:
        effect = Effect(self.model.identity(place, id, content), id, content)
        shape = SHAPES[place.shape]
        call = Saving(shape, process, place, effect)
        doubt = await self._saved(process, [(place, effect)], call)
        await self.check(place, by=process)
        await self._settle(process, doubt)

    async def atomic(
        self, process: Process, places: list[tuple[Place, str, str]], *, fails: bool
    ) -> None:
        made: dict[tuple[Place, Any], tuple[Place, Effect]] = {}
        for place, id, content in places:
            effect = Effect(self.model.identity(place, id, content), id, content)
            made.setdefault((place, effect.identity), (place, effect))
        saves = list(made.values())
        doubt = Counter[Place]()
        with suppress(Abandoned):
            doubt = await self._saved(process, saves, Block(process, saves, fails))
        await self.check(*dict.fromkeys(place for place, _ in saves), by=process)
        await self._settle(process, doubt)

    async def _saved(
        self, process: Process, saves: list[tuple[Place, Effect]], call: Call
    ) -> Counter[Place]:
        """Make a call and judge its answer; return where ids were refused without an error."""
        model = self.model
        aware = {place: self.is_aware(process, place) for place, _ in saves}
        others = [
            (place, effect)
            for place, effect in saves
            if (found := model.stored(place, effect.identity)) and found.content != effect.content
        ]
        at_hand = [place for place, _ in others if self.has_at_hand(process, place)]
        try:
            await call.make()
        except IdTaken as error:
            known = {effect.id for _, effect in others}
            expect(error.id in known, f"{error!r}, and no such id has other content")
            expect(error.stored != error.given, f"{error!r} names one content twice")
            self.met["refused at once"] += 1
        except FoldlogError as error:
            expect(not all(aware.values()), f"{error!r}, and {process.name} knew of all clearings")
            expect(bool(_REMOVAL.search(str(error))), f"{error!r} does not name the clearing")
            process.aware |= aware.keys()  # it was just told
        else:
            expect(not at_hand, f"other content under a known id was not refused in {at_hand}")
            for place, effect in saves:
                self._judge_effect(process, place, effect, aware[place])
            return Counter(place for place, _ in others)
        return Counter()

    def _judge_effect(self, process: Process, place: Place, effect: Effect, is_aware: bool) -> None:
        """Take a save whose call returned as one that took effect, or as a repeat."""
        view = self.model.views[place]
        stored = self.model.stored(place, effect.identity)
        if stored is None:
            self.met["as removed" if effect in view.removed else "effect"] += 1
            self.met["not aware"] += not is_aware
            self.model.save(place, effect)
            self.changed(place, process)
        elif stored == effect:
            self.met["repeat"] += 1
            self.met["repeat of what is shared"] += effect in view.shared
        process.aware.add(place)

    async def _settle(self, process: Process, refused: Counter[Place]) -> None:
        """Have a process learn by its next read that its save was refused, and learn it once."""
        for place, count in refused.items():
            told = 0
            while True:
                try:
                    await self.read(process, place)
                    break
                except IdTaken as error:
                    told += 1
                    expect(told <= count, f"{error!r} was raised for a save more than once")
                    expect(error.stored != error.given, f"{error!r} names one content twice")
            self.met["refused later"] += 1
            expect(told > 0, f"{process.name} never learned that its save in {place} was dropped")

    async def decide(self, process: Process, place: Place, *, also: bool) -> None:
        """Decide on an empty view, always the same. Since the last clearing, the first one wins."""
        shape, id, content = SHAPES[place.shape], "a", "x"
        make = shape.record
        if make is None:
            return
        beside = Place("ticks", place.session)

        async def body() -> Any:
            if also:
                await SHAPES["ticks"].save(process.store, place.session, id, content)
            return await process.store.decide(
                shape.key(place.session), lambda state: None if state else [make(id, content)]
            )

        is_free = not self.model.views[place].effects
        if also and place == beside:
            return  # the block would decide on what it has just saved
        is_aware = self.is_aware(process, beside)
        try:
            won = await (process.store.transact(body) if also else body())
        except FoldlogError as error:
            expect(also and not is_aware, f"{error!r} from a decision on {place}")
            expect(bool(_REMOVAL.search(str(error))), f"{error!r} does not name the clearing")
            await self.check(place, beside)
            return
        expect(bool(won) == is_free, f"the decision on {place} answered {won}")
        effect = Effect(self.model.identity(place, id, content), id, content)
        if is_free:
            self.met["decided as before"] += effect in self.model.views[place].removed
            self.model.save(place, effect)
        if also:
            effect = Effect(self.model.identity(beside, id, content), id, content)
            self.model.save(beside, effect)
        for each in (place, beside):
            self.changed(each, process)
        await self.check(place, beside)

    async def race(
        self, process: Process, other: Process, place: Place, id: str, content: str
    ) -> None:
        """Clear a session while a save is on its way: the save may count as before or after."""
        if process is other or self.model.forks(place.session) or not SHAPES[place.shape].is_owned:
            return
        effect = Effect(self.model.identity(place, id, content), id, content)
        is_refused = self.model.stored(place, effect.identity) not in (None, effect)
        client = process.client
        client.held = asyncio.Event()
        client.reached.clear()
        saving = asyncio.create_task(Saving(SHAPES[place.shape], process, place, effect).make())
        reached = asyncio.create_task(client.reached.wait())
        try:
            await asyncio.wait([saving, reached], return_when=asyncio.FIRST_COMPLETED)
            await self._clear(other, place.session, erases=False)
        finally:
            client.held.set()
            client.held = None
            reached.cancel()
            [answer, _] = await asyncio.gather(saving, reached, return_exceptions=True)
        fresh = self._open(0)
        found = await SHAPES[place.shape].read(fresh.store, place.session)
        await fresh.store.close()
        fold = SHAPES[place.shape].fold
        expect(
            found in (fold([]), fold([effect])), f"{place} is {found} after a save and a clearing"
        )
        self.met["raced"] += 1
        if found == fold([effect]):
            self.model.save(place, effect)
            self.changed(place, process)
        if isinstance(answer, IdTaken):
            expect(found == fold([]), f"{answer!r}, and {place} is {found}")
        elif answer is not None:
            expect(isinstance(answer, FoldlogError), f"{answer!r}")
            expect(bool(_REMOVAL.search(str(answer))), f"{answer!r} does not name the clearing")
            expect(found == fold([]), f"{answer!r}, and {place} is {found}")
        if is_refused and answer is None:  # its next read may say so, or know it for removed
            with suppress(IdTaken):
                await self.read(process, place)
        await self.check(*self.model.used(place.session))

    # --- removals -----------------------------------------------------------------------------

    async def clear(self, process: Process, session: str, *, erases: bool) -> None:
        origin = self.model.origins.get(session)
        await self._clear(process, session, erases=erases)
        await self.check(*self.model.used(session), *self.model.used(origin or session))

    async def _clear(self, process: Process, session: str, *, erases: bool) -> None:
        forks = self.model.forks(session)
        try:
            if erases:
                erased = await process.store.erase_session(session)
                expect(not erased.readable, f"{erased.readable} can be read after erasing")
            else:
                await process.store.clear_session(session)
        except SessionHasForks as error:
            expect(sorted(error.forks) == sorted(forks), f"{error!r}, and the forks are {forks}")
            return
        expect(not forks, f"{session} was cleared, and its forks are {forks}")
        self.model.clear(session)
        await self._removed(process, self.model.owned(session))

    async def delete(self, process: Process, place: Place) -> None:
        shape = SHAPES[place.shape]
        if place.shape == "events":
            return  # of a trace, which no fork shares
        forks = self.model.forks(place.session) if shape.is_owned else []
        try:
            await process.store.erase(shape.key(place.session))
        except SessionHasForks as error:
            expect(bool(forks), f"{error!r}, and there are none")
        else:
            expect(not forks, f"{place} was deleted, and its forks are {forks}")
            self.model.views[place].clear()
            await self._removed(process, [place])
        await self.check(place)

    async def _removed(self, process: Process, places: list[Place]) -> None:
        """Note where views begin anew, and that only this process knows."""
        for place in places:
            subject = process.store._core.log.namespace.subject(
                SHAPES[place.shape].key(place.session).kind.family,
                *SHAPES[place.shape].key(place.session).keys,
            )
            last = await self.shared.last(subject)
            heads = await self.shared.heads()
            self.model.views[place].cleared_at = heads[0] if last is None else last.seq
            for each in self.processes:
                each.current.discard(place)
                each.aware.discard(place)
            process.aware.add(place)

    async def replay(self, number: int) -> None:
        """Append once more what was sent before, as a transport does that got no answer."""
        sent = self.sent + [each for process in self.processes for each in process.client.sent]
        if not sent:
            return
        appends, atomic = sent[number % len(sent)]
        with suppress(AppendConflict):
            await self.shared.append(appends, atomic=atomic)
            self.met["late repeat"] += 1
        await self.check_all()

    # --- sessions and processes ---------------------------------------------------------------

    async def fork(self, process: Process, session: str) -> None:
        if len(self.model.sessions) >= _SESSIONS or not self.model.can_fork(session):
            return
        name = f"fork{len(self.model.sessions)}"
        await process.store.fork(session, to=name)
        self.model.fork(session, name)
        await self.check(*self.model.used(name), *self.model.used(session))

    async def restore(self, process: Process) -> None:
        """Bring a backup into an empty log, and go on there."""
        path = Path(self._folder.name) / f"backup-{len(self.sent)}"
        await export(process.store, path)
        log = MemoryLog()
        store = foldlog.memory_store(log=log, kinds=KINDS)
        await restore(store, path)
        await store.close()
        path.unlink()
        for each in self.processes:
            self.sent += each.client.sent
            await each.store.close()
        self.met["restored"] += 1
        self.shared = log
        self._open_all()
        await self.check_all()

    async def reopen(self, number: int) -> None:
        process = self.processes[number]
        self.sent += process.client.sent
        await process.store.close()
        self.processes[number] = self._open(number)


def expect(holds: bool, message: str) -> None:
    """Raise Broken unless something holds."""
    if not holds:
        raise Broken(message)


def _yes(state: object) -> bool:
    return True

"""Judges a history by what the store promises. Pure: the same history, the same verdict.

The log in the end is the truth about order. A run is as the store promises if there is a way to
place every call into that order, and in particular:

| kind | broken is |
|---|---|
| lost | what was acked is on the log, and gives way to nothing older |
| invented | what is on the log, or was read, somebody saved; and was not told "not committed" |
| order | what was acked before another was begun comes first; so do one caller's saves in turn |
| doubled | one effect per id |
| resumed | one caller resumes a pause, and somebody does |
| swapped | a compare-and-set stands directly behind what it expected |
| torn | an atomic block is there whole or not at all, for every reader |
| incomplete | a read is the fold of a prefix of the log that holds what it had to see |
| gap | a watcher is given one run of the log, without gap or repeat, to its end |
| untold | an unknown outcome names its ids; a conflict says what it found |
| alarm | a log that lost nothing is never called corrupt or rewound |
| problem | no leaks, no foreign errors |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from tests.faults.history import Entry, History, Read, Resume, Save, Swap, Watch, replaced


class Violation(NamedTuple):
    """A promise that was broken, and how."""

    kind: str
    detail: str


def judge(history: History) -> list[Violation]:
    """Every promise that a run has broken."""
    return [violation for check in _CHECKS for violation in check(_Case(history))]


class _Case:
    """A history, with what the checks look up in it."""

    def __init__(self, history: History) -> None:
        self.log = history.log
        self.ops = history.ops
        self.damaged = history.damaged
        self.problems = history.problems
        self.saves = [op for op in history.ops if isinstance(op, Save)]
        self.reads = [op for op in history.ops if isinstance(op, Read) and op.outcome == "ok"]
        self.resumes = [op for op in history.ops if isinstance(op, Resume)]
        self.swaps = [op for op in history.ops if isinstance(op, Swap)]
        self.watches = [op for op in history.ops if isinstance(op, Watch)]
        self.effects = {subject: _effects(entries) for subject, entries in self.log.items()}
        self.places: dict[tuple[str, str], int] = {}
        for subject, tokens in self.effects.items():
            for place, token in enumerate(tokens):
                self.places.setdefault((subject, token), place)
        self.stored = {(s, each.token) for s, entries in self.log.items() for each in entries}
        self.attempts: dict[tuple[str, str], list[Save]] = defaultdict(list)
        for save in self.saves:
            for write in save.writes:
                self.attempts[write].append(save)

    def acked(self) -> Iterator[tuple[str, str, Save]]:
        """Every token that a caller was told is committed, with the first such save."""
        for (subject, token), saves in self.attempts.items():
            told = [save for save in saves if save.outcome == "ok"]
            if told:
                yield subject, token, min(told, key=lambda save: save.end or 0)


def _effects(entries: Iterable[Entry]) -> list[str]:
    """The tokens that a fold applies, in order: each envelope id once."""
    return [each.token for each in _firsts(entries) if each.token and not each.overtaken]


def _firsts(entries: Iterable[Entry]) -> list[Entry]:
    """The first entry of each envelope id, in order."""
    first: dict[str, Entry] = {}
    for entry in entries:
        first.setdefault(entry.id, entry)
    return list(first.values())


def lost(case: _Case) -> Iterator[Violation]:
    for subject, token, save in case.acked():
        if (subject, token) not in case.stored:
            yield Violation("lost", f"{token} of {subject}, acked to {save.client}")
    for swap in case.swaps:
        if swap.outcome == "ok" and (swap.subject, swap.token) not in case.places:
            yield Violation("lost", f"{swap.token} of {swap.subject}, acked to {swap.client}")
    for subject, entries in case.log.items():
        firsts = _firsts(entries)
        for place, entry in enumerate(firsts):
            saves = case.attempts[subject, entry.token]
            if not entry.overtaken or len(saves) > 1 or saves[0].outcome != "ok":
                continue
            # Only a save that had not ended when this one began may count as newer.
            key = replaced(entry.token)
            rivals = [e.token for e in firsts[:place] if replaced(e.token) == key]
            if all(s.precedes(saves[0]) for token in rivals for s in case.attempts[subject, token]):
                yield Violation("lost", f"{entry.token} of {subject} gave way to older saves")


def invented(case: _Case) -> Iterator[Violation]:
    possible = {
        write
        for write, saves in case.attempts.items()
        if any(save.outcome != "refused" for save in saves)
    }
    possible |= {(s.subject, s.token) for s in case.swaps if s.outcome != "refused"}
    for subject, token in case.places:
        if (subject, token) not in possible:
            yield Violation("invented", f"{token} of {subject} is on the log")
    seen = [(read.subject, read.client, read.found) for read in case.reads]
    seen += [(watch.subject, watch.client, watch.got) for watch in case.watches]
    seen += [(r.subject, r.client, [r.got]) for r in case.resumes if r.got is not None]
    for subject, client, tokens in seen:
        for token in tokens:
            if (subject, token) not in case.places:
                yield Violation("invented", f"{client} was given {token} of {subject}")


def order(case: _Case) -> Iterator[Violation]:
    first_begun = {
        write: min(save.start for save in saves) for write, saves in case.attempts.items()
    }
    by_subject = defaultdict(list)
    for subject, token, save in case.acked():
        place = case.places.get((subject, token))
        if place is not None and save.end is not None:
            by_subject[subject].append((place, token, save, save.end))
    for subject, acked in by_subject.items():
        # In log order, nothing may have been acked before something earlier was first begun.
        latest, holder = -1, ""
        for _, token, _, end in sorted(acked, key=lambda each: each[0]):
            begun = first_begun[subject, token]
            if begun > latest:
                latest, holder = begun, token
            if end < latest:
                yield Violation("order", f"{subject}: {token} was acked, then {holder} got ahead")
        for client in {save.client for _, _, save, _ in acked}:
            turns = [
                (save.start, place, token)
                for place, token, save, _ in acked
                if save.client == client
                and not save.atomic
                and len(case.attempts[subject, token]) == 1
            ]
            for (_, place, token), (_, after, other) in _pairs(sorted(turns)):
                if after < place:
                    yield Violation("order", f"{subject}: {client} saved {token} before {other}")
    for save in case.saves:
        if save.outcome != "ok" or any(len(case.attempts[w]) > 1 for w in save.writes):
            continue
        last: dict[str, int] = {}
        for subject, token in save.writes:
            place = case.places.get((subject, token), -1)
            if 0 <= place < last.get(subject, -1):
                yield Violation(
                    "order", f"{subject}: {token} stands before what it was saved after"
                )
            last[subject] = place


def doubled(case: _Case) -> Iterator[Violation]:
    seen = [(op.subject, op.client, op.found) for op in case.reads]
    seen += [(op.subject, op.client, op.got) for op in case.watches]
    for subject, client, tokens in seen:
        if len(set(tokens)) < len(tokens) and not subject.startswith("tasks/"):
            twice = next(token for token in tokens if tokens.count(token) > 1)
            yield Violation("doubled", f"{client} was given {twice} of {subject} twice")


def resumed(case: _Case) -> Iterator[Violation]:
    by_subject = defaultdict(list)
    for resume in case.resumes:
        by_subject[resume.subject].append(resume)
    for subject, resumes in by_subject.items():
        winners = [r for r in resumes if r.outcome == "ok" and r.got is not None]
        for token in {r.got for r in winners}:
            who = [r.client for r in winners if r.got == token]
            if len(who) > 1:
                yield Violation("resumed", f"{subject} was resumed by each of {who}")
        acked = [s for where, _, s in case.acked() if where == subject]
        for loser in (r for r in resumes if r.outcome == "ok" and r.got is None):
            taken = any(
                r is not loser
                and (r.got is not None or r.outcome in ("unknown", "pending"))
                and not loser.precedes(r)
                for r in resumes
            )
            if not taken and any(save.precedes(loser) for save in acked):
                yield Violation("resumed", f"{subject} was waiting, and {loser.client} got nothing")


def swapped(case: _Case) -> Iterator[Violation]:
    subjects = {swap.subject for swap in case.swaps}
    for subject in subjects:
        entries = case.log.get(subject, [])
        before = dict(zip((e.token for e in entries), [0, *(e.seq for e in entries)], strict=False))
        at = {entry.token: entry.seq for entry in entries}
        if len(at) < len(entries):
            yield Violation("swapped", f"{subject} holds a compare-and-set twice")
        for swap in (s for s in case.swaps if s.subject == subject):
            if swap.token in at and before[swap.token] != swap.expect:
                yield Violation(
                    "swapped",
                    f"{subject}: {swap.token} stands behind {before[swap.token]}, "
                    f"and expected {swap.expect}",
                )
            if swap.outcome == "ok" and swap.seq != at.get(swap.token):
                yield Violation("swapped", f"{subject}: {swap.token} was said to be at {swap.seq}")
            if swap.actual is not None and (
                swap.actual == swap.expect or swap.actual not in {0, *at.values()}
            ):
                yield Violation("untold", f"{subject}: a conflict of {swap.expect}, {swap.actual}")


def torn(case: _Case) -> Iterator[Violation]:
    for save in case.saves:
        if not save.atomic:
            continue
        there = [write for write in save.writes if write in case.stored]
        if 0 < len(there) < len(save.writes):
            yield Violation("torn", f"of {save.writes} the log holds {there}")
        for subject in {subject for subject, _ in save.writes}:
            tokens = {
                token
                for where, token in save.writes
                if where == subject and (where, token) in case.places
            }
            if len(tokens) > 1 and subject.split("/")[0] not in ("memory", "tasks"):
                for read in case.reads:
                    if read.subject == subject and 0 < len(tokens & set(read.found)) < len(tokens):
                        yield Violation("torn", f"{read.client} read a part of {sorted(tokens)}")


def incomplete(case: _Case) -> Iterator[Violation]:
    acked = defaultdict(list)
    for subject, token, save in case.acked():
        if (subject, token) in case.places:
            acked[subject].append((case.places[subject, token], save))
    reached = defaultdict(list)
    for read in case.reads:
        effects = case.effects.get(read.subject, [])
        lengths = _PREFIXES[read.subject.split("/")[0]](effects, read.found)
        if not lengths:
            yield Violation(
                "incomplete", f"{read.client} read {read.found}, no prefix of {effects}"
            )
            continue
        reached[read.client, read.subject].append((read, min(lengths), max(lengths)))
        least = 0
        for place, save in acked[read.subject]:
            sees = read.consistency == "strong" or (
                read.consistency == "session" and save.client == read.client
            )
            if sees and save.precedes(read):
                least = max(least, place + 1)
        if max(lengths) < least:
            yield Violation(
                "incomplete",
                f"a {read.consistency} read by {read.client} ends after {max(lengths)} of "
                f"{read.subject}, {least} were acked: {effects}",
            )
    for (client, subject), reads in reached.items():
        ended = iter(sorted(reads, key=lambda each: each[0].end or 0))
        earlier, floor = next(ended), 0
        for read, _, most in sorted(reads, key=lambda each: each[0].start):
            while earlier is not None and earlier[0].precedes(read):
                floor = max(floor, earlier[1])
                earlier = next(ended, None)
            if most < floor:
                yield Violation("incomplete", f"{client} saw {subject} go back in time")


def gap(case: _Case) -> Iterator[Violation]:
    for watch in case.watches:
        effects = case.effects.get(watch.subject, [])
        start = effects.index(watch.since) + 1 if watch.since in effects else 0
        due = effects[start:]
        if watch.got != due[: len(watch.got)]:
            yield Violation(
                "gap", f"{watch.client} was given {watch.got} of {watch.subject}: {due}"
            )
        elif watch.whole and len(watch.got) < len(due):
            yield Violation(
                "gap", f"{watch.client} was given {len(watch.got)} of {len(due)} of {watch.subject}"
            )


def untold(case: _Case) -> Iterator[Violation]:
    for save in case.saves:
        if save.outcome == "unknown" and not save.named:
            yield Violation("untold", f"{save.client} was not told of which ids: {save.writes}")
        # Of an update the id is the caller's own.
        own = {token for subject, token in save.writes if subject.startswith("updates/")}
        if save.outcome == "unknown" and not own <= set(save.named or ()):
            yield Violation("untold", f"{save.client} was told of {save.named}, not of {own}")


def alarm(case: _Case) -> Iterator[Violation]:
    for op in case.ops:
        false = op.error.startswith("LogRewound(") or (
            op.error.startswith("LogCorrupt(") and not case.damaged
        )
        if false:
            yield Violation("alarm", f"{op.client} was told {op.error}")


def problem(case: _Case) -> Iterator[Violation]:
    for detail in case.problems:
        yield Violation("problem", detail)


_CHECKS: tuple[Callable[[_Case], Iterator[Violation]], ...] = (
    lost,
    invented,
    order,
    doubled,
    resumed,
    swapped,
    torn,
    incomplete,
    gap,
    untold,
    alarm,
    problem,
)


def _pairs(items: list[tuple[int, int, str]]) -> Iterator[tuple[tuple[int, int, str], ...]]:
    return pairwise(items)


# --- of which prefixes of the log is what was read the fold? -------------------------------------


def _of_feed(effects: list[str], found: list[str]) -> list[int]:
    return [len(found)] if effects[: len(found)] == found else []


def _of_set(effects: list[str], found: list[str]) -> list[int]:
    return [len(found)] if sorted(effects[: len(found)]) == sorted(found) else []


def _of_register(effects: list[str], found: list[str]) -> list[int]:
    if not found:
        return [0]
    return [place + 1 for place, token in enumerate(effects) if found == [token]]


def _of_map(effects: list[str], found: list[str]) -> list[int]:
    lengths = [0] if not found else []
    state: dict[str, str] = {}
    for length, token in enumerate(effects, 1):
        state[replaced(token)] = token
        if list(state.values()) == found:
            lengths.append(length)
    return lengths


_PREFIXES: dict[str, Callable[[list[str], list[str]], list[int]]] = {
    "updates": _of_feed,
    "steering": _of_feed,
    "events": _of_set,
    "memory": _of_register,
    "trajectory": _of_register,
    "bindings": _of_register,
    "scoped": _of_register,
    "tasks": _of_map,
}

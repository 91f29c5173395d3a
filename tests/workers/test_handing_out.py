"""How a queue hands runs to workers: what the fold of its records says."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import msgspec
from hypothesis import given, strategies as st

from foldlog.envelope import Recorded
from foldlog.store.payloads import encode
from foldlog_projections.runs import queues
from foldlog_projections.runs.queues import (
    Added,
    Gone,
    Left,
    Limited,
    Offered,
    Returned,
    State,
    Ticked,
    id_of,
)


class Queues:
    """The fold of records, at a time of the log that goes on by itself."""

    def __init__(self) -> None:
        self.state = State()
        self.now = 1_000.0
        self._numbers = itertools.count(1)

    def say(self, *records: msgspec.Struct, writer_is_ahead: float = 0.0) -> None:
        time = dt.datetime.fromtimestamp(self.now, dt.UTC).isoformat()
        for each in records:
            n, ts = next(self._numbers), self.now + writer_is_ahead
            draft = encode(queues.kind, each, ts=ts)
            envelope = Recorded(str(n), draft.type, 1, ts, bytes(draft.payload), None, n, 0, time)
            self.state = queues.kind.apply(self.state, envelope)

    def has(self, process: str) -> list[str]:
        return [each.run for each in self.state.of(process).values()]

    def waits(self) -> list[str]:
        return [each.run for each in self.state.entries() if not each.process]


def run(name: str, **how: Any) -> Added:
    return Added("s", name, how.pop("function", "f"), how.pop("queue", "q"), **how)


def left(name: str, **how: Any) -> Left:
    return Left("s", name, **how)


def offer(process: str, slots: int, *functions: str, **how: Any) -> Offered:
    return Offered(process, slots, functions or ("f",), **how)


def test_a_worker_gets_as_many_as_it_takes_and_the_next_when_one_has_left() -> None:
    q = Queues()
    q.say(run("a"), run("b"), run("c"), offer("w", 2))
    assert (q.has("w"), q.waits()) == (["a", "b"], ["c"])
    q.say(left("a"))
    assert (q.has("w"), q.waits()) == (["b", "c"], [])


def test_the_most_urgent_goes_first_and_the_oldest_of_these() -> None:
    q = Queues()
    q.say(run("a"), run("b", priority=1), run("c", priority=1), offer("w", 1))
    order = []
    while q.has("w"):
        order += q.has("w")
        q.say(left(order[-1]))
    assert order == ["b", "c", "a"]


def test_work_goes_to_who_has_most_room_and_knows_it() -> None:
    q = Queues()
    q.say(
        offer("small", 1),
        offer("large", 3),
        offer("other", 9, "g"),
        offer("elsewhere", 9, queues=("x",)),
    )
    q.say(*map(run, "abcde"))
    assert [len(q.has(each)) for each in ("small", "large", "other", "elsewhere")] == [1, 3, 0, 0]
    assert q.waits() == ["e"]


def test_it_says_since_when_a_run_waits_is_had_and_has_failed() -> None:
    q = Queues()
    q.say(run("a"))
    times = []
    for record in (offer("w", 1), Returned("s", "a", "w"), left("a", failed=True), run("a")):
        [entry] = [*q.state.entries(), *q.state.failed.values()]
        times.append(entry.since)
        q.now += 1.0
        q.say(record)
    assert times == [1_000.0, 1_001.0, 1_002.0, 1_003.0]


def test_who_reads_what_waits_on_another_thread_is_not_disturbed() -> None:
    q = Queues()
    q.say(run("a"), run("b"), run("c", function="g"))
    waits = q.state.waits("q")
    read = [next(waits).run]
    q.say(run("d"), run("e", priority=1), run("f", function="h"), offer("w", 1))
    assert {*read, *(each.run for each in waits)} >= {"a", "b", "c"}


def test_a_queue_is_held_to_its_limits() -> None:
    q = Queues()
    q.say(offer("w", 9), Limited("q", at_once=2), *map(run, "abc"))
    assert q.has("w") == ["a", "b"]
    q.say(Limited("q", paused=True), left("a"), left("b"))
    assert (q.has("w"), q.waits()) == ([], ["c"])
    q.say(Limited("q"))
    assert q.has("w") == ["c"]


def test_of_one_key_few_go_on_at_once_and_hold_up_no_other() -> None:
    q = Queues()
    q.say(offer("w", 9), Limited("q", per_key=1))
    q.say(run("a", key="ann"), run("b", key="ann"), run("c", key="ben"), run("d"))
    assert (q.has("w"), q.waits()) == (["a", "c", "d"], ["b"])
    q.say(left("a"))
    assert q.has("w") == ["c", "d", "b"]


def test_a_rate_lets_so_many_begin_and_says_when_the_next_may() -> None:
    q = Queues()
    q.say(offer("w", 9), Limited("q", rate=2, seconds=10.0), *map(run, "abc"))
    assert (q.has("w"), q.state.due_at()) == (["a", "b"], 1_010.0)
    q.now += 10.0
    q.say(Ticked())
    assert (q.has("w"), q.state.due_at()) == (["a", "b", "c"], None)


def test_a_rate_counts_by_the_clock_of_the_log() -> None:
    q = Queues()
    q.say(offer("w", 9), Limited("q", rate=2, seconds=10.0))
    q.say(*map(run, "ab"), writer_is_ahead=-60.0)  # a clock is behind, or they came late
    q.say(run("c"), Ticked(), writer_is_ahead=3_600.0)  # a clock is ahead
    assert (q.has("w"), q.state.due_at()) == (["a", "b"], 1_010.0)
    q.now += 10.0
    q.say(Ticked())
    assert q.has("w") == ["a", "b", "c"]


def test_a_rate_that_is_lowered_counts_what_began_before() -> None:
    q = Queues()
    q.say(offer("w", 9), Limited("q", rate=3, seconds=10.0), run("a"))
    q.now += 8.0
    q.say(*map(run, "bcdef"))
    assert (q.has("w"), q.state.due_at()) == (["a", "b", "c"], 1_010.0)
    q.now += 2.0
    q.say(Limited("q", rate=2, seconds=10.0))
    assert (q.has("w"), q.state.due_at()) == (["a", "b", "c"], 1_018.0)
    q.now += 8.0
    q.say(Ticked())
    assert q.has("w") == ["a", "b", "c", "d", "e"]


def test_what_a_dead_worker_had_goes_to_another() -> None:
    q = Queues()
    q.say(offer("w", 1), run("a"), offer("x", 1), Gone("w"))
    assert q.has("x") == ["a"]


def test_what_is_added_while_a_worker_has_it_goes_on_after_it_has_left() -> None:
    q = Queues()
    q.say(offer("w", 1), run("a"), run("a"), left("a"))
    assert q.has("w") == ["a"]
    q.say(left("a"))
    assert (q.has("w"), q.waits()) == ([], [])


def test_who_was_held_for_dead_takes_a_run_from_nobody() -> None:
    q = Queues()
    q.say(offer("w", 1), run("a"), Gone("w"), left("a", process="w"), Returned("s", "a", "w"))
    assert q.waits() == ["a"]
    q.say(offer("x", 1), left("a", process="w"), Returned("s", "a", "w"))
    assert q.has("x") == ["a"]
    q.say(left("a", process="x"))
    assert [*q.state.entries()] == []


def test_who_opens_a_run_has_it_wherever_it_was() -> None:
    q = Queues()
    q.say(offer("w", 1), run("a"), run("a", process="x"))
    assert (q.has("w"), q.has("x")) == ([], ["a"])
    q.say(left("a", process="w"))
    assert q.has("x") == ["a"]
    q.say(left("a", process="x"), run("b", process="x"))  # that was in no queue
    assert (q.has("x"), q.waits()) == (["b"], [])
    q.say(Gone("x"))
    assert q.has("w") == ["b"]


def test_a_worker_that_opens_what_was_taken_from_it_has_it_not() -> None:
    q = Queues()
    q.say(Limited("q", at_once=1), offer("w", 1), run("a"), run("a", process="w", wish="w"))
    assert q.has("w") == ["a"]
    q.say(run("b"), offer("x", 2), Returned("s", "a", "w"), offer("w", 0))
    late = run("a", process="w", wish="w")
    for gone in (Gone("w"), left("b")):
        q.say(late, gone, late)
        assert not q.has("w")
        assert len(q.has("x")) == 1


def test_what_failed_is_listed_until_it_is_sent_again_or_removed() -> None:
    q = Queues()
    q.say(offer("w", 1), run("a"), left("a", failed=True))
    assert [*q.state.failed] == [id_of("s", "a")]
    q.say(run("a"))
    assert (q.has("w"), [*q.state.failed]) == (["a"], [])
    q.say(left("a", failed=True), left("a"))
    assert [*q.state.failed] == []


RECORDS = st.one_of(
    st.builds(
        run,
        st.sampled_from("abcdefgh"),
        queue=st.sampled_from("qr"),
        priority=st.integers(0, 2),
        key=st.sampled_from(["", "ann", "ben"]),
        function=st.sampled_from("fg"),
        process=st.sampled_from(["", "", "x", "y"]),
        wish=st.sampled_from(["", "x", "y"]),
    ),
    st.builds(
        left,
        st.sampled_from("abcdefgh"),
        failed=st.booleans(),
        process=st.sampled_from(["", "x", "y", "z"]),
    ),
    st.builds(
        Returned,
        st.just("s"),
        st.sampled_from("abcdefgh"),
        st.sampled_from("xyz"),
    ),
    st.builds(offer, st.sampled_from("xyz"), st.integers(0, 3), st.sampled_from("fg")),
    st.builds(Gone, st.sampled_from("xyz")),
    st.builds(
        Limited,
        st.sampled_from("qr"),
        st.sampled_from([None, 1, 2]),
        st.sampled_from([None, 1]),
        st.sampled_from([None, 1, 3]),
        st.sampled_from([1.0, 5.0]),
        st.booleans(),
    ),
    st.just(Ticked()),
)


def held(state: queues.State) -> dict[str, str]:
    return {id: each.process for id, each in state.held.items()}


def takes_away(record: msgspec.Struct, id: str, process: str) -> bool:
    """Whether a record takes a run from the process that has it, which may then get it again."""
    match record:
        case Gone():
            return record.process == process
        case Returned():
            return (id_of(record.session_id, record.run), record.process) == (id, process)
        case Left():
            is_of = id_of(record.session_id, record.run) == id
            return is_of and record.process in ("", process)
        case _:
            return False


@given(st.lists(st.tuples(RECORDS, st.sampled_from([0.0, 0.5, 3.0])), max_size=60))
def test_whatever_is_said_each_run_is_in_one_place_and_no_new_one_beyond_a_limit(
    said: list[tuple[msgspec.Struct, float]],
) -> None:
    q = Queues()
    for record, seconds in said:
        before = {id: p for id, p in held(q.state).items() if not takes_away(record, id, p)}
        q.now += seconds
        q.say(record)
        state = q.state
        ids = [id_of(each.session_id, each.run) for each in state.entries()]
        assert len(ids) == len({*ids})
        assert not {*ids} & state.failed.keys()
        by_itself = isinstance(record, Added) and record.process and not record.wish
        new = () if by_itself else held(state).items() - before.items()
        for each in (state.held[id] for id, _ in new):
            worker = state.workers[each.process]
            assert len(state.of(each.process)) <= worker.slots
            assert each.function in worker.functions
            limit = state.limits.get(each.queue) or Limited(each.queue)
            assert not limit.paused
            of_queue = [e for e in state.held.values() if e.queue == each.queue]
            assert limit.at_once is None or len(of_queue) <= limit.at_once
            of_key = [e for e in of_queue if e.key == each.key]
            assert not each.key or limit.per_key is None or len(of_key) <= limit.per_key
        counted = dict(state.busy.items())
        again: dict[str, int] = {}
        for each in state.held.values():
            for mark in queues._marks(each):
                again[mark] = again.get(mark, 0) + 1
        assert counted == again
        assert queues.kind.restore is not None
        assert queues.kind.keep is not None
        assert queues.kind.restore(queues.kind.keep(state)) == state


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True),
    st.integers(1, 3),
    st.sampled_from([Limited("q"), Limited("q", at_once=1), Limited("q", per_key=1)]),
)
def test_every_run_has_its_turn(names: list[str], slots: int, limit: Limited) -> None:
    q = Queues()
    q.say(limit, offer("w", slots), *(run(name, key=name[0]) for name in names))
    done: list[str] = []
    while has := q.has("w"):
        done.append(has[0])
        q.say(left(has[0]))
    assert sorted(done) == sorted(names)

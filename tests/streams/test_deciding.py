"""What a request makes of a stream, as a table: no store, no server, no clock."""

from __future__ import annotations

from typing import Any

import pytest

from foldlog.bounds import Refused
from foldlog.streams.deciding import (
    Asked,
    Outcome,
    Producer,
    append,
    create,
    cut_at,
    fork,
    inherited,
    is_expired,
    pieces_of,
    staged,
    wants_touch,
)
from foldlog_projections.streams import (
    ZERO,
    Appended,
    Closed,
    ForkedTo,
    Gone,
    Opened,
    Stream,
)

TAG = "0123456789abcdef"
ONE = f"{1:016d}_{TAG}"


def asked(*pieces: str, closes: bool = False, of: tuple[Any, ...] = (), **more: Any) -> Asked:
    producer = Producer(*of) if of else None
    return Asked("text/plain", pieces, closes, TAG, producer, **more)


def stream(*records: Any, **opened: Any) -> Stream:
    made = Stream().advanced(Opened("s", "text/plain", **opened), 100.0)
    for record in records:
        made.advanced(record, 100.0)
    return made


FIRST = Appended(ONE, "one", b"", "p", 1, 0, "b")

CASES: dict[str, tuple[Stream, Asked, int, dict[str, str]]] = {
    "there is none": (Stream(), asked("x"), 404, {}),
    "it is gone": (stream(Gone()), asked("x"), 410, {}),
    "it is appended": (stream(), asked("x"), 204, {"Stream-Next-Offset": ONE}),
    "it is closed with it": (stream(), asked("x", closes=True), 204, {"Stream-Closed": "true"}),
    "it is closed again": (stream(Closed()), asked(closes=True), 204, {"Stream-Closed": "true"}),
    "it is closed": (stream(Closed()), asked("x"), 409, {"Stream-Closed": "true"}),
    "of another type": (stream(), asked("x")._replace(content_type="a/b"), 409, {}),
    "closing needs no type": (stream(), asked(closes=True)._replace(content_type="a/b"), 204, {}),
    "Stream-Seq goes on": (stream(FIRST), asked("x", seq="c"), 204, {}),
    "Stream-Seq repeats": (stream(FIRST), asked("x", seq="b"), 409, {}),
    "a producer begins": (stream(), asked("x", of=("p", 0, 0)), 200, {"Producer-Seq": "0"}),
    "a producer goes on": (stream(FIRST), asked("x", of=("p", 1, 1)), 200, {"Producer-Seq": "1"}),
    "a repeat": (stream(FIRST), asked("x", of=("p", 1, 0)), 204, {"Stream-Next-Offset": ONE}),
    "a gap": (stream(FIRST), asked("x", of=("p", 1, 3)), 409, {"Producer-Expected-Seq": "1"}),
    "an older epoch": (stream(FIRST), asked("x", of=("p", 0, 0)), 403, {"Producer-Epoch": "1"}),
    "a newer epoch": (stream(FIRST), asked("x", of=("p", 2, 0)), 200, {"Producer-Epoch": "2"}),
    "one in its middle": (stream(FIRST), asked("x", of=("p", 2, 1)), 400, {}),
    "another producer": (stream(FIRST), asked("x", of=("q", 0, 0)), 200, {}),
    "a repeat comes before Stream-Seq": (
        stream(FIRST),
        asked("x", of=("p", 1, 0), seq="a"),
        204,
        {},
    ),
    "closed by the same request": (
        stream(Closed("p", 1, 1)),
        asked("x", closes=True, of=("p", 1, 1)),
        204,
        {"Stream-Closed": "true"},
    ),
    "closed by another request": (
        stream(Closed("p", 1, 1)),
        asked("x", closes=True, of=("p", 1, 2)),
        409,
        {"Stream-Closed": "true"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_asked_is_answered(name: str) -> None:
    there, what, status, headers = CASES[name]
    is_old = name.startswith(("a repeat", "closed by the same", "it is closed again"))
    answered: Outcome | Refused
    try:
        answered = append(there, what)
        assert bool(answered.records) is not is_old
    except Refused as refused:
        answered = refused
    assert answered.status == status
    assert {
        name.lower(): each for name, each in headers.items()
    }.items() <= answered.headers.items()


def test_a_decision_changes_nothing() -> None:
    there = stream(FIRST)
    append(staged(there), asked("x", of=("p", 1, 1)))
    assert (there.tail, there.producers) == (ONE, {"p": (1, 0)})


def test_what_is_appended_in_pieces_has_an_offset_each() -> None:
    there = stream()
    outcome = append(there, asked("a", "b", closes=True, of=("p", 0, 0)))
    first, second, closed = outcome.records
    assert [first.offset[:16], second.offset[:16]] == [f"{n:016d}" for n in (1, 2)]
    assert (first.text, second.text, closed) == ("a", "b", Closed("p", 0, 0))
    assert ZERO < first.offset < second.offset == outcome.headers["stream-next-offset"]


@pytest.mark.parametrize(
    ("there", "opened", "closes", "status"),
    [
        (Stream(), Opened("n", "text/plain"), False, 201),
        (stream(), Opened("n", "Text/Plain; charset=utf-8"), False, 200),
        (stream(), Opened("n", "text/html"), False, 409),
        (stream(), Opened("n", "text/plain", ttl=5), False, 409),
        (stream(), Opened("n", "text/plain"), True, 409),
        (stream(Closed()), Opened("n", "text/plain"), True, 200),
        (stream(Gone()), Opened("n", "text/plain"), False, 409),
        (stream(source="a", ttl=5), Opened("n", "", source="a"), False, 200),
        (stream(source="a"), Opened("n", "", source="b"), False, 409),
    ],
)
def test_a_stream_is_created_or_there(
    there: Stream, opened: Opened, closes: bool, status: int
) -> None:
    if status == 409:
        with pytest.raises(Refused):
            create(there, opened, asked(closes=closes))
    else:
        outcome = create(there, opened, asked(closes=closes))
        assert (outcome.status, bool(outcome.records)) == (status, status == 201)


def test_what_a_fork_does_not_say_is_as_of_its_source() -> None:
    source = stream(FIRST, ttl=5)
    assert inherited(Opened("n", "", source="a"), source) == Opened(
        "n", "text/plain", ONE, 5, source="a", source_id="s"
    )
    assert inherited(Opened("n", "", expires_at="x", expires=1.0), source).ttl is None
    assert fork(source, "f").records == (ForkedTo("f"),)
    later = f"{2:016d}_{TAG}"
    for there, opened in (
        (source, Opened("n", "a/b")),
        (source, Opened("n", "", fork_offset=later)),
        (Stream(), Opened("n", "")),
    ):
        with pytest.raises(Refused):
            inherited(opened, there)
    for there in (Stream(), stream(Gone())):
        with pytest.raises(Refused):
            fork(there, "f")


def test_json_is_cut_into_its_messages() -> None:
    assert pieces_of("application/json", b' [{"a": 1}, [2]] ') == ('{"a": 1},[2]',)
    assert pieces_of("application/json", b'{"a": 1}') == ('{"a": 1}',)
    large = b"[" + b",".join(b'"%s"' % (b"x" * 100_000) for _ in range(6)) + b"]"
    assert [str(piece).count(",") for piece in pieces_of("application/json", large)] == [1, 1, 1]
    for wrong in (b"{", b"[1,]", b"\xff", b'"\xff"', b"NaN", b"1 2"):
        with pytest.raises(Refused, match="no JSON"):
            pieces_of("application/json", wrong)


def test_bytes_stay_bytes_and_text_is_text() -> None:
    assert pieces_of("text/plain", "ü".encode()) == ("ü",)
    assert pieces_of("text/plain", b"\xff") == (b"\xff",)
    assert pieces_of("image/png", b"abc") == (b"abc",)
    cut = pieces_of("image/png", bytes(600_000))
    assert [len(piece) for piece in cut] == [262_144, 262_144, 75_712]


def test_a_fork_may_begin_inside_of_a_piece() -> None:
    assert cut_at("application/json", b'{"a": [1, 2]},2', 1) == '{"a": [1, 2]}'
    assert cut_at("text/plain", "aü".encode(), 2) == b"a\xc3"
    assert cut_at("image/png", b"abc", 3) == b"abc"
    for type_, piece, sub in (("application/json", b"1,2", 3), ("image/png", b"abc", 4)):
        with pytest.raises(Refused):
            cut_at(type_, piece, sub)


def test_time_to_live_begins_anew_with_each_use() -> None:
    there = stream(ttl=80)
    assert not is_expired(there, 180.0)
    assert is_expired(there, 191.0)
    assert not wants_touch(there, 109.0)
    assert wants_touch(there, 111.0)
    assert is_expired(stream(expires_at="x", expires=200.0), 200.0)
    assert not wants_touch(stream(expires_at="x", expires=200.0), 199.0)

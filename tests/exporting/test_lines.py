"""A line gives back the record that it was made of, to the byte."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from foldlog import ImportFailed, LogRecord, codec
from foldlog.envelope import draft, pack
from foldlog.exporting.lines import decode_record, encode_record

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text()
    | st.binary()
    | st.datetimes()
    | st.decimals(),
    lambda some: st.lists(some) | st.dictionaries(st.text() | st.integers(-9, 9), some),
    max_leaves=12,
)


def record(data: bytes) -> LogRecord:
    return LogRecord(0, 7, "2026-01-01T00:00:00Z", "updates", ("s", "é"), data)


def of(payload: bytes) -> LogRecord:
    return record(pack([draft("t", payload, id="1"), draft("t", b"\xc0", id="2", ts=0.1)]))


@given(VALUES)
def test_whatever_a_caller_saves(value: Any) -> None:
    found = of(codec.encode({"value": value}, "value"))
    assert decode_record(encode_record(found)) == found


@given(st.binary())
def test_whatever_stands_in_the_log(data: bytes) -> None:
    assert decode_record(encode_record(record(data))) == record(data)
    found = of(data)
    assert decode_record(encode_record(found)) == found


@pytest.mark.parametrize(
    "value",
    [
        {"$bytes": "AA=="},
        {"$ext": 1, "text": "x"},
        {"$ext": 1, "base64": "!"},
        {"$ext": "x"},
        {"$bytes": "!"},
        {"a": b"\x00", "b": {"$bytes": "AA=="}},
    ],
)
def test_what_looks_like_a_mark_comes_back_as_it_was(value: Any) -> None:
    found = of(msgspec.msgpack.encode(value))
    assert decode_record(encode_record(found)) == found


def test_what_can_be_read_can_be_read() -> None:
    line = json.loads(encode_record(of(msgspec.msgpack.encode({"a": [1, 2.5, None, b"x"]}))))
    assert line["envelopes"][0]["payload"] == {"a": [1, 2.5, None, {"$bytes": "eA=="}]}
    # An older or a newer version's record is kept as it is.
    odd = record(msgspec.msgpack.encode([1, [["1", "t", 1, 0.5, b"\xc0"]]]))
    assert set(json.loads(encode_record(odd))) >= {"raw"}
    assert decode_record(encode_record(odd)) == odd


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b"{}", b"[]", b'{"shard":0,"seq":1,"time":"","kind":"k","keys":[1]}', b"\xff"],
)
def test_another_line_is_refused(line: bytes) -> None:
    with pytest.raises(ImportFailed):
        decode_record(line)

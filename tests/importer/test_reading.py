from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from foldlog.errors import ImportFailed
from foldlog.importer import BrokenLine, Conversation, demo_transcript, read_conversations
from foldlog.importer.conversation import ShapeError, parse_item

HI = [{"role": "user", "content": "hi"}]
BYE = [{"role": "user", "content": "bye"}, {"role": "assistant", "content": None}]


def write(path: Path, *lines: object) -> Path:
    """A file of lines: bytes and text as they are, everything else as JSON."""
    raw = [
        line
        if isinstance(line, bytes)
        else (line if isinstance(line, str) else json.dumps(line)).encode()
        for line in lines
    ]
    path.write_bytes(b"\n".join(raw))
    return path


def read(path: Path) -> tuple[list[Conversation], list[BrokenLine]]:
    items = list(read_conversations(path))
    return (
        [item for item in items if isinstance(item, Conversation)],
        [item for item in items if isinstance(item, BrokenLine)],
    )


# --- every format -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("lines.jsonl", [HI, {"messages": BYE}], [HI, BYE]),
        ("lines.ndjson", [{"traj": HI}], [HI]),
        ("lines-by-content.txt", [HI, BYE], [HI, BYE]),
        ("array.json", [[HI, {"traj": BYE}]], [HI, BYE]),
        ("array-of-one.json", [[HI]], [HI]),
        ("one-object.json", [{"messages": HI}], [HI]),
        ("one-list.json", [BYE], [BYE]),
        ("pretty.json", [json.dumps([HI, BYE], indent=2)], [HI, BYE]),
        ("pretty-object.json", [json.dumps({"traj": BYE}, indent=2)], [BYE]),
        ("bom.json", [b"\xef\xbb\xbf" + json.dumps([HI]).encode()], [HI]),
        ("bom.jsonl", [b"\xef\xbb\xbf" + json.dumps(HI).encode(), BYE], [HI, BYE]),
        ("crlf.jsonl", [json.dumps(HI) + "\r", json.dumps(BYE) + "\r"], [HI, BYE]),
        ("blank-lines.jsonl", ["", HI, "   ", BYE, "", ""], [HI, BYE]),
    ],
)
def test_a_format_is_read(
    tmp_path: Path, name: str, content: list[object], expected: list[object]
) -> None:
    conversations, broken = read(write(tmp_path / name, *content))
    assert [list(each.messages) for each in conversations] == expected
    assert [each.index for each in conversations] == list(range(len(expected)))
    assert broken == []


def test_traj_wins_over_messages_unless_it_is_null(tmp_path: Path) -> None:
    both = {"traj": HI, "messages": BYE}
    null = {"traj": None, "messages": BYE}
    conversations, _ = read(write(tmp_path / "a.jsonl", both, null))
    assert [each.messages for each in conversations] == [HI, BYE]


def test_the_optional_fields_are_kept(tmp_path: Path) -> None:
    item = {"messages": HI, "task_id": 7, "trial": 2, "reward": 0.5, "info": {"a": [1]}}
    [found], _ = read(write(tmp_path / "a.jsonl", item))
    assert (found.task_id, found.trial, found.reward, found.info) == (7, 2, 0.5, {"a": [1]})
    assert (found.source, found.number) == (str(tmp_path / "a.jsonl"), 1)


def test_lines_are_read_one_at_a_time(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *[HI] * 3)
    items = read_conversations(path)
    next(items)
    with path.open("ab") as file:
        file.write(b"\n" + json.dumps(BYE).encode())
    assert len(list(items)) == 3


@given(
    st.lists(
        st.lists(
            st.dictionaries(st.text(), st.none() | st.integers() | st.text(), max_size=3).map(
                lambda more: {**more, "role": "user", "tool_calls": None}
            ),
            min_size=1,
            max_size=3,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_what_json_holds_is_read_unchanged(
    tmp_path_factory: pytest.TempPathFactory, conversations: list[list[dict[str, Any]]]
) -> None:
    folder = tmp_path_factory.mktemp("read")
    as_lines = write(folder / "a.jsonl", *conversations)
    as_array = write(folder / "a.json", json.dumps(conversations, indent=1))
    for path in (as_lines, as_array):
        found, broken = read(path)
        assert [each.messages for each in found] == conversations
        assert broken == []


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"task_id": 3, "trial": 0}, "3-0"),
        ({"task_id": "book", "trial": "b"}, "book-b"),
        ({"task_id": 3}, "4"),
        ({"trial": 1}, "4"),
        ({}, "4"),
    ],
)
def test_a_conversation_is_named_by_task_and_trial_or_by_its_place(
    fields: dict[str, Any], name: str
) -> None:
    item = {"messages": HI, **fields}
    assert parse_item(item, source="f", number=1, index=4, size=0).name == name


def test_broken_items_keep_their_place_in_the_count(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", HI, "", "nonsense", BYE)
    items = list(read_conversations(path, first_index=10))
    assert [getattr(item, "index", None) for item in items] == [10, None, 12]
    assert [item.number for item in items] == [1, 3, 4]


# --- what is broken ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON: .* at column 2"),
        (b'[{"role": "user", "content": "\xff"}]', "not UTF-8 at byte 31"),
        ("[" * 100_000, "nested too deeply|not JSON"),
        ("9" * 5000, "limit"),
        ("3", "expected a list of messages, found a number"),
        ("null", "found null"),
        ("{}", "neither 'traj' nor 'messages'"),
        ({"role": "user", "content": "alone"}, "neither 'traj' nor 'messages'"),
        ({"messages": "hi"}, "found a string"),
        ({"messages": []}, "without messages"),
        ([], "without messages"),
        ([*HI, {"content": "x"}], "message 2 has no role"),
        ([{"role": ""}], "message 1 has no role"),
        ([{"role": 1}], "message 1 has no role"),
        ([*HI, ["x"]], "message 2 is a list, not an object"),
        ([{"role": "assistant", "tool_calls": {}}], "tool_calls"),
        ([{"role": "assistant", "tool_calls": ["f"]}], "tool_calls"),
        ({"messages": HI, "task_id": 1.5}, "'task_id'"),
        ({"messages": HI, "trial": True}, "'trial'"),
        ({"messages": HI, "task_id": ""}, "'task_id'"),
        ({"messages": HI, "reward": "good"}, "'reward' must be a number, found a string"),
    ],
)
def test_a_broken_line_is_named_and_the_rest_goes_on(
    tmp_path: Path, line: object, reason: str
) -> None:
    path = write(tmp_path / "a.jsonl", HI, line, BYE)
    conversations, [broken] = read(path)
    assert [each.messages for each in conversations] == [HI, BYE]
    assert broken.number == 2
    assert str(broken).startswith(f"{path}:2: ")
    assert re.search(reason, broken.reason)


def test_a_broken_first_line_leaves_the_others(tmp_path: Path) -> None:
    conversations, broken = read(write(tmp_path / "a.jsonl", "oops", HI, "{}", BYE))
    assert [each.messages for each in conversations] == [HI, BYE]
    assert [each.number for each in broken] == [1, 3]


def test_a_broken_item_of_an_array_is_named_by_its_place(tmp_path: Path) -> None:
    conversations, broken = read(write(tmp_path / "a.json", [HI, {}, [{}], BYE]))
    assert [each.index for each in conversations] == [0, 3]
    assert [each.number for each in broken] == [2, 3]


def test_a_lone_broken_message_breaks_its_conversation_not_the_file_format(tmp_path: Path) -> None:
    conversations, [broken] = read(write(tmp_path / "a.json", [*HI, {"content": "x"}]))
    assert conversations == []
    assert broken.reason == "message 2 has no role"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.json", b""),
        ("empty.jsonl", b""),
        ("blank.json", b" \n\n"),
        ("array.json", b"[]"),
        ("half.json", b'[\n {"messages": [\n'),
        ("text.txt", b"hello\nworld\n"),
        ("binary.json", b"\x80\x81"),
    ],
)
def test_a_file_without_any_conversation_fails_by_name(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(ImportFailed, match=name):
        list(read_conversations(path))


def test_a_file_that_cannot_be_read_fails_by_name(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.json", tmp_path):
        with pytest.raises(ImportFailed, match=str(path)):
            list(read_conversations(path))


def test_a_shape_error_stays_inside() -> None:
    with pytest.raises(ShapeError):
        parse_item(3, source="f", number=1, index=0, size=0)


# --- what comes with foldlog ------------------------------------------------------------------


def test_the_demo_transcript_shows_what_an_import_can_meet() -> None:
    conversations, broken = read(demo_transcript())
    messages = [message for each in conversations for message in each.messages]
    assert broken == []
    assert len(conversations) == 6
    assert 60 <= len(messages) <= 80
    assert {each.reward for each in conversations} == {0.0, 1.0}
    assert {message["role"] for message in messages} == {"system", "user", "assistant", "tool"}
    assert {type(message["content"]) for message in messages} == {str, list, type(None)}
    assert any(len(message.get("tool_calls", [])) > 1 for message in messages)
    assert not all(str(message["content"]).isascii() for message in messages)

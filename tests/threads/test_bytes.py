"""Values that follow from each other: what they share is stored once, and read whole."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, strategies as st

from foldlog_projections.langgraph.bodies import Body, pack, packed, unpack, unpacked
from foldlog_projections.langgraph.bytesdelta import difference

_BLOCKS = st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6)


@given(st.data())
def test_the_pieces_make_the_new_string_of_the_old_one(data: st.DataObject) -> None:
    blocks = data.draw(_BLOCKS)
    old, new = (
        b"".join(data.draw(st.lists(st.sampled_from(blocks), max_size=12))) for _ in range(2)
    )
    made = b"".join(
        piece if isinstance(piece, bytes) else old[slice(*piece)] for piece in difference(old, new)
    )
    assert made == new


MESSAGES = [msgspec.msgpack.encode({"id": n, "text": f"message {n} " * 9}) for n in range(40)]
OLD = b"".join(MESSAGES[:30])


@pytest.mark.parametrize(
    ("new", "ranges"),
    [
        (MESSAGES[:31], 1),
        (MESSAGES[1:31], 1),
        ([*MESSAGES[:10], MESSAGES[35], *MESSAGES[11:30]], 2),
        ([MESSAGES[35], *MESSAGES[:30]], 1),
        ([*MESSAGES[:5], *MESSAGES[20:30], MESSAGES[36]], 2),
        (MESSAGES[:3], 1),
    ],
    ids=["grown", "moved on", "one replaced", "put in front", "cut", "shrunk"],
)
def test_what_is_in_both_is_not_stored_again(new: list[bytes], ranges: int) -> None:
    pieces = difference(OLD, b"".join(new))
    assert sum(isinstance(each, tuple) for each in pieces) == ranges
    assert sum(len(each) for each in pieces if isinstance(each, bytes)) <= len(MESSAGES[35]) + 60


@given(st.lists(st.lists(st.integers(0, 9), max_size=40), min_size=1, max_size=12), st.data())
def test_bodies_that_follow_any_other_are_read_whole(
    values: list[list[int]], data: st.DataObject
) -> None:
    """Also where several follow one, and the list that they share has gone on."""
    truth: list[tuple[bytes, Body]] = []
    for value in values:
        encoded = msgspec.msgpack.encode([f"item {each} of many" for each in value])
        base = data.draw(st.sampled_from([None, *(body for _, body in truth)]))
        head, pieces = Body.of("msgpack", encoded).since(base)
        truth.append((encoded, Body.following(base, "msgpack", head, pieces)))
        assert [body.data for _, body in truth] == [each for each, _ in truth]
    one, other = (data.draw(st.sampled_from(truth))[1] for _ in range(2))
    assert Body.following(one, "msgpack", *other.since(one)).data == other.data


def test_a_list_that_grows_is_held_once() -> None:
    body = None
    for count in range(1, 300):
        encoded = msgspec.msgpack.encode(list(range(1000, 1000 + count)))
        head, pieces = Body.of("msgpack", encoded).since(body)
        following = Body.following(body, "msgpack", head, pieces)
        assert body is None or following.chunks is body.chunks
        body = following


def test_pieces_of_another_value_are_refused() -> None:
    with pytest.raises(ValueError, match="bytes 0 to 9 are of another value"):
        Body.following(Body.of("msgpack", b"\x91\x01"), "msgpack", b"", ((0, 9),))


@given(st.dictionaries(st.text(max_size=5), st.text("#0.1a", max_size=50) | st.integers()))
def test_versions_come_back(versions: dict[str, str | int]) -> None:
    assert unpacked(packed(versions), {}) == versions


def test_a_version_loses_its_zeros_only() -> None:
    version = f"{12:032}.0.1234567890123456"
    assert pack(version) == "#12.0.1234567890123456"
    assert [unpack(pack(each)) for each in (version, "#1", "##", 1.5)] == [version, "#1", "##", 1.5]

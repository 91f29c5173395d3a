"""Positions as values: compared, printed, kept."""

from __future__ import annotations

import pickle

import msgspec
import pytest
from hypothesis import given, strategies as st

from foldlog import LogPosition, UnknownMoment
from foldlog.position import Reach, mark_of

reaches = st.builds(
    Reach,
    st.integers(0, 5),
    st.none() | st.integers(0, 3),
    st.just("") | st.builds(mark_of, st.text()),
)
positions = st.builds(LogPosition, st.tuples(reaches, reaches))


@given(positions)
def test_the_text_of_a_position_is_the_position(position: LogPosition) -> None:
    parsed = LogPosition.parse(str(position))
    assert parsed == position
    assert [reach.mark for reach in parsed.shards] == [reach.mark for reach in position.shards]


@given(positions)
def test_a_position_is_kept_as_any_struct(position: LogPosition) -> None:
    assert pickle.loads(pickle.dumps(position)) == position
    assert msgspec.json.decode(msgspec.json.encode(position), type=LogPosition) == position


@given(positions, positions, positions)
def test_positions_are_partly_ordered(a: LogPosition, b: LogPosition, c: LogPosition) -> None:
    assert a <= a
    assert not a < a
    assert (a <= b and b <= a) == (a == b)
    assert (a < b) == (a <= b and a != b) == (b > a)
    assert (a <= b) == (b >= a)
    if a <= b and b <= c:
        assert a <= c
    if a == b:
        assert hash(a) == hash(b)


def test_two_shards_may_disagree_on_what_comes_first() -> None:
    a, b = LogPosition((Reach(1), Reach(2))), LogPosition((Reach(2), Reach(1)))
    assert not a <= b
    assert not b <= a
    assert LogPosition((Reach(3, 1),)) < LogPosition((Reach(3),)) < LogPosition((Reach(4, 0),))


def test_positions_of_other_namespaces_are_not_compared() -> None:
    with pytest.raises(TypeError):
        assert LogPosition((Reach(1),)) <= LogPosition((Reach(1), Reach(1)))
    with pytest.raises(TypeError):
        assert LogPosition((Reach(1),)) < 7  # type: ignore[operator]


@pytest.mark.parametrize(
    "text",
    ["", "@", "12", "@x", "@1,", "@1.", "@1~", "@1~xyz", "@-1", "@1 ", "@٣", "@" + "9" * 5000],
)
def test_another_text_is_no_position(text: str) -> None:
    with pytest.raises(UnknownMoment):
        LogPosition.parse(text)

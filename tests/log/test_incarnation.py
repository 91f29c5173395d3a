"""What a shard has lost, by its mark and by what a process knows. No I/O."""

from __future__ import annotations

import pytest

from foldlog.errors import FoldlogError, LogCorrupt, LogRewound
from foldlog.log import incarnation
from foldlog.log.incarnation import Known, Mark, Shard, find_loss


def shard(last_seq: int, messages: int, replicas: int = 1, created: str = "then") -> Shard:
    return Shard("S", created, last_seq, messages, replicas)


@pytest.mark.parametrize(
    ("mark", "found", "error"),
    [
        (Mark(), shard(0, 0), None),
        (Mark(seq=9, messages=9), shard(9, 9), None),
        (Mark(seq=9, messages=9), shard(12, 12), None),
        (Mark(seq=9, messages=5), shard(12, 8), None),
        (Mark(seq=9, messages=9), shard(8, 8), LogRewound),
        (Mark(seq=9, messages=None), shard(8, 8), LogRewound),
        (Mark(seq=9, messages=9), shard(12, 11), LogCorrupt),
        (Mark(seq=9, messages=9), shard(9, 0), LogCorrupt),
        (Mark(seq=9, messages=None, quiet_until=5.0), shard(9, 0), None),
        (Mark(seq=9, messages=9), shard(9, 8, replicas=3), None),
        (Mark(seq=9, messages=9, ended=7), shard(12, 12), LogRewound),
        (Mark(created="then", seq=9, messages=9), shard(12, 12), None),
        (Mark(created="before", seq=9, messages=9), shard(12, 12), LogRewound),
        (Mark(created="before", seq=9, messages=9), shard(12, 12, created=""), None),
        (Mark(incarnation="new", seq=9, messages=9), shard(12, 12), None),
    ],
)
def test_a_loss_is_what_nothing_else_explains(
    mark: Mark, found: Shard, error: type[FoldlogError] | None
) -> None:
    assert type(find_loss(mark, found)) is (type(None) if error is None else error)


@pytest.mark.parametrize(
    ("known", "error"),
    [
        (Known(), None),
        (Known(9, "then", ""), None),
        (Known(10, "then", ""), LogRewound),
        (Known(3, "before", ""), LogRewound),
        (Known(3, "then", "new"), None),
    ],
)
def test_what_a_process_knows_counts_without_a_mark(
    known: Known, error: type[FoldlogError] | None
) -> None:
    assert type(find_loss(Mark(), shard(9, 9), known)) is (type(None) if error is None else error)


@pytest.mark.parametrize(("known", "is_loss"), [("", True), ("old", True), ("new", False)])
def test_what_another_process_has_accepted_is_a_loss_here(known: str, is_loss: bool) -> None:
    mark = Mark(incarnation="new", seq=9, messages=9)
    assert (find_loss(mark, shard(12, 12), Known(3, "then", known)) is not None) is is_loss


def test_a_purge_makes_the_count_unknown_until_it_has_surely_ended() -> None:
    mark = incarnation.purged(Mark(seq=9, messages=9), 100.0)
    assert mark.messages is None
    assert incarnation.renewed(mark, shard(12, 5), 159.0).messages is None
    after = incarnation.renewed(mark, shard(12, 5), 161.0)
    assert (after.messages, after.quiet_until) == (5, 0.0)
    longer = incarnation.purged(mark, 90.0)  # by a clock that is behind
    assert longer.quiet_until == mark.quiet_until


def test_an_accepted_shard_is_another_incarnation() -> None:
    ids = {incarnation.accepted(Mark(seq=9, ended=3), shard(5, 5), 0.0).incarnation for _ in "ab"}
    assert len(ids) == 2
    assert incarnation.accepted(Mark(seq=9, ended=3), shard(5, 5), 0.0).ended is None

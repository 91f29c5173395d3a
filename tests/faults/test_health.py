"""What counts as a healthy cluster, before its leader is killed and the outage measured."""

from __future__ import annotations

import pytest

from tests.faults.storms.health import Group, Peer, ailments

_SECOND = 1_000_000_000

WELL = Peer("b", current=True, active=_SECOND)


@pytest.mark.parametrize(
    ("group", "found"),
    [
        (Group("a", [WELL, WELL]), []),
        (Group("", [WELL, WELL]), ["there is no leader"]),
        (Group("a", [WELL]), ["1 followers"]),
        (Group("a", [WELL, Peer("c", current=True, offline=True)]), ["c is offline"]),
        (Group("a", [WELL, Peer("c", current=False, lag=7)]), ["c lags by 7"]),
        (Group("a", [WELL, Peer("c", current=True, lag=1)]), ["c lags by 1"]),
        (
            Group("a", [WELL, Peer("c", current=True, active=3 * _SECOND)]),
            ["c was not heard from since it came back"],
        ),
    ],
)
def test_what_a_cluster_lacks(group: Group, found: list[str]) -> None:
    assert ailments(group, back=3.0) == found

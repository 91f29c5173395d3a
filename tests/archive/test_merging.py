"""Which runs of segments are merged."""

from __future__ import annotations

import random

import pytest

from foldlog.log.archive.archiver import FAN, due_merge
from foldlog_projections.archive import Segment


def segments_of(*sizes: int) -> list[Segment]:
    return [Segment(f"{n}", n, n, 1, 1, size, "", "", "", "", 0, 0) for n, size in enumerate(sizes)]


def test_what_is_merged() -> None:
    segments = segments_of
    assert due_merge(segments(*[100] * (FAN - 1)), 10_000) is None
    assert due_merge(segments(*[100] * FAN), 10_000) == range(FAN)
    assert due_merge(segments(9_000, *[100] * FAN), 10_000) == range(1, FAN + 1)
    assert due_merge(segments(*[100] * FAN), 399) == range(FAN - 1)
    assert due_merge(segments(700, *[100] * FAN), 350) == range(1, FAN)
    assert due_merge(segments(700, 700, *[100] * (FAN - 1)), 750) is None
    assert due_merge(segments(*[100] * (FAN - 1), 9_000), 100_000) == range(FAN)
    assert due_merge(segments(9_900, *[100] * (FAN - 1), 9_900), 10_000) == range(2)


@pytest.mark.parametrize("seed", range(5))
def test_runs_stay_few_whatever_their_sizes(seed: int) -> None:
    rng, sizes, written, total, largest = random.Random(seed), list[int](), 0, 0, 2_000_000
    for _ in range(3_000):
        sizes.append(int(4 ** rng.uniform(0, 6)))
        total += sizes[-1]
        while (run := due_merge(segments_of(*sizes), largest)) is not None:
            merged = sum(sizes[run.start : run.stop])
            assert merged <= largest
            written += merged
            sizes[run.start : run.stop] = [merged]
        small = [size for size in sizes if size < largest / 2]
        assert len(small) <= (FAN - 1) * 11 + total // largest + 1
    assert written < 8 * total

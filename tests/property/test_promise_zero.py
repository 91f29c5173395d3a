"""Promise 0: no call says yes to what is not there.

A save takes effect, or is a repeat of the same thing, or raises; also after clearing, erasing,
forking and restoring.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.property.promise import check_run

FEW = range(40)
MANY = [range(start, start + 300) for start in range(40, 3_040, 300)]

CASES = {
    *("effect", "repeat", "repeat of what is shared", "refused at once"),
    *("as removed", "decided as before", "not aware", "late repeat", "raced", "restored"),
}


@pytest.mark.parametrize(
    "seeds", [FEW, *(pytest.param(some, marks=pytest.mark.long) for some in MANY)], ids=str
)
def test_a_save_takes_effect_or_is_a_repeat_or_raises(seeds: range) -> None:
    met = Counter[str]()
    for seed in seeds:
        met += check_run(seed)
    assert met.keys() >= CASES, "the runs do not come across everything any more"

"""A wire on which everything takes longer, both ways, and some of it longer than a call may."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from tests.faults.checker import judge
from tests.faults.proxy import Proxy
from tests.faults.storms.crowd import Crowd
from tests.faults.storms.patience import PATIENCE

pytestmark = pytest.mark.long

_TIMEOUT = 1.0
_GROWING = (0.01, 0.05, 0.2, 0.5, 2 * _TIMEOUT)


def _up_to(longest: float, rng: random.Random) -> Callable[[], float]:
    return lambda: longest * rng.random() ** 10


async def test_what_comes_late_is_settled_and_what_comes_too_late_is_told(proxy: Proxy) -> None:
    rng = random.Random(8)
    async with Crowd(proxy.url, "late", seed=8, timeout=_TIMEOUT) as crowd:
        for longest in _GROWING:
            proxy.delay = _up_to(longest, rng)
            await crowd.progressed(15)
        async with asyncio.timeout(PATIENCE):
            while not crowd.outcomes["unknown"]:  # some have come too late
                await crowd.progressed()
        proxy.heal()
        assert judge(await crowd.told()) == []

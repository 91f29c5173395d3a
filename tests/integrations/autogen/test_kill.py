"""kill -9 between turns and in the middle of them: the end is that of a run nobody interrupted.

Each process runs the agents or the team of `agents.py` and goes on from what is on the log.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integrations.autogen.agents import LINES, MOST_MESSAGES, ROUNDS
from tests.support.workers import StartWorker, Worker


async def killed(worker: Worker) -> list[Any]:
    """Kill a worker where it halts; return what it had said."""
    said = []
    while (heard := await worker.hear()) != ["halted"]:
        said.append(heard)
    await worker.kill()
    return said


async def ended(worker: Worker) -> list[Any]:
    """What a worker says until its end."""
    said = await worker.hear_rest()
    assert [last[0] for last in said[-1:]] == ["end"], await worker.complaint()
    return said


@pytest.mark.parametrize("where", ["before", "within"])
async def test_agents_killed_at_every_turn_end_as_if_nobody_had(
    start_worker: StartWorker, where: str
) -> None:
    *_, whole = await ended(await start_worker("writers", "whole"))
    turns = [f"{'ann' if n % 2 else 'bob'} {n}" for n in range(1, ROUNDS + 1)]
    for number, turn in enumerate(turns):
        said = await killed(await start_worker("writers", "cut", halt=[where, turn]))
        # The turn that was cut off is taken again; those on record are not.
        begun = [what for place, what in said if place == "before"]
        assert begun == turns[max(number - 1, 0) : number + 1]
    assert await ended(await start_worker("writers", "cut")) == [
        ["before", turns[-1]],
        ["within", turns[-1]],
        whole,
    ]


@pytest.mark.parametrize("helper", ["h1", "h3"])
async def test_a_message_to_many_reaches_each_of_them_once(
    start_worker: StartWorker, helper: str
) -> None:
    *_, whole = await ended(await start_worker("helpers", "whole"))
    await killed(await start_worker("helpers", "cut", halt=["before", helper]))
    *_, cut = await ended(await start_worker("helpers", "cut"))
    assert _sorted(cut) == _sorted(whole)


def _sorted(end: list[Any]) -> dict[str, list[str]]:
    """What was done, whoever of those who were told at once came first."""
    return {name: sorted(done) for name, done in end[1].items()}


@pytest.mark.parametrize("kind", ["round robin", "selector", "swarm"])
async def test_a_team_killed_at_every_turn_ends_as_if_nobody_had(
    start_worker: StartWorker, kind: str
) -> None:
    lines = [line for pair in zip(*LINES.values(), strict=True) for line in pair]
    spoken = lines[: MOST_MESSAGES - 1]  # the task is the first message
    *_, whole = await ended(await start_worker(kind, "whole"))
    assert [content for _, content in whole[2]] == ["a poem", *spoken]
    for number, line in enumerate(spoken):
        said = await killed(await start_worker(kind, "cut", halt=["asked", line]))
        # What a model has answered on record it is not asked again.
        assert said == [["asked", asked] for asked in spoken[max(number - 1, 0) : number + 1]]
    said = await ended(await start_worker(kind, "cut"))
    assert said == [["asked", spoken[-1]], whole]

"""What `foldlog show`, `sessions` and the lists tell people."""

from __future__ import annotations

import asyncio
import datetime as dt
import re

import pytest

import foldlog
from foldlog import Message
from foldlog.models import SteeringEvent, SteeringEventType
from foldlog.story import tell
from foldlog.words import Line
from tests.cli.support import Cli, run


async def booked(cli: Cli) -> None:
    """A session with a nested step, a question, an order, a cost and a failure."""
    async with foldlog.connect(**cli.place) as store:
        body = {"role": "user", "content": "Book a flight to Oslo"}
        await store.append_messages("ann", [Message("1", "openai", body, role="user")])
        async with store.run("book", session_id="ann", description="a flight") as run:

            def think(about: str) -> str:
                run.usage(model="m1", input_tokens=20, output_tokens=5, cost_usd=0.002)
                return f"look for {about}"

            async def plan(city: str) -> str:
                return await run.step("think", think, city, kind="model")

            await run.step("plan", plan, "Oslo")
            with pytest.raises(foldlog.RunPaused):
                await run.ask("buy?", "Buy for 80 euros?", wait=0)
            [item] = await store.waiting(session_id="ann")
            await store.answer(item.id, True)
            async with store.session("ann") as session:
                await session.steer(
                    SteeringEvent(
                        session_id="ann",
                        task_id="book",
                        event_type=SteeringEventType.INJECT_CONTEXT,
                        payload={"text": "A window seat", "by": "mira"},
                    )
                )
            await run.inbox()
            with pytest.raises(ValueError, match="no seat"):
                await run.step("pay", int, "no seat")


def test_show_tells_what_happened_in_words(cli: Cli) -> None:
    asyncio.run(booked(cli))
    told = cli("show", "ann").stdout
    lines = [re.sub(r"^[\d:.Z]+  ", "", line) for line in told.splitlines()[1:]]
    assert lines[0] == "user: Book a flight to Oslo"
    step = next(line for line in lines if "plan started" in line)
    assert step == "    step plan started: city=Oslo"
    assert "        step think started (model): about=Oslo" in lines, "inside of plan"
    assert re.search(r"\n +done in [\d.]+ m?s: look for Oslo\n", told)
    assert re.search(r"\n +used 25 tokens and \$0\.0020 of m1\n", told)
    assert re.search(r"asked: Buy for 80 euros\?\n +answered by somebody: yes\n", told)
    assert re.search(r"mira told task book: A window seat\n +heard by the run\n", told)
    assert re.search(r"pay started: 0=no seat\n +failed after .*: ValueError: invalid lit", told)
    assert not re.search(r"\brun\.|step_|\bsteps\.|STATUS_|body\.", told)
    assert "run book" in cli("show", "ann", "--all").stdout
    assert cli("sessions").stdout == "ann  Book a flight to Oslo\n"


def test_a_question_that_nobody_has_answered_is_said_to_wait() -> None:
    asked = Line("asked", "Why?", tone="waiting", about=("q",), under="")
    [part] = tell([("v", 1.0, asked)])
    assert part.waits
    [part] = tell([("v", 1.0, asked), ("v", 2.0, Line("answered", "so", about=("q",)))])
    assert (part.waits, part.outcomes()) == (False, ["answered: so"])


def test_what_says_more_of_nothing_that_was_told_stands_alone() -> None:
    """After a cut, and where another view has it."""
    done = Line("step x done", about=("x",))
    assert [part.line for part in tell([("v", 1.0, done)])] == [done]
    assert tell([("v", 1.0, Line("list", group="lists")), ("v", 1.0, Line("", tone="aside"))]) == []
    begun = Line("order", about=("e",), under="")
    [part] = tell([("a", 1.0, begun), ("b", 2.0, Line("heard", tone="aside", about=("e",)))])
    assert part.outcomes() == ["heard"]


def test_lists_say_where_there_is_nothing(cli: Cli) -> None:
    cli.start_task("s", "t")
    assert cli("waiting").stderr == "nothing waits for a person\n"
    asyncio.run(noted(cli))
    for command, words in (("tasks", "no tasks"), ("updates", "no updates")):
        result = cli(command, "n")
        assert (result.stdout, result.stderr) == ("", f"{words}\n")
        assert cli(command, "n", "--json").document == []


async def noted(cli: Cli) -> None:
    async with foldlog.connect(**cli.place) as store:
        await store.append_messages("n", [Message("1", "x", {"content": "hi"})])


def test_tables_fit_the_terminal(cli: Cli) -> None:
    cli.start_task("s", "t")
    query = "select *, date '2026-03-02' as day from updates"
    shown = run("sql", query, *cli.options, COLUMNS="60").stdout.splitlines()
    assert shown[0] == "row 1"
    assert "    day          2026-03-02" in shown
    few = run("sql", "select date '2026-03-02' as day, 1 as n", *cli.options, COLUMNS="60").stdout
    assert re.search(rf"^{dt.date(2026, 3, 2)} +1", few, re.MULTILINE)


def test_moments_and_servers_that_there_are_not_say_which_there_are(cli: Cli) -> None:
    cli.start_task("s", "t")
    assert "a position as @1234" in cli("show", "s", "--at", "yesterday").stderr
    error = run("sessions", "--url", "postgresql://host/db").stderr
    assert "'postgresql' is not how the URL of a NATS server begins" in error

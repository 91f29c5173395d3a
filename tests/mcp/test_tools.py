"""What agents ask, by the SDK's client, and what they are answered: short, whole, and cut aloud."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import foldlog
from foldlog.mcp import tools
from foldlog.mcp.answers import ANSWER
from foldlog.mcp.tools import Tools
from tests.cli.support import Cli
from tests.mcp.support import LARGE, UPDATES, Answer, Client, update

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONVERSATIONS = {
    *("allotment-watering-0", "bike-repair-0", "canteen-menu-0", "library-renewal-0"),
    *("night-shift-0", "telescope-night-1"),
}
_NEXT = re.compile(r"\nnext=(.*)$")


async def story(ask: Client, session: str, **asked: Any) -> list[list[str]]:
    """A session's story, page by page from its end, without the lines that name a day."""
    return await _pages(lambda cursor: ask("story", session_id=session, cursor=cursor, **asked))


async def pages_of(asked: Tools, session: str) -> list[list[str]]:
    """The same from the tools themselves."""

    async def answer(cursor: str) -> Answer:
        return Answer(await asked.story(session, cursor=cursor), is_error=False)

    return await _pages(answer)


async def _pages(read: Callable[[str], Awaitable[Answer]]) -> list[list[str]]:
    pages, cursor = [], ""
    while True:
        text = (await read(cursor)).text
        more = _NEXT.search(text)
        lines = (text[: more.start()] if more else text).splitlines()
        pages.append([each for each in lines if re.match(r"@| {4}", each)])
        if more is None:
            return pages
        cursor = more[1]


async def test_each_tool_says_that_it_only_reads_and_what_it_takes(ask: Client) -> None:
    found = [each.model_dump(by_alias=True) for each in (await ask.session.list_tools()).tools]
    assert [each["name"] for each in found] == [
        *("sessions", "session", "story", "record"),
        *("steps", "waiting", "queues", "sql"),
    ]
    for tool in found:
        assert tool["annotations"]["readOnlyHint"], tool["name"]
        assert tool["description"][0].isupper(), tool["name"]
        for name, parameter in tool["inputSchema"]["properties"].items():
            assert parameter["description"], f"{tool['name']}: {name}"
    # An agent reads all of this before its first question.
    assert len(json.dumps([[t["description"], t["inputSchema"]] for t in found])) < 10_000


async def test_sessions_are_listed_filtered_and_paged(ask: Client) -> None:
    found = (await ask("sessions")).document
    assert {each["id"] for each in found["sessions"]} == {
        *CONVERSATIONS,
        *("ann", "bergen", "huge", "long"),
    }
    assert found["total"] == 10
    assert found["statuses"]["waiting"] == 1
    rest = (await ask("sessions", offset=3)).document["sessions"]
    assert [each["id"] for each in rest] == [each["id"] for each in found["sessions"][3:]]
    [bike] = (await ask("sessions", text="touring BIKE")).document["sessions"]
    assert (bike["id"], bike["status"]) == ("bike-repair-0", "finished")
    [ann] = (await ask("sessions", status="waiting")).document["sessions"]
    assert ann["tasks"] == {"COMPLETE": 1, "PAUSED": 1}


async def test_a_session_has_its_tasks(ask: Client) -> None:
    found = (await ask("session", session_id="ann")).document
    assert found["session"]["status"] == "waiting"
    tasks = {each["task_id"]: each for each in found["tasks"]}
    assert {id: each["status"] for id, each in tasks.items()} == {
        "ask": "PAUSED",
        "book-oslo": "COMPLETE",
    }
    assert tasks["book-oslo"]["description"] == "a flight to Oslo"
    assert found["position"].startswith("@")


async def test_a_story_is_told_in_words_and_in_order(ask: Client) -> None:
    [lines] = await story(ask, "ann")
    told = [re.sub(r"^@\S+ \S+ ", "", line) for line in lines]
    timeless = [re.sub(r"[0-9.]+ m?s", "_", line) for line in told]
    for line in (
        *("  step search started: city=Oslo", '      -> done in _: [{"flight":7,"to":"Oslo"}]'),
        *("      -> done in _: a large value", "task book-oslo finished"),
        "      -> failed after _: ConnectionError: the airline does not answer",
        "  asked: Buy for 80 euros? (nobody has answered yet)",
    ):
        assert line in timeless, timeless
    assert timeless.index("task book-oslo started: a flight to Oslo") < timeless.index(
        "task book-oslo finished"
    )


async def test_pages_of_a_story_join_without_gap_or_repeat(
    log: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with foldlog.connect(**log.place, read_only=True) as store:
        whole = await pages_of(Tools(store), "bike-repair-0")
        assert len(whole) == 1
        monkeypatch.setattr(tools, "ANSWER", 700)
        pages = await pages_of(Tools(store), "bike-repair-0")
        assert len(pages) > 2
        assert [line for page in reversed(pages) for line in page] == whole[0]


async def test_a_session_of_many_updates_comes_in_pages(ask: Client) -> None:
    pages = await story(ask, "long")
    numbers = [int(line.rpartition(" ")[2]) for page in reversed(pages) for line in page]
    assert numbers == list(range(UPDATES))
    found = (await ask("story", session_id="long", text="WORKING ON 999")).text.splitlines()
    numbers = [int(line.rpartition(" ")[2]) for line in found[1:] if line.startswith("@")]
    assert numbers == list(range(9990, UPDATES))
    assert found[-1].startswith("next=")  # it has looked through the last 5,000


async def test_one_call_looks_through_so_many_records_for_a_text(ask: Client) -> None:
    none = (await ask("story", session_id="long", text="no such text")).text
    cursor = re.fullmatch(r"next=(@\S+)", none)
    assert cursor is not None
    none = (await ask("story", session_id="long", text="no such", cursor=cursor[1])).text
    assert none == "nothing happened"


async def test_what_is_found_can_be_read_whole(ask: Client) -> None:
    found = (await ask("story", session_id="ann", text="does not ANSWER")).text.splitlines()
    [line] = [each for each in found if "step buy failed" in each]
    position = line.partition(" ")[0]
    whole = (await ask("record", session_id="ann", position=position)).document
    assert whole["record"]["error"] == "ConnectionError"


async def test_a_large_value_is_said_to_be_and_can_be_read_whole(ask: Client) -> None:
    steps = (await ask("steps", session_id="ann", run="book-oslo")).document["steps"]
    [scan] = [each for each in steps if each["step"] == "scan"]
    assert scan["blob"]
    assert scan["result"] is None
    found = (await ask("story", session_id="ann", text='"scan"')).text.splitlines()
    [end] = [each.partition(" ")[0] for each in found if "step scan done" in each]
    text = (await ask("record", session_id="ann", position=end)).text
    assert text.endswith(f" more characters: offset={ANSWER}")
    last = (await ask("record", session_id="ann", position=end, offset=LARGE)).text
    assert last.startswith("xxx")
    assert last.endswith("}")
    huge = (await ask("story", session_id="huge", text="yyy")).text
    assert len(huge) < 500


async def test_steps_have_results_failures_and_phases(ask: Client) -> None:
    found = (await ask("steps", session_id="ann", run="book-oslo")).document
    assert found["status"] == "COMPLETE"
    search, _, buy, apologise = found["steps"]
    assert search["arguments"] == {"city": "Oslo"}
    assert search["result"] == [{"flight": 7, "to": "Oslo"}]
    assert (buy["phase"], buy["message"]) == ("failed", "the airline does not answer")
    assert apologise["result"] is False
    rest = (await ask("steps", session_id="ann", run="book-oslo", offset=2)).document
    assert [each["step"] for each in rest["steps"]] == ["buy", "apologise"]
    bergen = (await ask("steps", session_id="bergen")).document
    assert (bergen["job"]["function"], bergen["status"]) == ("research", "FAILED")
    assert bergen["error"] == "ConnectionError: Bergen does not answer"


async def test_what_waits_and_what_failed(ask: Client) -> None:
    [item] = (await ask("waiting")).document["waiting"]
    assert item["question"] == "Buy for 80 euros?"
    assert item["id"].startswith("question/ann/ask/buy/")
    assert (await ask("waiting", session_id="bergen")).document["waiting"] == []
    queues = (await ask("queues")).document
    assert [(e["id"], e["function"]) for e in queues["failed"]] == [("bergen", "research")]
    assert queues["failed_in_all"] == 1
    assert (await ask("queues", offset=1)).document["failed"] == []


async def test_any_of_these_at_an_earlier_moment(ask: Client, log: Cli) -> None:
    steps = (await ask("steps", session_id="ann", run="book-oslo", at="after step search")).document
    assert [each["step"] for each in steps["steps"]] == ["search"]
    assert steps["status"] == "RUNNING"
    before = (await ask("session", session_id="ann", at="before step apologise")).document
    assert [each["task_id"] for each in before["tasks"]] == ["book-oslo"]
    position = before["position"]
    assert (await ask("waiting", at=position)).document["waiting"] == []
    assert (await ask("waiting", at="2000-01-01T00:00:00Z")).document["waiting"] == []
    earlier = (await ask("sessions", at=position)).document["sessions"]
    assert {each["id"] for each in earlier} == {*CONVERSATIONS, "ann"}
    pages = await story(ask, "ann", at=position)
    assert not any("asked" in line for page in pages for line in page)


async def test_errors_are_those_of_the_public_api(ask: Client) -> None:
    ann = {"session_id": "ann"}
    for says, tool, asked in (
        ("NotFound: there is no session 'bike-repair'", "story", {"session_id": "bike-repair"}),
        ("is it one of bike-repair-0?", "story", {"session_id": "bike-repair"}),
        ("NotFound: there is no session 'nobody'", "session", {"session_id": "nobody"}),
        ("NotFound: there is no run 'ann': the tasks are book-oslo, ask", "steps", ann),
        ("NotFound: there is no record '@99999'", "record", ann | {"position": "@99999"}),
        ("UnknownMoment", "record", ann | {"position": "first"}),
        ("PayloadError", "record", ann | {"position": "@1,2"}),
        ("PayloadError", "story", ann | {"cursor": "@1,2"}),
        ("UnknownMoment", "sessions", {"at": "no such update"}),
        ("'2026-99-01T00:00' is no time", "sessions", {"at": "2026-99-01T00:00"}),
        ("greater than or equal to 0", "sessions", {"offset": -1}),
    ):
        assert says in await ask.fails(tool, **asked), (tool, asked)


async def test_with_several_shards_a_story_is_paged_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = foldlog.memory_store(shards=3)
    for number in range(9):
        await store.save_update(update("trip", number, f"step {number}"))
        event = foldlog.StoredEvent("session:trip", float(number), "noted", None, None, {})
        await store.save_event(event)
    asked = Tools(store)
    [whole] = await pages_of(asked, "trip")
    monkeypatch.setattr(tools, "ANSWER", 200)
    pages = await pages_of(asked, "trip")
    assert len(pages) > 2
    assert [line for page in reversed(pages) for line in page] == whole
    assert sum("step" in line for line in whole) == 9
    monkeypatch.undo()
    for line in whole:
        place = line.partition(" ")[0]
        record = json.loads(await asked.record("trip", place))
        assert str(record["line"]["text"]) in line
        number = record["number"]
        assert re.sub(r"\.0|~[0-9a-f]{8}", "", record["position"]) == place, number

"""What agents ask, by the SDK's client, and what they are answered: short, whole, and cut aloud."""

from __future__ import annotations

import json
import re
from typing import Any

import foldlog
from foldlog.mcp.tools import Tools
from tests.cli.support import Cli
from tests.mcp.support import LARGE, UPDATES, Client, update

CONVERSATIONS = {
    *("allotment-watering-0", "bike-repair-0", "canteen-menu-0", "library-renewal-0"),
    *("night-shift-0", "telescope-night-1"),
}
_NEXT = re.compile(r'\nnext="(.*)"$')


async def story(ask: Client, session: str, **asked: Any) -> list[list[str]]:
    """A session's story, page by page, without the lines that name a day."""
    pages, cursor = [], ""
    while True:
        text = (await ask("story", session_id=session, cursor=cursor, **asked)).text
        more = _NEXT.search(text)
        lines = (text[: more.start()] if more else text).splitlines()
        pages.append([each for each in lines if re.match(r"@| {4}", each)])
        if more is None:
            return pages
        cursor = more[1]


async def test_each_tool_says_that_it_only_reads_and_what_it_takes(ask: Client) -> None:
    tools = [each.model_dump(by_alias=True) for each in (await ask.session.list_tools()).tools]
    assert [each["name"] for each in tools] == [
        *("sessions", "session", "story", "search", "record"),
        *("steps", "waiting", "queues", "sql"),
    ]
    for tool in tools:
        assert tool["annotations"]["readOnlyHint"], tool["name"]
        assert not tool["annotations"]["destructiveHint"], tool["name"]
        assert tool["description"][0].isupper(), tool["name"]
        for name, parameter in tool["inputSchema"]["properties"].items():
            assert parameter["description"], f"{tool['name']}: {name}"
    # An agent reads all of this before its first question.
    assert len(json.dumps([[t["description"], t["inputSchema"]] for t in tools])) < 10_000


async def test_sessions_are_listed_filtered_and_paged(ask: Client) -> None:
    found = (await ask("sessions")).document
    assert {each["id"] for each in found["sessions"]} == {
        *CONVERSATIONS,
        *("ann", "bergen", "huge", "long"),
    }
    assert found["total"] == 10
    assert found["statuses"]["waiting"] == 1
    paged = await ask.pages("sessions", "sessions", limit=3)
    assert [each["id"] for each in paged] == [each["id"] for each in found["sessions"]]
    [bike] = (await ask("sessions", text="touring BIKE")).document["sessions"]
    assert (bike["id"], bike["status"]) == ("bike-repair-0", "finished")
    [ann] = (await ask("sessions", status="waiting")).document["sessions"]
    assert ann["tasks"] == {"COMPLETE": 1, "PAUSED": 1}


async def test_a_session_has_its_tasks_and_what_waits(ask: Client) -> None:
    found = (await ask("session", session_id="ann")).document
    assert [(t["task_id"], t["status"]) for t in found["tasks"]] == [
        ("ask", "PAUSED"),
        ("book-oslo", "COMPLETE"),
    ]
    assert found["tasks"][1]["description"] == "a flight to Oslo"
    assert [each["question"] for each in found["waiting"]] == ["Buy for 80 euros?"]
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


async def test_pages_of_a_story_join_without_gap_or_repeat(ask: Client) -> None:
    [whole] = await story(ask, "bike-repair-0", limit=500)
    pages = await story(ask, "bike-repair-0", limit=7)
    assert [line for page in reversed(pages) for line in page] == whole
    pages = await story(ask, "bike-repair-0", limit=7, oldest_first=True)
    assert [line for page in pages for line in page] == whole


async def test_a_session_of_many_updates_comes_in_pages(ask: Client) -> None:
    pages = await story(ask, "long", limit=500, oldest_first=True)
    numbers = [int(line.rpartition(" ")[2]) for page in pages for line in page]
    assert numbers == list(range(UPDATES))
    [line] = (await story_page(ask, "long", limit=1))[1:2]
    assert line.endswith(f"working on {UPDATES - 1}")
    found = await ask("search", session_id="long", text="WORKING ON 999", limit=5)
    assert [each["kind"] for each in found.document["records"]] == ["updates"] * 5
    assert "9999" in found.document["records"][0]["excerpt"]
    # One call reads so many records, and says where the next one goes on.
    none = (await ask("search", session_id="long", text="no such text")).document
    assert none["records"] == []
    cursor = re.search(r"5,000 records were read; on with cursor=(\S+)", none["note"])
    assert cursor is not None
    none = (await ask("search", session_id="long", text="no such", cursor=cursor[1])).document
    assert none["records"] == []


async def story_page(ask: Client, session: str, **asked: Any) -> list[str]:
    """The lines of one page."""
    return (await ask("story", session_id=session, **asked)).text.splitlines()


async def test_what_is_found_is_shown_with_what_stands_around_it(ask: Client) -> None:
    found = (await ask("search", session_id="ann", text="does not ANSWER")).document
    [record] = found["records"]
    assert record["what"].startswith("step buy failed")
    assert "the airline does not answer" in record["excerpt"]
    whole = (await ask("record", session_id="ann", position=record["position"])).document
    assert whole["record"]["error"] == "ConnectionError"
    pages = await ask.pages("search", "records", "cursor", session_id="ann", kind="runs", limit=2)
    assert len({each["position"] for each in pages}) == len(pages) > 4


async def test_a_large_value_is_cut_and_says_so_and_can_be_read_whole(ask: Client) -> None:
    steps = (await ask("steps", session_id="ann", run="book-oslo")).document["steps"]
    [scan] = [each for each in steps if each["step"] == "scan"]
    assert "a large value" in scan["result"]
    records = (await ask("search", session_id="ann", kind="runs", limit=100)).document["records"]
    [end] = [each for each in records if each["what"].startswith("step scan done")]
    text = (await ask("record", session_id="ann", position=end["position"])).text
    assert text.endswith(f" more characters: offset={20_000}")
    last = (await ask("record", session_id="ann", position=end["position"], offset=LARGE)).text
    assert last.startswith("xxx")
    assert last.endswith("}")
    huge = (await ask("search", session_id="huge", text="yyy")).document["records"]
    assert len(huge[0]["excerpt"]) < 500


async def test_steps_have_results_failures_and_phases(ask: Client) -> None:
    found = (await ask("steps", session_id="ann", run="book-oslo")).document
    assert found["status"] == "COMPLETE"
    search, _, buy, apologise = found["steps"]
    assert search["arguments"] == {"city": "Oslo"}
    assert search["result"] == [{"flight": 7, "to": "Oslo"}]
    assert (buy["phase"], buy["message"]) == ("failed", "the airline does not answer")
    assert apologise["result"] is False
    failed = (await ask("steps", session_id="ann", run="book-oslo", phase="failed")).document
    assert [each["step"] for each in failed["steps"]] == ["buy"]
    paged = await ask.pages("steps", "steps", session_id="ann", run="book-oslo", limit=1)
    assert [each["step"] for each in paged] == ["search", "scan", "buy", "apologise"]
    bergen = (await ask("steps", session_id="bergen")).document
    assert (bergen["function"], bergen["status"]) == ("research", "FAILED")
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
    pages = await story(ask, "ann", at=position, limit=2)
    assert not any("asked" in line for page in pages for line in page)


async def test_errors_are_those_of_the_public_api(ask: Client) -> None:
    ann = {"session_id": "ann"}
    for says, tool, asked in (
        ("NotFound: there is no session 'bike-repair'", "story", {"session_id": "bike-repair"}),
        ("is it one of bike-repair-0?", "story", {"session_id": "bike-repair"}),
        ("NotFound: there is no session 'nobody'", "session", {"session_id": "nobody"}),
        ("NotFound: there is no run 'ann': the runs are ask, book-oslo", "steps", ann),
        ("NotFound: there is no kind 'no': the session has", "search", ann | {"kind": "no"}),
        ("NotFound: there is no record '@99999'", "record", ann | {"position": "@99999"}),
        ("UnknownMoment", "record", ann | {"position": "first"}),
        ("PayloadError", "record", ann | {"position": "@1,2"}),
        ("PayloadError", "story", ann | {"cursor": "@1,2"}),
        ("UnknownMoment", "sessions", {"at": "no such update"}),
        ("'2026-99-01T00:00' is no time", "sessions", {"at": "2026-99-01T00:00"}),
        ("greater than or equal to 0", "sessions", {"offset": -1}),
        ("InvalidId", "waiting", {"cursor": "x"}),
        ("less than or equal to 500", "story", ann | {"limit": 501}),
    ):
        assert says in await ask.fails(tool, **asked), (tool, asked)


async def test_with_several_shards_a_story_is_paged_as_well() -> None:
    store = foldlog.memory_store(shards=3)
    for number in range(9):
        await store.save_update(update("trip", number, f"step {number}"))
        event = foldlog.StoredEvent("session:trip", float(number), "noted", None, None, {})
        await store.save_event(event)
    tools, found, cursor = Tools(store), list[str](), ""
    for _ in range(20):
        text = await tools.story("trip", limit=4, cursor=cursor)
        more = _NEXT.search(text)
        lines = [line for line in text.splitlines() if line.startswith("@")]
        found = lines + found
        if more is None:
            break
        cursor = more[1]
    whole = (await tools.story("trip", limit=500)).splitlines()
    assert found == [line for line in whole if line.startswith("@")]
    assert sum("step" in line for line in found) == 9
    for line in found:
        place = line.partition(" ")[0]
        record = json.loads(await tools.record("trip", place))
        assert str(record["line"]["text"]) in line
        number = record["number"]
        assert re.sub(r"\.0|~[0-9a-f]{8}", "", record["position"]) == place, number

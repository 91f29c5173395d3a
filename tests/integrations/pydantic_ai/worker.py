"""A conversation of Pydantic AI in another process. Says one JSON value per line.

worker.py PATH NAMESPACE CONVERSATION WHAT

WHAT is what it does:

    begin      takes turn after turn, and says how many, until it is killed
    resume     goes on with one turn, and says the end
    add        waits for a line, then adds ten messages, as often again as others were faster
    approve    waits for a line, approves what waits, if nobody else does, and says the end
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path
from typing import Any

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest, UserPromptPart

import foldlog
from foldlog.integrations.pydantic_ai import FoldlogConversationStore
from tests.integrations.pydantic_ai.agents import make_agent


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def told() -> str:
    say("ready")
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


async def turn(conversations: FoldlogConversationStore, id: str, prompt: str) -> Any:
    conversation = await conversations.load(id) or Conversation(conversation_id=id)
    result = await make_agent().run(prompt, conversation=conversation)
    await conversations.save(result)
    return result.output


async def begin(store: foldlog.Store, id: str) -> None:
    for number in itertools.count():
        say(await turn(FoldlogConversationStore(store), id, f"turn {number}"))


async def resume(store: foldlog.Store, id: str) -> None:
    say(await turn(FoldlogConversationStore(store), id, "and on"))


async def add(store: foldlog.Store, id: str) -> None:
    conversations, mine = FoldlogConversationStore(store), await told()
    for number in range(10):
        message = ModelRequest([UserPromptPart(f"{mine} {number}")])
        while True:
            conversation = await conversations.load(id) or Conversation(conversation_id=id)
            conversation.messages.append(message)
            try:
                await conversations.save(conversation)
            except ConversationConflict:
                continue
            break
    say("added")


async def approve(store: foldlog.Store, id: str) -> None:
    conversations = FoldlogConversationStore(store)
    [waits] = await store.waiting()
    await told()
    mine: Any = None

    async def go_on() -> None:
        nonlocal mine
        conversation = await conversations.load(id)
        assert conversation is not None
        assert conversation.deferred_tool_requests is not None
        results = conversation.deferred_tool_requests.build_results(approve_all=True)
        result = await make_agent().run(conversation=conversation, deferred_tool_results=results)
        await conversations.save(result)
        mine = result.output

    async with store.run(waits.id, session_id=waits.session_id) as run:
        await run.step("continue", go_on)
    say(mine)


async def main(path: str, namespace: str, id: str, what: str) -> None:
    does = {"begin": begin, "resume": resume, "add": add, "approve": approve}[what]
    async with foldlog.connect(path=path, namespace=namespace) as store:
        await does(store, id)


asyncio.run(main(*sys.argv[1:]))

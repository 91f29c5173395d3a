"""Claude Code in a run: it goes on from its transcript, and tools in process are steps.

    @foldlog.durable
    async def travel(run: foldlog.Run, prompt: str) -> str:
        async for message in query_in(run, prompt=prompt, servers={"travel": [search, book]}):
            ...
        return message.result

The contract is `query`, `SdkMcpTool` and the hooks of `claude_agent_sdk`. Its models are called by
a subprocess, where nothing can be put between: a query is a step, and not a model call.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, cast
from uuid import uuid4

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    SdkMcpTool,
    create_sdk_mcp_server,
    project_key_for_directory,
    query,
)

from foldlog.errors import FoldlogError, Misuse
from foldlog.integrations.calls import AgentSteps, StepOptions, heard
from foldlog.integrations.claude_agent.sessions import FoldlogSessionStore
from foldlog.runs import Run

GO_ON: Final = "You were interrupted. Go on where you were."
"""What Claude Code hears where its transcript has the prompt already."""

_OURS: Final = ("continue_conversation", "fork_session", "resume", "session_id", "session_store")
"""Options that are the run's."""

_CUT_SHORT: Final = ("started", "unrecorded", "doubted")
"""Phases of a step whose outcome nobody knows."""


async def query_in(
    run: Run,
    *,
    prompt: str,
    options: ClaudeAgentOptions | None = None,
    servers: Mapping[str, Sequence[SdkMcpTool[Any]]] | None = None,
    name: str = "claude",
    model: StepOptions | None = None,
    tools: Mapping[str, StepOptions] | None = None,
) -> AsyncIterator[Any]:
    """Ask Claude Code in a run, as `claude_agent_sdk.query` does, and yield its messages.

    A query that has ended is not made again: its ResultMessage is on record, and is all that it
    yields then. One that was cut short goes on from its transcript, which is in the run's store:
    what Claude Code has said there is not asked for again, and what it was about to do it decides
    anew.

    A tool of `servers` is a step: a call that ended, and whose result Claude Code has not taken up
    in its transcript, returns what is on record when it is called again with the same arguments.
    If its worker died in it, it is not called again, unless `tools` says that it may be:
    `store.waiting()` asks whether it happened. It may ask a person by `run.ask`, and so may
    `can_use_tool` of the options: the run waits in `store.waiting()` and takes no process
    meanwhile. All else that Claude Code does, such as its own tools, is no step.

    Each query is a separate conversation.

    Args:
        run: an open run, of `store.run` or a worker.
        prompt: what it is asked; the same in every execution.
        options: of `query`. They stay as they are. `cwd` is the same wherever the run goes on.
        servers: tools in this process, by the name of their server, as `create_sdk_mcp_server`
            takes them.
        name: what the steps are called.
        model: options of the step that is a query. It is repeatable, if not said else.
        tools: options of the steps that are tools, by the tool's name.

    Raises:
        RunPaused: a question waits. StepUnknown: nobody knows whether a tool had its effect.
        StepChanged: another prompt.
        Misuse: an option is none of `Run.step`, or is for a session of yours.
        FoldlogError: what else `Run.step` and `Run.ask` raise. What `query` raises passes through.
    """
    options = options or ClaudeAgentOptions()
    if given := [each for each in _OURS if getattr(options, each, None)]:
        raise Misuse(f"query_in has a session of the run's, and takes no {', '.join(given)}")
    it = _Query(run, name, options, servers or {}, AgentSteps(run, model=model, tools=tools))
    async with aclosing(heard(lambda hear: it.ask(prompt, hear))) as things:
        async for thing, is_result in things:
            yield ResultMessage(**thing) if is_result else thing


class _Query:
    """One query in this execution of a run."""

    def __init__(
        self,
        run: Run,
        name: str,
        options: ClaudeAgentOptions,
        servers: Mapping[str, Sequence[SdkMcpTool[Any]]],
        steps: AgentSteps,
    ) -> None:
        self._run = run
        self._name = name
        self._options = options
        self._servers = servers
        self._steps = steps
        self._sessions = FoldlogSessionStore(run.store)
        self._project = project_key_for_directory(options.cwd)
        self._calls = Counter[str]()
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ask(self, prompt: str, hear: Callable[[Any], None]) -> Awaitable[Any]:
        """The step."""

        async def ask() -> Any:
            talking = asyncio.ensure_future(self._talk(prompt, hear))
            try:
                await asyncio.wait([talking, self._stopped], return_when=asyncio.FIRST_COMPLETED)
                self._steps.check()
                return await talking
            finally:
                if not talking.done():
                    talking.cancel()
                    await asyncio.wait([talking])

        return self._steps.model(self._name, ask, prompt, "query")

    async def _talk(self, prompt: str, hear: Callable[[Any], None]) -> Any:
        """Begin or go on, to the end."""
        await self._be_sure()
        id, transcript = await self._session()
        self._calls = _taken_up(transcript)
        for subpath in await self._sessions.list_subkeys(self._key(id)):
            self._calls += _taken_up(await self._sessions.load(self._key(id, subpath)) or [])
        changed: dict[str, Any] = {"session_store": self._sessions}
        changed["resume" if transcript else "session_id"] = id
        if hasattr(self._options, "session_store_flush"):  # older versions flush at the end
            changed["session_store_flush"] = "eager"
        if self._options.can_use_tool is not None:
            changed["can_use_tool"] = self._stopping(self._options.can_use_tool)
        made = {
            name: create_sdk_mcp_server(name, tools=[self._tool(name, each) for each in tools])
            for name, tools in self._servers.items()
        }
        if made:
            changed["mcp_servers"] = {**cast("dict[str, Any]", self._options.mcp_servers), **made}
        options = dataclasses.replace(self._options, **changed)
        result: ResultMessage | None = None
        said = _one(GO_ON if transcript else prompt)
        async with aclosing(cast("Any", query(prompt=said, options=options))) as messages:
            async for message in messages:
                if isinstance(message, ResultMessage):
                    result = message
                else:
                    hear(message)
        if result is None:
            raise RuntimeError("Claude Code ended without a result")
        for used_model, used in (result.model_usage or {}).items():
            self._run.usage(
                model=used_model,
                input_tokens=used.get("inputTokens") or 0,
                output_tokens=used.get("outputTokens") or 0,
                cost_usd=used.get("costUSD") or 0.0,
            )
        return dataclasses.asdict(result)

    async def _be_sure(self) -> None:
        """Raise StepUnknown for a tool that was cut short, before the model is asked again."""

        def unexpected() -> None:
            raise RuntimeError("a person has just said whether the step happened")

        for step in await self._run.steps():
            is_tool = step.kind == "tool" and step.parent == self._run.within
            if is_tool and step.phase in _CUT_SHORT and not step.repeatable:
                await self._run.step(step.step, unexpected, on_change="keep")

    async def _session(self) -> tuple[str, list[Any]]:
        """The session of the conversation, with its transcript: the first one that has any.

        Claude Code begins none twice, also if its transcript has not come here.
        """
        number, is_new = 0, False

        def make() -> str:
            nonlocal is_new
            is_new = True
            return str(uuid4())

        while True:
            number += 1
            step = f"{self._run.within}/session {number}"
            id = await self._run.step(step, make, repeatable=True)
            transcript = await self._sessions.load(self._key(id)) or []
            if transcript or is_new:
                return id, transcript

    def _key(self, id: str, subpath: str | None = None) -> dict[str, str]:
        key = {"project_key": self._project, "session_id": id}
        return key if subpath is None else {**key, "subpath": subpath}

    def _tool(self, server: str, tool: SdkMcpTool[Any]) -> SdkMcpTool[Any]:
        """A tool whose calls are steps."""

        async def handle(arguments: Any) -> dict[str, Any]:
            call = _call_of(f"mcp__{server}__{tool.name}", arguments)
            self._calls[call] += 1
            id = f"{hashlib.sha256(call.encode()).hexdigest()[:8]} {self._calls[call]}"

            async def do() -> dict[str, Any]:
                result: dict[str, Any] = await tool.handler(arguments)
                return result

            done = await self._steps.tool(
                self._name, tool.name, id, arguments, do, lambda error: _text(error, is_error=True)
            )
            return done if isinstance(done, dict) and "content" in done else _text(done)

        return dataclasses.replace(tool, handler=self._stopping(handle))

    def _stopping(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """A function that ends the query where the run stops: Claude Code would hear an error."""

        async def stopping(*args: Any) -> Any:
            try:
                return await function(*args)
            except FoldlogError as error:
                self._steps.stopped.append(error)
                if not self._stopped.done():
                    self._stopped.set_result(None)
                return await asyncio.Future()  # which is cancelled with the query

        return stopping


async def _one(prompt: str) -> AsyncIterator[dict[str, Any]]:
    """A prompt as a stream, which `can_use_tool` needs."""
    yield {
        "type": "user",
        "message": {"role": "user", "content": prompt},
        "parent_tool_use_id": None,
    }


def _call_of(tool: Any, arguments: Any) -> str:
    return json.dumps([tool, arguments], sort_keys=True, default=str)


def _taken_up(transcript: Sequence[Any]) -> Counter[str]:
    """How often a call was made whose result is followed by another message of the model."""
    made: dict[str, tuple[str, Any]] = {}
    ended: list[tuple[str, Any]] = []
    taken_up = Counter[str]()
    for entry in transcript:
        said = entry.get("message")
        message: Mapping[str, Any] = said if isinstance(said, dict) else {}
        id, content = message.get("id"), message.get("content")
        if entry.get("type") == "assistant":
            taken_up.update(call for call, of in ended if of is None or of != id)
            ended = [(call, of) for call, of in ended if of is not None and of == id]
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use":
                made[block["id"]] = _call_of(block["name"], block["input"]), id
            elif block.get("type") == "tool_result" and block["tool_use_id"] in made:
                ended.append(made[block["tool_use_id"]])
    return taken_up


def _text(said: Any, *, is_error: bool = False) -> dict[str, Any]:
    """A tool's result that is a text."""
    content = [{"type": "text", "text": said if isinstance(said, str) else str(said)}]
    return {"content": content, **({"is_error": True} if is_error else {})}

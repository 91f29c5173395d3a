"""The agent of `durable_agents` in OpenAI Agents: bare, in runs of foldlog, and with DBOS."""

from __future__ import annotations

import json
from importlib import import_module, metadata
from typing import Any, ClassVar

from benchmarks.contenders.durable_agents import ANSWER, PROMPT, TURNS, search, step_of_dbos
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.workers import Dbos
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable


def _agent(tool: Any = search) -> Any:
    try:
        agents, responses = import_module("agents"), import_module("openai.types.responses")
    except ImportError:
        raise Unavailable("openai-agents is not installed") from None
    agents.set_tracing_disabled(True)

    class Scripted(agents.Model):  # type: ignore[misc, name-defined]
        async def get_response(
            self, system_instructions: Any, input: Any, *_: Any, **__: Any
        ) -> Any:
            """What the script says next."""
            items = [] if isinstance(input, str) else input
            called = [each["call_id"] for each in items if each.get("type") == "function_call"]
            turn = sum(cities[0] in called for cities in TURNS)
            output = [_call(city) for city in TURNS[turn]] if turn < len(TURNS) else [_said()]
            return agents.ModelResponse(output=output, usage=agents.Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            """Nobody asks for it."""
            raise NotImplementedError

    def _call(city: str) -> Any:
        return responses.ResponseFunctionToolCall(
            arguments=json.dumps({"city": city}),
            call_id=city,
            name="search",
            type="function_call",
        )

    def _said() -> Any:
        text = responses.ResponseOutputText(annotations=[], text=ANSWER, type="output_text")
        return responses.ResponseOutputMessage(
            id="said", content=[text], role="assistant", status="completed", type="message"
        )

    tools = [agents.function_tool(tool, name_override="search")]
    return agents.Agent("travel", tools=tools, model=Scripted())


class BareOpenai:
    """The agent by itself."""

    name: ClassVar[str] = "the bare agent of OpenAI Agents"
    promise: ClassVar[str] = "none: it keeps nothing"

    def __init__(self, site: Site) -> None:
        self._agent: Any

    async def open(self) -> None:
        """Make the agent."""
        self._agent = _agent()
        self._runner = import_module("agents").Runner

    async def facts(self) -> dict[str, str]:
        """Its version."""
        return {"openai-agents": metadata.version("openai-agents")}

    async def close(self) -> None:
        """Nothing to close."""

    async def do(self, id: str) -> None:
        """As it is."""
        assert (await self._runner.run(self._agent, PROMPT)).final_output == ANSWER

    async def on_record(self, id: str) -> int:
        """None."""
        return 0


class FoldlogOpenai(Foldlog):
    """The agent in a run. A tool whose process dies in it is not called again unasked."""

    name: ClassVar[str] = "FoldlogRunner"
    _options: ClassVar[dict[str, Any]] = {}

    async def open(self) -> None:
        """Connect to a server of its own, and make the agent."""
        self._agent = _agent()
        self._runner = import_module("foldlog.integrations.openai_agents").FoldlogRunner
        await super().open()

    async def do(self, id: str) -> None:
        """As a run, in the process that begins it."""
        async with self.store.run(id) as run:
            runner = self._runner(run, tools={"search": self._options})
            assert (await runner.run(self._agent, PROMPT)).final_output == ANSWER

    async def on_record(self, id: str) -> int:
        """Its calls are its steps."""
        return sum(each.kind in ("model", "tool") for each in await self.store.run(id).steps())


class FoldlogOpenaiRepeatable(FoldlogOpenai):
    """The same with tools that may be called again, as those of DBOS are."""

    name: ClassVar[str] = "FoldlogRunner, repeatable tools"
    _options: ClassVar[dict[str, Any]] = {"repeatable": True}


class DbosOpenai(Dbos):
    """The agent in a workflow of DBOS, by its runner; its tools are steps."""

    name: ClassVar[str] = "DBOSRunner"
    _workflow: ClassVar[Any] = None

    async def open(self) -> None:
        """Have DBOS begin, and make the agent once: its steps are registered by their names."""
        await super().open()
        if DbosOpenai._workflow is None:
            try:
                runner = import_module("dbos_openai_agents").DBOSRunner
            except ImportError:
                await self.close()
                raise Unavailable("dbos-openai-agents is not installed") from None
            agent = _agent(step_of_dbos(self._dbos))

            async def workflow() -> None:
                assert (await runner.run(agent, PROMPT)).final_output == ANSWER

            DbosOpenai._workflow = self._dbos.workflow(name="openai agent")(workflow)

    async def do(self, id: str) -> None:
        """As a workflow, in the process that begins it."""
        with import_module("dbos").SetWorkflowID(id):
            await DbosOpenai._workflow()

    async def on_record(self, id: str) -> int:
        """Its calls are its steps."""
        return len(await self._dbos.list_workflow_steps_async(id))

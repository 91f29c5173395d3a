"""One agent of Pydantic AI, scripted: bare, as a run of foldlog, and as a workflow of DBOS."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any, ClassVar, Final, Protocol

from benchmarks.contenders.contender import Contender
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.workers import Dbos
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable

CALLS: Final = 6
"""Three of the model, and three of a tool, the last two of them side by side."""

TURNS: Final = (("Oslo",), ("Bergen", "Narvik"))
PROMPT: Final = "a trip to Oslo"
ANSWER: Final = "a trip to Oslo, Bergen and Narvik"


class RunsAgents(Contender, Protocol):
    """Does the agent's six calls, which all end at once."""

    async def do(self, id: str) -> None:
        """Run the agent, and have its answer."""
        ...

    async def on_record(self, id: str) -> int:
        """How many calls of that run are on record."""
        ...


async def search(city: str) -> str:
    """Search."""
    return city


def step_of_dbos(dbos: Any) -> Any:
    """The tool as a step of DBOS, which knows one of each name."""
    if not _steps:
        _steps.append(dbos.step()(search))
    return _steps[0]


_steps: Final[list[Any]] = []


def _agent(name: str, tool: Any = search, **options: Any) -> Any:
    try:
        ai, messages = import_module("pydantic_ai"), import_module("pydantic_ai.messages")
        function_model = import_module("pydantic_ai.models.function").FunctionModel
    except ImportError:
        raise Unavailable("pydantic-ai is not installed") from None

    def respond(said: list[Any], info: Any) -> Any:
        turn = sum(isinstance(each, messages.ModelResponse) for each in said)
        if turn < len(TURNS):
            calls = [
                messages.ToolCallPart("search", {"city": city}, tool_call_id=f"call-{city}")
                for city in TURNS[turn]
            ]
            return messages.ModelResponse(calls)
        return messages.ModelResponse([messages.TextPart(ANSWER)])

    tools = [ai.Tool(tool, name="search")]
    return ai.Agent(function_model(respond), name=name, tools=tools, **options)


class BareAgent:
    """The agent by itself."""

    name: ClassVar[str] = "the bare agent of Pydantic AI"
    promise: ClassVar[str] = "none: it keeps nothing"

    def __init__(self, site: Site) -> None:
        self._agent: Any

    async def open(self) -> None:
        """Make the agent."""
        self._agent = _agent("bare")

    async def facts(self) -> dict[str, str]:
        """Its version."""
        return {"pydantic-ai-slim": metadata.version("pydantic-ai-slim")}

    async def close(self) -> None:
        """Nothing to close."""

    async def do(self, id: str) -> None:
        """As it is."""
        assert (await self._agent.run(PROMPT)).output == ANSWER

    async def on_record(self, id: str) -> int:
        """None."""
        return 0


class FoldlogAgent(Foldlog):
    """The agent in a run. A tool whose process dies in it is not called again unasked."""

    name: ClassVar[str] = "FoldlogDurability"
    _options: ClassVar[dict[str, Any]] = {}

    async def open(self) -> None:
        """Connect to a server of its own, and make the agent."""
        self._agent = _agent("foldlog")
        self._durability = import_module("foldlog.integrations.pydantic_ai").FoldlogDurability
        await super().open()

    async def do(self, id: str) -> None:
        """As a run, in the process that begins it."""
        async with self.store.run(id) as run:
            durability = self._durability(run, tools=self._options)
            result = await self._agent.run(PROMPT, capabilities=[durability])
            assert result.output == ANSWER

    async def on_record(self, id: str) -> int:
        """Its calls are its steps."""
        return sum(each.kind in ("model", "tool") for each in await self.store.run(id).steps())


class FoldlogRepeatable(FoldlogAgent):
    """The same with tools that may be called again, as those of DBOS are."""

    name: ClassVar[str] = "FoldlogDurability, repeatable tools"
    _options: ClassVar[dict[str, Any]] = {"repeatable": True}


class DbosAgent(Dbos):
    """The agent in a workflow of DBOS, by Pydantic AI's own integration; its tools are steps."""

    name: ClassVar[str] = "DBOSDurability"
    _workflow: ClassVar[Any] = None

    async def open(self) -> None:
        """Have DBOS begin, and make the agent once: its steps are registered by their names."""
        await super().open()
        if DbosAgent._workflow is None:
            durability = import_module("pydantic_ai.durable_exec.dbos").DBOSDurability
            agent = _agent("dbos", step_of_dbos(self._dbos), capabilities=[durability()])

            async def workflow() -> None:
                assert (await agent.run(PROMPT)).output == ANSWER

            DbosAgent._workflow = self._dbos.workflow(name="agent")(workflow)

    async def do(self, id: str) -> None:
        """As a workflow, in the process that begins it."""
        with import_module("dbos").SetWorkflowID(id):
            await DbosAgent._workflow()

    async def on_record(self, id: str) -> int:
        """Its calls are its steps."""
        return len(await self._dbos.list_workflow_steps_async(id))

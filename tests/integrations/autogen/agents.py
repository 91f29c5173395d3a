"""Agents and teams that do the same whenever they are asked the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.messages import BaseChatMessage, HandoffMessage
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat, Swarm
from autogen_core import (
    AgentId,
    CancellationToken,
    DefaultTopicId,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TypeSubscription,
    message_handler,
)
from autogen_ext.models.replay import ReplayChatCompletionClient

ROUNDS = 6

Halt = Callable[[str, str], Awaitable[None]]


async def no_halt(where: str, what: str) -> None:
    """Never stops."""


@dataclass
class Draft:
    text: str
    round: int


@dataclass
class Ask:
    text: str


@dataclass
class Answer:
    text: str


class Remembers(RoutedAgent):
    """Keeps what it did, and saves that as its state."""

    def __init__(self, halt: Halt) -> None:
        super().__init__("remembers")
        self.done: list[str] = []
        self.halt = halt

    async def save_state(self) -> Mapping[str, Any]:
        return {"done": list(self.done)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.done = list(state["done"])


class Writer(Remembers):
    """Adds to a draft, having asked the library, and passes it on."""

    def __init__(self, other: str, halt: Halt) -> None:
        super().__init__(halt)
        self.other = other

    @message_handler
    async def on_draft(self, message: Draft, ctx: MessageContext) -> None:
        turn = f"{self.id.type} {message.round}"
        await self.halt("before", turn)
        found = await self.send_message(Ask(message.text), AgentId("library", "default"))
        self.done.append(f"{message.round}: {found.text}")
        if message.round < ROUNDS:
            text = f"{message.text} {self.id.type}{len(self.done)}"
            await self.publish_message(
                Draft(text, message.round + 1), DefaultTopicId(type=self.other)
            )
        await self.halt("within", turn)


class Library(Remembers):
    """Answers, and counts."""

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        self.done.append(message.text)
        return Answer(f"{len(self.done)} about {message.text.split()[-1]}")


async def register_writers(runtime: SingleThreadedAgentRuntime, halt: Halt = no_halt) -> None:
    """Two writers who pass a draft to and fro."""
    for name, other in (("ann", "bob"), ("bob", "ann")):
        await Writer.register(runtime, name, lambda other=other: Writer(other, halt))
        await runtime.add_subscription(TypeSubscription(topic_type=name, agent_type=name))
    await Library.register(runtime, "library", lambda: Library(halt))


@dataclass
class Work:
    number: int


@dataclass
class Result:
    number: int
    text: str


class Helper(Remembers):
    """One of several who are all told at once."""

    @message_handler
    async def on_work(self, message: Work, ctx: MessageContext) -> None:
        await self.halt("before", self.id.type)
        found = await self.send_message(Ask(self.id.type), AgentId("library", "default"))
        self.done.append(f"work {message.number}")
        result = Result(message.number, f"{self.id.type} {found.text.split()[-1]}")
        await self.publish_message(result, DefaultTopicId(type="results"))


class Collector(Remembers):
    """Gathers results, and asks for more work when all of a round are there."""

    @message_handler
    async def on_result(self, message: Result, ctx: MessageContext) -> None:
        self.done.append(f"{message.number} {message.text}")
        if len(self.done) % 3 == 0 and message.number < 3:
            await self.publish_message(Work(message.number + 1), DefaultTopicId(type="work"))


async def register_helpers(runtime: SingleThreadedAgentRuntime, halt: Halt = no_halt) -> None:
    """Three helpers who are told of work at once, and one who collects."""
    for name in ("h1", "h2", "h3"):
        await Helper.register(runtime, name, lambda: Helper(halt))
        await runtime.add_subscription(TypeSubscription(topic_type="work", agent_type=name))
    await Collector.register(runtime, "collector", lambda: Collector(halt))
    await runtime.add_subscription(TypeSubscription(topic_type="results", agent_type="collector"))
    await Library.register(runtime, "library", lambda: Library(halt))


# --- teams --------------------------------------------------------------------------------------

LINES = {
    "poet": ["roses are red", "violets are blue", "sugar is sweet", "and so are you"],
    "critic": ["go on", "better", "nearly", "APPROVE"],
}
MOST_MESSAGES = 8


class Model(ReplayChatCompletionClient):
    """The replay client, which may be stopped before it answers."""

    def __init__(self, name: str, lines: Sequence[str], halt: Halt) -> None:
        super().__init__(lines)
        self.name = name
        self.halt = halt

    async def create(self, *args: Any, **kwargs: Any) -> Any:
        line = self.chat_completions[self._current_index]
        await self.halt("asked", str(line))
        return await super().create(*args, **kwargs)


class Passing(BaseChatAgent):
    """Says a line, and hands over to the other: what a swarm goes by."""

    def __init__(self, name: str, other: str, lines: Sequence[str], halt: Halt) -> None:
        super().__init__(name, f"a {name}")
        self.other = other
        self.lines = list(lines)
        self.halt = halt

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (HandoffMessage,)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        await self.halt("asked", self.lines[0])
        line = self.lines.pop(0)
        return Response(
            chat_message=HandoffMessage(content=line, target=self.other, source=self.name)
        )

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Nothing to forget."""


def make_team(
    runtime: SingleThreadedAgentRuntime,
    said: Sequence[Mapping[str, Any]] = (),
    *,
    kind: str = "round robin",
    halt: Halt = no_halt,
) -> tuple[Any, Any]:
    """A poet and a critic, and their condition. What they have `said` is not asked for again."""
    participants: list[Any] = []
    for name, lines in LINES.items():
        spoken = sum(message["source"] == name for message in said)
        if kind == "swarm":
            [other] = LINES.keys() - {name}
            participants.append(Passing(name, other, lines[spoken:], halt))
            continue
        model = Model(name, lines[spoken:], halt)
        participants.append(AssistantAgent(name, model_client=model, system_message=f"a {name}"))
    condition = TextMentionTermination("APPROVE") | MaxMessageTermination(MOST_MESSAGES)
    if kind == "round robin":
        return RoundRobinGroupChat(
            participants, termination_condition=condition, runtime=runtime
        ), condition
    if kind == "swarm":
        return Swarm(participants, termination_condition=condition, runtime=runtime), condition

    def select(messages: Sequence[Any]) -> str:
        return "critic" if messages[-1].source == "poet" else "poet"

    team = SelectorGroupChat(
        participants,
        model_client=Model("selector", [], halt),
        selector_func=select,
        termination_condition=condition,
        runtime=runtime,
    )
    return team, condition


def lines_of(messages: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Who said what."""
    return [[message["source"], message["content"]] for message in messages]

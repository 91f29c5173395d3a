"""Checkpoints of an agentchat team: after every turn of a participant, while it runs.

A turn is complete when the manager has taken a participant's response in and is about to choose
who is next. There the state of the team is one that `run` can go on from, and there it is saved,
before the next turn begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Self

from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import BaseChatMessage, MessageFactory, TextMessage

from foldlog.errors import FoldlogError, Misuse
from foldlog.integrations.autogen.checkpoints import Checkpoint, Checkpoints
from foldlog.integrations.autogen.hooks import Hooks, observed_factory
from foldlog.opening import Store

_AGENT: Final = "agent:"
_RUN: Final = "run"


class TeamCheckpoints(Checkpoints):
    """The checkpoints of one team on a separate runtime, made by `attach`.

        runtime = SingleThreadedAgentRuntime()
        team = RoundRobinGroupChat([...], termination_condition=condition, runtime=runtime)
        checkpoints = await TeamCheckpoints.attach(store, "trip-1", team, runtime, condition)
        runtime.start()
        restored = await checkpoints.restore()
        result = await checkpoints.run(task="..." if restored is None else None)
        await runtime.stop_when_idle()

    For teams whose manager chooses one speaker after the other: round robin, selector, swarm. Not
    for a graph flow in which several speak at a time, nor for MagenticOne. Without a team, an
    object made from a store and a run id reads the checkpoints.
    """

    def __init__(self, store: Store, run_id: str, team: Any = None, condition: Any = None) -> None:
        super().__init__(store, run_id)
        self._team = team
        self._condition = condition
        self._factory: Any = None
        self._register: Any = None
        self._at_work = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_first = True
        self._is_running = False
        self._run: dict[str, Any] = {}
        self._is_restored = False
        self._observed: list[Hooks] = []
        self._managers = 0
        self._failure: FoldlogError | None = None

    @classmethod
    async def attach(
        cls,
        store: Store,
        run_id: str,
        team: Any,
        runtime: Any,
        termination_condition: Any = None,
        *,
        custom_message_types: Sequence[type[Any]] = (),
    ) -> Self:
        """Return the checkpoints of a team that has not run yet.

        Args:
            runtime: the one that the team was given.
            termination_condition: the one that the team was given. AutoGen does not save how far
                a condition has come; it is shown the recorded turns again.
            custom_message_types: those that the team was given.

        Raises:
            Misuse: the team is on another runtime, has run before, or its manager is
                of another kind.
        """
        self = cls(store, run_id, team, termination_condition)
        self._factory = MessageFactory()
        for message_type in custom_message_types:
            self._factory.register(message_type)
        hooks = Hooks(runtime, register_factory=self._register_factory)
        self._register = hooks.original("register_factory")
        try:
            await team.save_state()  # has the team register its agents, and makes them
        finally:
            hooks.remove()
        if self._managers != 1:
            for observed in self._observed:
                observed.remove()
            raise Misuse(
                "a team is attached before it first runs, with the runtime that it was given, and "
                "has a manager that selects speakers"
            )
        return self

    async def restore(self, checkpoint: Checkpoint | None = None) -> Checkpoint | None:
        """Give the team the state of a checkpoint; `run()` goes on from there.

        Of the last one, if none is given; an earlier one becomes the last one by it. Returns the
        checkpoint that is the last one then; None if there is none. The team must not be running.

        Raises:
            NotFound: there is no such checkpoint. Misuse: the run is not a team's.
            LogUnavailable, LogCorrupt: it could not be read.
        """
        states = await self._take_up(checkpoint)
        if states is None:
            return None
        if _RUN not in states:
            raise Misuse(f"run {self.run_id!r:.80} is not a team's")
        self._run, self._is_restored = states[_RUN], True
        agents = {
            key.removeprefix(_AGENT): state
            for key, state in states.items()
            if key.startswith(_AGENT)
        }
        await self._team.load_state({**self._run["team"], "agent_states": agents})
        await self._remind_condition()
        return (await self.list())[-1]

    async def transcript(self) -> list[dict[str, Any]]:
        """Return the messages of the recorded run so far, as AutoGen dumps them.

        Raises:
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        """
        states = await self.load()
        run = states.get(_RUN)
        return [] if run is None else _thread_of(states.values())[run["began"] :]

    async def result(self) -> Any:
        """Return the TaskResult of the recorded run, with all of its messages; None until it ends.

        Raises:
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        """
        run = (await self.load()).get(_RUN)
        if run is None or not run["ended"]:
            return None
        said = self._messages(await self.transcript())
        return TaskResult(messages=said, stop_reason=run["stop_reason"])

    async def run(
        self,
        *,
        task: Any = None,
        cancellation_token: Any = None,
        output_task_messages: bool = True,
    ) -> Any:
        """Run the team and return its TaskResult, as `team.run` does.

        With a task, a new run begins. Without one, the run that was restored goes on; if that had
        ended, its recorded result is returned.

        Raises:
            AppendConflict: another process runs this team.
            LogUnavailable, AppendUnknown: a checkpoint could not be saved. The team has stopped:
                restart, and restore.
        """
        result: Any = None
        async with aclosing(
            self.run_stream(
                task=task,
                cancellation_token=cancellation_token,
                output_task_messages=output_task_messages,
            )
        ) as stream:
            async for result in stream:  # noqa: B007 - the last one is the result
                pass
        return result

    async def run_stream(
        self,
        *,
        task: Any = None,
        cancellation_token: Any = None,
        output_task_messages: bool = True,
    ) -> AsyncGenerator[Any]:
        """Run the team, and yield what `team.run_stream` does. What that raises is raised.

        With a task, a new run begins. Without one, the run that was restored goes on; if that had
        ended, its recorded `result` is all that comes.

        Raises:
            AppendConflict: another process runs this team.
            LogUnavailable, AppendUnknown: a checkpoint could not be saved. The team has stopped:
                restart, and restore.
        """
        given = _given(task)
        is_restored, self._is_restored = self._is_restored, False
        if not given and is_restored and self._run["ended"]:
            yield await self.result()
            return
        if given or not self._run or self._run["ended"]:
            await self._begin(given)
        elif not self._run["lengths"]:
            given = self._messages(self._run["task"])  # it was killed before its first turn ended
        self._is_first = self._is_running = True
        try:
            async with aclosing(
                self._team.run_stream(
                    task=given or None,
                    cancellation_token=cancellation_token,
                    output_task_messages=output_task_messages,
                )
            ) as stream:
                async for message in stream:
                    if hasattr(message, "stop_reason"):
                        await self._end(message.stop_reason)
                    yield message
        except RuntimeError as error:
            # What a checkpoint raised in the manager, the team has made text of.
            if self._failure is not None:
                raise self._failure from error
            raise
        finally:
            # Who goes on with a run that was cancelled must find all of its checkpoints.
            self._is_running = False
            await self._end_save()

    # --- hooks -------------------------------------------------------------------------------

    async def _register_factory(
        self, type: Any, agent_factory: Any, *, expected_class: Any = None
    ) -> Any:
        # A team registers its agents before it makes any: those that follow are a nested team's.
        if not self._observed:
            agent_factory = observed_factory(agent_factory, self._observe)
        return await self._register(type, agent_factory, expected_class=expected_class)

    def _observe(self, agent: Any) -> None:
        # One that takes responses in otherwise, as MagenticOne's, does not select speakers by it.
        if hasattr(agent, "select_speaker") and "handle_agent_response" not in vars(type(agent)):
            self._managers += 1
            self._observe_manager(agent)
        else:
            self._observe_participant(agent)

    def _observe_manager(self, manager: Any) -> None:
        async def select_speaker(thread: Sequence[Any]) -> Any:
            # Before the first turn nothing is new: the run's beginning is on record.
            if not self._is_first:
                await self._checkpoint(thread)
            self._is_first = False
            return await select(thread)

        hooks = Hooks(manager, select_speaker=select_speaker)
        select = hooks.original("select_speaker")
        self._observed.append(hooks)

    def _observe_participant(self, participant: Any) -> None:
        async def on_message(message: Any, ctx: Any) -> Any:
            self._at_work += 1
            self._idle.clear()
            try:
                return await original(message, ctx=ctx)
            finally:
                self._at_work -= 1
                if not self._at_work:
                    self._idle.set()

        hooks = Hooks(participant, on_message=on_message)
        original = hooks.original("on_message")
        self._observed.append(hooks)

    # --- saving ------------------------------------------------------------------------------

    async def _begin(self, task: list[Any]) -> None:
        state = await self._team.save_state()
        run = {
            "task": [message.dump() for message in task],
            "began": len(_thread_of(state["agent_states"].values())),
            "lengths": [],
            "ended": False,
            "stop_reason": None,
        }
        await self._save_team(state, run, "began")

    async def _checkpoint(self, thread: Sequence[Any]) -> None:
        # The response went to all agents at once: wait until each has taken it in.
        await self._idle.wait()
        if not self._is_running:
            return
        lengths = [*self._run["lengths"], len(thread)]
        try:
            state = await self._team.save_state()
            await self._save_team(
                state, {**self._run, "lengths": lengths}, str(getattr(thread[-1], "source", ""))
            )
        except FoldlogError as error:
            self._failure = error
            raise

    async def _end(self, stop_reason: str | None) -> None:
        await self._idle.wait()
        state = await self._team.save_state()
        lengths = [*self._run["lengths"], len(_thread_of(state["agent_states"].values()))]
        run = {**self._run, "lengths": lengths, "ended": True, "stop_reason": stop_reason}
        await self._save_team(state, run, "ended")

    async def _save_team(self, state: Any, run: dict[str, Any], label: str) -> None:
        team = {key: value for key, value in state.items() if key != "agent_states"}
        agents = {f"{_AGENT}{name}": kept for name, kept in state["agent_states"].items()}
        self._run = {**run, "team": team}
        await self._save({**agents, _RUN: self._run}, label)

    async def _remind_condition(self) -> None:
        """Show the condition the turns of the run again, as the team had shown them to it."""
        if self._condition is None or self._run["ended"]:
            return
        await self._condition.reset()
        thread = _thread_of((await self._team.save_state())["agent_states"].values())
        start = self._run["began"]
        first = start + len(self._run["task"]) if self._run["lengths"] else start
        for end in [first, *self._run["lengths"]]:
            if end > start:
                await self._condition(self._messages(thread[start:end]))
            start = end

    def _messages(self, dumped: Sequence[dict[str, Any]]) -> list[Any]:
        return [self._factory.create(message) for message in dumped]


def _given(task: Any) -> list[Any]:
    """A task as messages; none for None. Raises as `team.run_stream`, before anything is saved."""
    if task is None:
        return []
    if isinstance(task, str):
        return [TextMessage(content=task, source="user")]
    given: list[Any] = task if isinstance(task, list) else [task]
    if not given:
        raise ValueError("Task list cannot be empty.")
    if not all(isinstance(each, BaseChatMessage) for each in given):
        raise ValueError("All messages in task list must be valid BaseChatMessage types")
    return list(given)


def _thread_of(states: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The manager's thread, among the states of a team: no participant has one."""
    return next(list(state["message_thread"]) for state in states if "message_thread" in state)

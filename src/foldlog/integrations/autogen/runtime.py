"""Checkpoints of a runtime: after every turn of its agents, while it runs.

What a turn publishes leaves when the turn is complete, in the same append as the state that the
turn has made and the news that its message is handled. So every checkpoint is whole: each message
is either on its way or has had its effect, once.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

from autogen_core import AgentId

from foldlog.errors import FoldlogError, Misuse
from foldlog.integrations.autogen.checkpoints import Checkpoint, Checkpoints
from foldlog.integrations.autogen.hooks import Hooks, observed_factory, saves_state
from foldlog.integrations.autogen.posts import Post, Serializers
from foldlog.integrations.autogen.units import Unit, Units
from foldlog.opening import Store

_INBOX: Final = "inbox"
_AGENT: Final = "agent:"

_log: Final = logging.getLogger("foldlog")

_current: ContextVar[Unit | None] = ContextVar("unit", default=None)


class RuntimeCheckpoints(Checkpoints):
    """The checkpoints of one SingleThreadedAgentRuntime.

        checkpoints = RuntimeCheckpoints(store, "trip-1")
        async with checkpoints.attached(runtime):
            await Writer.register(runtime, "writer", Writer)
            restored = await checkpoints.restore()
            runtime.start()
            if restored is None:
                await runtime.publish_message(Task("..."), DefaultTopicId())
            await runtime.stop_when_idle()

    While it is attached, an agent handles one message at a time; what a handler publishes leaves
    when the handler has returned, so it must not wait for what that brings about (it may wait for
    `send_message`). A handler that raises has handled its message, also if what it waits for was
    cancelled. One whose task is cancelled has not: the message comes again after a restart.

    Args:
        store: an open store.
        run_id: names the run: the same in each process that continues it.
    """

    def __init__(self, store: Store, run_id: str) -> None:
        super().__init__(store, run_id)
        self._serializers = Serializers()
        self._units = Units()
        self._on_way: dict[str, Post] = {}
        self._sent_again: set[str] = set()
        self._waited_for: dict[str, Unit] = {}
        self._subscriptions: dict[str, Any] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._saving = asyncio.Lock()
        self._answers: set[asyncio.Task[Any]] = set()
        self._failure: FoldlogError | None = None
        self._runtime: Any = None
        self._hooks: Hooks | None = None

    @property
    def failure(self) -> FoldlogError | None:
        """Why no checkpoint could be saved.

        From then on nothing is handled: restart, and restore.
        """
        return self._failure

    @asynccontextmanager
    async def attached(self, runtime: Any) -> AsyncIterator[None]:
        """Save checkpoints of this runtime inside the block. Agents are registered inside it.

        Raises:
            Misuse: it is attached already.
            FoldlogError: `failure`, if there is one, when the block ends.
        """
        if self._runtime is not None:
            raise Misuse(f"run {self.run_id!r:.80} is attached to a runtime already")
        self._runtime = runtime
        self._hooks = Hooks(
            runtime,
            publish_message=self._publish,
            send_message=self._send,
            add_subscription=self._subscribe,
            remove_subscription=self._unsubscribe,
            add_message_serializer=self._add_serializer,
            register_factory=self._register_factory,
            register_agent_instance=self._register_instance,
        )
        try:
            yield
        finally:
            self._hooks.remove()
            self._runtime = None
            for task in self._answers:
                task.cancel()
            await asyncio.gather(*self._answers, return_exceptions=True)
            await self._end_save()
        if self._failure is not None:
            raise self._failure

    async def restore(self, checkpoint: Checkpoint | None = None) -> Checkpoint | None:
        """Give the agents their states of a checkpoint, and send again what was on its way.

        Of the last one, if none is given; an earlier one becomes the last one by it. Returns the
        checkpoint that is the last one then; None if there is none.

        Raises:
            NotFound: there is no such checkpoint. Misuse: it has an agent of a type, or a
                message of a type, that this runtime does not know.
            LogUnavailable, LogCorrupt: it could not be read.
        """
        states = await self._take_up(checkpoint)
        if states is None:
            return None
        for key, state in states.items():
            if key.startswith(_AGENT):
                await self._load_agent(key.removeprefix(_AGENT), state)
        posts = [
            self._serializers.load(held) for held in states.get(_INBOX, {}).get("messages", [])
        ]
        self._on_way = {post.id: post for post in posts}
        self._sent_again = set(self._on_way)
        for post in posts:
            await self._deliver(post)
        return (await self.list())[-1]

    async def _load_agent(self, agent_id: str, state: dict[str, Any]) -> None:
        try:
            await self._runtime.agent_load_state(AgentId.from_str(agent_id), state)
        except LookupError as error:
            raise Misuse(
                f"agent {agent_id!r:.80} is of a type that is not registered: register the agents "
                "before restoring"
            ) from error

    # --- what the runtime is asked -----------------------------------------------------------

    async def _publish(
        self,
        message: Any,
        topic_id: Any,
        *,
        sender: Any = None,
        cancellation_token: Any = None,
        message_id: str | None = None,
    ) -> None:
        to = {
            str(subscription.map_to_agent(topic_id))
            for subscription in self._subscriptions.values()
            if subscription.is_match(topic_id)
        }
        to.discard(str(sender))
        message_id = message_id or str(uuid.uuid4())
        await self._accept(
            Post(message_id, message, sender, topic_id, None, to, cancellation_token)
        )

    async def _send(
        self,
        message: Any,
        recipient: Any,
        *,
        sender: Any = None,
        cancellation_token: Any = None,
        message_id: str | None = None,
    ) -> Any:
        message_id, to = message_id or str(uuid.uuid4()), str(recipient)
        unit = _open_unit()
        if unit is not None:
            self._waited_for[message_id] = unit
        else:
            await self._save_posts([Post(message_id, message, sender, None, recipient, {to})])
        try:
            return await self._original("send_message")(
                message,
                recipient,
                sender=sender,
                cancellation_token=cancellation_token,
                message_id=message_id,
            )
        except Exception:
            if self._is_due(message_id, to):  # nobody handled it, and nobody will
                await self._save_posts([], [(message_id, to)], label="refused")
            raise
        finally:
            self._waited_for.pop(message_id, None)

    async def _subscribe(self, subscription: Any) -> None:
        await self._original("add_subscription")(subscription)
        self._subscriptions[subscription.id] = subscription

    async def _unsubscribe(self, id: str) -> None:
        await self._original("remove_subscription")(id)
        self._subscriptions.pop(id, None)

    def _add_serializer(self, serializer: Any) -> None:
        self._original("add_message_serializer")(serializer)
        self._serializers.add(serializer)

    async def _register_factory(
        self, type: Any, agent_factory: Callable[[], Any], *, expected_class: Any = None
    ) -> Any:
        return await self._original("register_factory")(
            type,
            observed_factory(agent_factory, self._observe),
            expected_class=expected_class,
        )

    async def _register_instance(self, agent_instance: Any, agent_id: Any) -> Any:
        registered = await self._original("register_agent_instance")(agent_instance, agent_id)
        self._observe(agent_instance)
        return registered

    # --- turns -------------------------------------------------------------------------------

    def _observe(self, agent: Any) -> None:
        original = agent.on_message

        async def on_message(message: Any, ctx: Any) -> Any:
            def handle() -> Any:
                return original(message, ctx=ctx)

            agent_id = str(agent.id)
            waiting = self._waited_for.get(ctx.message_id)
            if waiting is not None and not waiting.whole.is_closed:
                return await self._part(waiting, agent_id, agent, handle)
            if ctx.message_id in self._sent_again and not self._is_due(ctx.message_id, agent_id):
                return None  # it was handled before the restart
            label = f"{agent_id} {type(message).__name__}"
            return await self._turn(ctx.message_id, agent_id, agent, label, handle)

        vars(agent)["on_message"] = on_message

    def _is_due(self, message_id: str, agent_id: str) -> bool:
        post = self._on_way.get(message_id)
        return post is not None and agent_id in post.to

    async def _turn(
        self, message_id: str, agent_id: str, agent: Any, label: str, handle: Callable[[], Any]
    ) -> Any:
        """A turn of its own: it begins when the agent has ended those before it."""
        async with self._turns.setdefault(agent_id, asyncio.Lock()):
            while (busy := self._units.of(agent_id)) is not None:
                await busy.ended.wait()
            self._check()
            unit = Unit(handled=[(message_id, agent_id)], labels=[label])
            try:
                return await self._part(unit, agent_id, agent, handle)
            finally:
                await unit.ended.wait()
                self._check()

    async def _part(self, unit: Unit, agent_id: str, agent: Any, handle: Callable[[], Any]) -> Any:
        """A handler at work in a unit; the last one to end has the unit stored."""
        unit.whole.running += 1  # so that it is not complete before this is
        token = _current.set(unit)
        try:
            await self._units.touch(unit, agent_id, agent)
            return await handle()
        except asyncio.CancelledError:
            # Cut short is a handler whose task is cancelled, as when the process ends. One that
            # has waited for something that was cancelled has raised.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                unit.whole.is_cut_short = True
            raise
        finally:
            _current.reset(token)
            unit = unit.whole
            unit.running -= 1
            if not unit.running:
                await self._complete(unit)

    async def _complete(self, unit: Unit) -> None:
        unit.is_closed = True
        try:
            if not unit.is_cut_short:
                await self._save_unit(unit)
        finally:
            self._units.end(unit)

    # --- saving ------------------------------------------------------------------------------

    async def _accept(self, post: Post) -> None:
        """Send a message: at once, or when the turn that sends it is complete."""
        unit = _open_unit()
        if unit is not None:
            unit.outbox.append(post)
        else:
            await self._save_posts([post])
            await self._deliver(post)

    async def _save_unit(self, unit: Unit) -> None:
        states = {
            f"{_AGENT}{agent_id}": await agent.save_state()
            for agent_id, agent in unit.agents.items()
            if saves_state(agent)
        }
        await self._save_posts(unit.outbox, unit.handled, states, ", ".join(unit.labels))
        for post in unit.outbox:
            await self._deliver(post)

    async def _save_posts(
        self,
        posts: list[Post],
        handled: list[tuple[str, str]] | None = None,
        states: dict[str, Any] | None = None,
        label: str = "accepted",
    ) -> None:
        """Append what is new on its way, what is handled, and the states that came of it."""
        async with self._saving:
            self._check()
            on_way = dict(self._on_way)
            for message_id, agent_id in handled or ():
                if message_id in on_way:
                    # A copy: what is on its way is so until that is stored.
                    post = on_way[message_id]
                    on_way[message_id] = replace(post, to=post.to - {agent_id})
            on_way |= {post.id: post for post in posts}
            on_way = {id_: post for id_, post in on_way.items() if post.to}
            inbox = {"messages": [self._serializers.dump(post) for post in on_way.values()]}
            try:
                await self._save({**(states or {}), _INBOX: inbox}, label)
            except FoldlogError as error:
                self._failure = error
                _log.error("run %s: no checkpoint: %s", self.run_id, error)
                raise
            self._on_way = on_way

    async def _deliver(self, post: Post) -> None:
        """Give a message to the runtime, which has it handled."""
        if post.recipient is None:
            await self._original("publish_message")(
                post.message,
                post.topic,
                sender=post.sender,
                cancellation_token=post.cancellation_token,
                message_id=post.id,
            )
            return
        # Who waited for the answer is gone.
        task = asyncio.create_task(self._send_again(post), name=f"foldlog send {post.id}")
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _send_again(self, post: Post) -> None:
        try:
            await self._original("send_message")(
                post.message, post.recipient, sender=post.sender, message_id=post.id
            )
        except Exception as error:  # noqa: BLE001 - it is the handler's, and there is no caller
            _log.warning("run %s: %s was sent again: %r", self.run_id, post.recipient, error)

    def _original(self, name: str) -> Any:
        assert self._hooks is not None, "only hooked methods come here"
        return self._hooks.original(name)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


def _open_unit() -> Unit | None:
    """The unit that the caller's handler is part of; None outside, and once that is closed."""
    unit = _current.get()
    return None if unit is None or unit.whole.is_closed else unit.whole

"""Ways into AutoGen by its public methods, replaced on single objects and put back."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from autogen_core import BaseAgent


class Hooks:
    """Methods of one object that others stand in for, until `remove`."""

    def __init__(self, target: Any, **replacements: Callable[..., Any]) -> None:
        self._target = target
        self._originals = {name: getattr(target, name) for name in replacements}
        vars(target).update(replacements)

    def original(self, name: str) -> Callable[..., Any]:
        """What a replaced method was."""
        original: Callable[..., Any] = self._originals[name]
        return original

    def remove(self) -> None:
        """Put the methods back."""
        for name in self._originals:
            vars(self._target).pop(name, None)


def observed_factory(
    factory: Callable[[], Any], observe: Callable[[Any], None]
) -> Callable[[], Awaitable[Any]]:
    """An agent factory whose agents are shown to `observe` before anybody has them."""

    async def make() -> Any:
        made = factory()
        agent = await made if inspect.isawaitable(made) else made
        observe(agent)
        return agent

    return make


def saves_state(agent: Any) -> bool:
    """Whether an agent has a `save_state` of its own: the base class's only warns."""
    return type(agent).save_state is not BaseAgent.save_state

"""AutoGen, if it is installed: nothing here is imported before it is needed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from foldlog.errors import ConfigurationError


@cache
def core() -> Any:
    """The module autogen_core.

    Raises:
        ConfigurationError: it is not installed.
    """
    return _imported("autogen_core")


@cache
def messages() -> Any:
    """The module autogen_agentchat.messages. Errors as `core`."""
    return _imported("autogen_agentchat.messages")


@cache
def base() -> Any:
    """The module autogen_agentchat.base. Errors as `core`."""
    return _imported("autogen_agentchat.base")


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"{name} cannot be imported ({error}): pip install 'foldlog[autogen]'"
        ) from error

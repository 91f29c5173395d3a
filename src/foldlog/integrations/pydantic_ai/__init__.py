"""Pydantic AI on foldlog: a conversation is a session of the store, and an agent goes on in a run.

    from foldlog.integrations.pydantic_ai import FoldlogConversationStore, FoldlogDurability

The contracts are `pydantic_ai.conversation_store.ConversationStore` and `pydantic_ai.durable_exec`,
2.68 and later:
https://github.com/pydantic/pydantic-ai/blob/main/pydantic_ai_slim/pydantic_ai/conversation_store.py
"""

from foldlog.integrations.required import not_installed as _not_installed

try:
    import pydantic_ai.conversation_store as _store  # noqa: F401
except ModuleNotFoundError as _error:
    raise _not_installed("pydantic-ai", _error) from _error

from foldlog.integrations.calls import StepOptions
from foldlog.integrations.pydantic_ai.durability import FoldlogDurability
from foldlog.integrations.pydantic_ai.saving import follow
from foldlog.integrations.pydantic_ai.store import FoldlogConversationStore

__all__ = ["FoldlogConversationStore", "FoldlogDurability", "StepOptions", "follow"]

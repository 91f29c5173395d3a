"""Conversations of Pydantic AI on foldlog: a conversation is a session of the store.

    from foldlog.integrations.pydantic_ai import FoldlogConversationStore

The contract is `pydantic_ai.conversation_store.ConversationStore`, 2.66 and later:
https://github.com/pydantic/pydantic-ai/blob/main/pydantic_ai_slim/pydantic_ai/conversation_store.py
"""

from foldlog.integrations.required import not_installed as _not_installed

try:
    import pydantic_ai.conversation_store as _store  # noqa: F401
except ModuleNotFoundError as _error:
    raise _not_installed("pydantic-ai", _error) from _error

from foldlog.integrations.pydantic_ai.saving import follow
from foldlog.integrations.pydantic_ai.store import FoldlogConversationStore

__all__ = ["FoldlogConversationStore", "follow"]

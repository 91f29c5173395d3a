"""LangGraph's names, if it is installed. Without it modules can be imported, and nothing made."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from foldlog.errors import ConfigurationError

if TYPE_CHECKING:
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP as WRITES_IDX_MAP,
        BaseCheckpointSaver as BaseCheckpointSaver,
        CheckpointTuple as CheckpointTuple,
        get_checkpoint_metadata as get_checkpoint_metadata,
    )
    from langgraph.store.base import (
        BaseStore as BaseStore,
        Embeddings as Embeddings,
        GetOp as GetOp,
        IndexConfig as IndexConfig,
        InvalidNamespaceError as InvalidNamespaceError,
        Item as Item,
        ListNamespacesOp as ListNamespacesOp,
        Op as Op,
        PutOp as PutOp,
        Result as Result,
        SearchItem as SearchItem,
        SearchOp as SearchOp,
        TTLConfig as TTLConfig,
        ensure_embeddings as ensure_embeddings,
        get_text_at_path as get_text_at_path,
    )

_NAMES: Final = {
    "langgraph.checkpoint.base": (
        *("WRITES_IDX_MAP", "BaseCheckpointSaver", "CheckpointTuple"),
        "get_checkpoint_metadata",
    ),
    "langgraph.store.base": (
        *("BaseStore", "Embeddings", "GetOp", "IndexConfig", "InvalidNamespaceError", "Item"),
        *("ListNamespacesOp", "Op", "PutOp", "Result", "SearchItem", "SearchOp", "TTLConfig"),
        *("ensure_embeddings", "get_text_at_path"),
    ),
}


def _refuse(*_: Any, **__: Any) -> None:
    raise ConfigurationError("langgraph is not installed: pip install 'foldlog[langgraph]'")


def _names(module: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The names of a module; without it, classes that have no instances."""
    try:
        found = import_module(module)
    except ModuleNotFoundError:
        members = {"__init__": _refuse, "__class_getitem__": classmethod(lambda cls, _: cls)}
        return {name: type(name, (), members) for name in names}
    return {name: getattr(found, name) for name in names}


for _module, _its in _NAMES.items():
    globals().update(_names(_module, _its))

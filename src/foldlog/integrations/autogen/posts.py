"""Messages on their way, as a checkpoint holds them. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from autogen_core import AgentId, TopicId, try_get_known_serializers_for_type

from foldlog.errors import Misuse, PayloadError


@dataclass(slots=True)
class Post:
    """A message that was accepted. `to` are the agents that have not handled it, by id.

    It goes to a topic, as its type and source, or to a recipient. A cancellation token is not
    saved: its other end is gone with the process.
    """

    id: str
    message: Any
    sender: Any = None
    topic: Any = None
    recipient: Any = None
    to: set[str] = field(default_factory=set)
    cancellation_token: Any = None


class Serializers:
    """How a runtime's messages become bytes: by the given serialiser, else by AutoGen's."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Any] = {}

    def add(self, serializer: Any) -> None:
        """Note a serializer, or several."""
        for each in serializer if isinstance(serializer, Iterable) else [serializer]:
            self._known[each.type_name, each.data_content_type] = each

    def dump(self, post: Post) -> dict[str, Any]:
        """Return a post as plain data.

        Raises:
            PayloadError: AutoGen cannot serialise a message of that type.
        """
        own = try_get_known_serializers_for_type(type(post.message))
        name = type(post.message).__name__
        chosen = next(
            (self._known.get((each.type_name, each.data_content_type), each) for each in own),
            next((each for (known, _), each in self._known.items() if known == name), None),
        )
        if chosen is None:
            raise PayloadError(name, "a message on its way needs a serializer that AutoGen knows")
        return {
            "id": post.id,
            "type": chosen.type_name,
            "content": chosen.data_content_type,
            "payload": chosen.serialize(post.message),
            "sender": post.sender and str(post.sender),
            "topic": post.topic and [post.topic.type, post.topic.source],
            "recipient": post.recipient and str(post.recipient),
            "to": sorted(post.to),
        }

    def load(self, held: dict[str, Any]) -> Post:
        """Return the post that was dumped.

        Raises:
            Misuse: no agent of this runtime handles messages of that type.
        """
        serializer = self._known.get((held["type"], held["content"]))
        if serializer is None:
            raise Misuse(
                f"a message of type {held['type']} is on its way, which no agent handles: register "
                "the agents before restoring"
            )
        return Post(
            held["id"],
            serializer.deserialize(held["payload"]),
            held["sender"] and AgentId.from_str(held["sender"]),
            held["topic"] and TopicId(*held["topic"]),
            held["recipient"] and AgentId.from_str(held["recipient"]),
            set(held["to"]),
        )

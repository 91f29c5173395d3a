"""Redaction: the caller's hook sees what is saved before any of it is encoded, hashed or stored.

It comes first of all, so that ids, digests, deltas, views, spool, snapshots, blobs and the log know
the redacted values only. Further down it could not be: a secret may be spread over two deltas, and
the digest of one tells it to whoever can guess it.

Whoever makes envelopes of what a caller gave asks the `Redaction` of the journal that they go
through, once a call and before anything is decided on. Of each type of envelope it is said here
what the hook sees; a journal that redacts takes no others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from foldlog.errors import ConfigurationError, RedactionFailed


class Saving(NamedTuple):
    """What is about to be saved.

    `kind` is the type of its envelope, as in `update.saved`. `about` says of what it is: ids,
    names, times, and is not for changing. `values` are what may be changed: the caller's own
    objects, so build new ones.
    """

    kind: str
    about: Mapping[str, Any]
    values: dict[str, Any]


Redact = Callable[[Saving], Mapping[str, Any]]
"""Returns what is saved instead of `values`, under the same names. What it has returned, it returns
as it is: who saves what they have read has it redacted again.
"""

CONTENT: Final[Mapping[str, tuple[str, ...]]] = {
    "event.saved": ("payload",),
    "planner.saved": ("thought", "error", "extra"),
    "task.saved": ("context_snapshot", "description", "result", "error", "progress"),
    "task.changed": ("result", "error", "progress"),
    "update.saved": ("content",),
    "steering.saved": ("payload",),
    "trajectory.saved": ("trajectory",),
    "memory.saved": ("state",),
    "pause.saved": ("payload",),
    "binding.saved": ("metadata",),
    "artifact.saved": ("data", "filename", "meta"),
    "context.changed": ("llm_context", "tool_context", "memory", "artifacts"),
    "patch.queued": (
        *("digest", "facts", "artifacts", "sources"),
        *("recommended_next_steps", "assumptions"),
    ),
    "group.opened": ("name",),
    "state.saved": ("tags", "description", "custom", "execution_state"),
    "step.done": ("result",),
    "step.failed": ("message",),
    "step.waiting": ("request",),
    "stateartifact.named": ("artifact",),
    "agent.turned": ("state", "label"),
    "scoped.written": ("value",),
    "scope.linked": ("metadata",),
}
"""What the hook sees, by the type of the envelope that it goes into first."""

NO_CONTENT: Final = frozenset(
    {
        # What follows from values that have passed, and leads to them.
        *("trace.saved", "route.saved", "scope.written", "state.listed"),
        *("artifact.located", "blob.begun", "blob.claimed"),
        # What somebody decided, or took, or what has ended.
        *("binding.terminal", "pause.consumed", "patch.decided", "steering.acknowledged"),
        *("group.joined", "group.sealed", "group.task_ended"),
        *("execution.owned", "execution.rewound", "step.intended", "step.retracted"),
        *("agent.listed", "agent.shared", "agent.revoked"),
        # What is gone.
        *("artifact.deleted", "scoped.deleted", "scope.deleted", "scope.unlinked"),
        *("state.unlisted", "blob.released", "subject.cleared", "session.cleared"),
        # What is shared.
        *("session.began", "session.forked", "fork.ended", "subject.forked"),
    }
)
"""Types that hold ids, names, epochs, digests and times only: none of them is ever changed."""


class Redaction:
    """Runs a hook, and trusts nothing that it returns. False where there is no hook."""

    def __init__(self, redact: Redact | None = None) -> None:
        if redact is not None and not callable(redact):
            raise ConfigurationError(f"redact is a function, not {redact!r:.80}")
        if inspect.iscoroutinefunction(redact) or inspect.iscoroutinefunction(
            getattr(redact, "__call__", None)  # noqa: B004 - of an object that is called
        ):
            raise ConfigurationError(f"redact must not be asynchronous, as {redact!r:.80} is")
        self._redact = redact

    def __bool__(self) -> bool:
        return self._redact is not None

    def redacted(
        self, method: str, kind: str, about: Mapping[str, Any], values: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return what is to be saved instead of `values`: themselves, where there is no hook.

        Args:
            method: what was called, for whoever reads the error.

        Raises:
            RedactionFailed: the hook raised, or returned something else than was asked for.
        """
        if self._redact is None:
            return values
        try:
            found: Any = self._redact(Saving(kind, about, dict(values)))
            if isinstance(found, Mapping):
                found = dict(found)  # here, for its methods are the hook's, too
        except Exception as error:
            raise RedactionFailed(kind, method, f"it raised {type(error).__name__}") from error
        if inspect.iscoroutine(found):
            found.close()
            raise RedactionFailed(kind, method, "it is asynchronous, and must not be")
        if not isinstance(found, dict):
            reason = f"it returned {type(found).__name__}, not a mapping"
            raise RedactionFailed(kind, method, reason)
        if found.keys() != values.keys():
            # Those that it returned are not quoted: they may be keys of what was to be saved.
            reason = f"it returned other names than it was given: {', '.join(sorted(values))}"
            raise RedactionFailed(kind, method, reason)
        return found

    def alike(
        self, method: str, kind: str, about: Mapping[str, Any], values: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """As `redacted`; text stays text, a list a list, a mapping a mapping, and None is None."""
        found = self.redacted(method, kind, about, values)
        for name, value in values.items():
            form = _form(value)
            if form is not None and not isinstance(found[name], form):
                reason = f"{name} has to stay a {form.__name__}"
                raise RedactionFailed(kind, method, reason)
        return found

    def value(self, method: str, kind: str, about: Mapping[str, Any], /, **one: Any) -> Any:
        """As `redacted`, of one value and without its name."""
        [found] = self.redacted(method, kind, about, one).values()
        return found


_FORMS: Final = (str, list, Mapping, type(None))


def _form(value: object) -> type | None:
    return next((form for form in _FORMS if isinstance(value, form)), None)

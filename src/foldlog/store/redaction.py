"""Redaction: the caller's hook sees what is saved before any of it is encoded, hashed or stored.

Records pass it where they are drafted (`Core.drafted`). Values that are no record yet, such as the
bytes of an artifact, are redacted by the method that takes them, and the kind says so (`redacted`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from foldlog.errors import ConfigurationError, RedactionFailed
from foldlog.kind import Key

R = TypeVar("R", bound=msgspec.Struct)


class Saving(NamedTuple):
    """What is about to be saved, as `redact=` sees it.

    Attributes:
        kind: the type of the record, as in `update.saved`.
        about: ids, names and times. Do not change them.
        values: the content, which may be replaced. They are the caller's objects: build new ones.
    """

    kind: str
    about: Mapping[str, Any]
    values: dict[str, Any]


Redact = Callable[[Saving], Mapping[str, Any]]
"""Returns what is saved instead of `values`, under the same names.

It must be idempotent: saving what was read passes it again.
"""


class Redaction:
    """Runs a hook, and trusts nothing that it returns. False where there is no hook."""

    def __init__(self, redact: Redact | None = None) -> None:
        if redact is not None and not callable(redact):
            raise ConfigurationError(f"redact is a function, not {redact!r:.80}")
        if inspect.iscoroutinefunction(redact) or inspect.iscoroutinefunction(
            getattr(redact, "__call__", None)  # noqa: B004 - of an object that is called
        ):
            raise ConfigurationError(f"redact must not be asynchronous, as {redact!r:.80} is")
        self.hook: Redact | None = redact

    def __bool__(self) -> bool:
        return self.hook is not None

    def record(self, method: str, key: Key[Any], type: str, record: R) -> R:
        """Return a record with the content that is to be saved."""
        about_type = key.kind.records[type]
        if self.hook is None or about_type.is_redacted or not about_type.content:
            return record
        fields = dict(zip(key.kind.keys, key.keys, strict=False)) | msgspec.structs.asdict(record)
        # A field that a change leaves as it is holds nothing.
        values = {n: fields.pop(n) for n in about_type.content if fields[n] is not msgspec.UNSET}
        changed = self.redacted(method, type, fields, values)
        return msgspec.structs.replace(record, **changed)

    def redacted(
        self, method: str, kind: str, about: Mapping[str, Any], values: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return what is to be saved instead of `values`: themselves, where there is no hook.

        Args:
            method: what was called, for the error's reader.
        """
        if self.hook is None:
            return values
        try:
            found: Any = self.hook(Saving(kind, about, dict(values)))
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

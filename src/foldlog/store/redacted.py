"""A journal that takes only what has passed a hook, or is of a type that has nothing for it."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from foldlog.envelope import Draft
from foldlog.errors import ConfigurationError
from foldlog.log.port import Append, Log
from foldlog.log.relay import Relay
from foldlog.store.journal import Journal
from foldlog.store.redaction import CONTENT, NO_CONTENT
from foldlog.subjects import Subject


class RedactedJournal(Journal):
    """A journal that refuses types of envelopes of which nobody has said what the hook sees."""

    async def append(self, *appends: tuple[Subject, Sequence[Draft]]) -> None:
        """As `Journal.append`. Errors also as `_check`."""
        _check(draft for _, drafts in appends for draft in drafts)
        await super().append(*appends)

    @property
    def log(self) -> Log:
        """As `Journal.log`; it refuses what `append` refuses."""
        return _Guarded(super().log)

    @property
    def own_log(self) -> Log:
        """As `Journal.own_log`; it refuses what `append` refuses."""
        return _Guarded(super().own_log)


class _Guarded(Relay):
    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[Any, Any, list[int]]:
        _check(draft for append in appends for draft in append.drafts)
        return super().append(appends, atomic=atomic)


def _check(drafts: Iterable[Draft]) -> None:
    """Raise ConfigurationError for a type that no hook has seen. Nothing was appended."""
    for draft in drafts:
        if draft.type not in CONTENT and draft.type not in NO_CONTENT:
            raise ConfigurationError(
                f"{draft.type} does not pass through redact=, and so a store that has one "
                "does not save it"
            )

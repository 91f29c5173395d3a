"""Every error that foldlog raises. Each builds its message from the facts that it carries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, ClassVar


class FoldlogError(Exception):
    """The base of every error that foldlog raises.

    `page` is where the documentation explains the class; a traceback ends with it.
    """

    page: ClassVar[str] = "reference/errors"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("foldlog.") and "page" not in vars(cls):
            cls.page = f"reference/errors#{cls.__name__.lower()}"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.add_note(f"see docs: {self.page}")


class ConfigurationError(FoldlogError):
    """What a program is set up with cannot work: an option, a kind, an extra that is missing."""


class Misuse(FoldlogError):
    """The program calls something in an order, or with options, that cannot work."""


class Busy(FoldlogError):
    """Somebody else has it now, and lives. Wait for them, or end them."""


class NotFound(FoldlogError, LookupError):
    """There is nothing of that id: `kind` says of what ("task", "step"), `id` which."""

    def __init__(self, kind: str, id: str, hint: str = "") -> None:
        super().__init__(f"there is no {kind} {id!r:.200}" + (f": {hint}" if hint else ""))
        self.kind = kind
        self.id = id


class StoreClosed(FoldlogError):
    """The store, or the connection under it, was closed by its owner."""

    def __init__(self) -> None:
        super().__init__("the store is closed: foldlog.connect() opens another one")


# --- bad input: nothing was appended ---------------------------------------------------------


class InvalidId(FoldlogError, ValueError):
    """An id that is empty, not a string, or cannot be written as UTF-8."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        super().__init__(f"{field} {shown(value)} is refused: {reason}")
        self.field = field
        self.value = value


class PayloadError(FoldlogError, ValueError):
    """A value that the log cannot hold exactly. `path` names where it stands in the payload."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class PayloadTooLarge(FoldlogError, ValueError):
    """An envelope that exceeds what one message of the server may hold. Sizes in bytes."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"{what} takes {size} bytes; the server accepts {limit} a message: save it in parts, "
            "or in store.artifact_store"
        )
        self.what = what
        self.size = size
        self.limit = limit


class SteeringValidationError(FoldlogError, ValueError):
    """A steering payload that breaks the rules of its event type; `errors` lists each breach."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("invalid steering payload: " + "; ".join(errors))
        self.errors: list[str] = list(errors)


class RedactionFailed(FoldlogError):
    """The store's `redact=` hook gave nothing that can be saved. Nothing was appended.

    `method` was called to save an envelope of type `kind`. The message quotes nothing of it; what
    the hook raised is the cause.
    """

    def __init__(self, kind: str, method: str, reason: str) -> None:
        super().__init__(f"{method}: redact= for {kind}: {reason}; nothing was saved")
        self.kind = kind
        self.method = method
        self.reason = reason


class MissingCapability(FoldlogError, TypeError):
    """A store lacks methods that a feature needs."""

    def __init__(self, feature: str, missing: Sequence[str]) -> None:
        super().__init__(f"feature {feature!r} needs methods the store lacks: {', '.join(missing)}")
        self.feature = feature
        self.missing: list[str] = list(missing)


class ArtifactTooLarge(FoldlogError, ValueError):
    """One artifact exceeds the retention's `max_artifact_bytes`. Sizes in bytes."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the artifact takes {size} bytes; the retention allows {limit}: "
            "connect(retention=ArtifactRetentionConfig(max_artifact_bytes=...)) allows more"
        )
        self.size = size
        self.limit = limit


class ArtifactLimitExceeded(FoldlogError):
    """A session's or trace's artifact budget is spent and the clean-up strategy may not evict."""

    def __init__(self, scope: str, limit: str, allowed: int) -> None:
        super().__init__(
            f"{scope} would exceed {limit}={allowed} and nothing may be evicted: delete some, or "
            f"connect(retention=ArtifactRetentionConfig({limit}=...)) allows more"
        )
        self.scope = scope
        self.limit = limit
        self.allowed = allowed


# --- appends: the three outcomes --------------------------------------------------------------


class AppendFailed(FoldlogError):
    """Not committed: the log refused the append, or never received it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not committed: {reason}")
        self.reason = reason


class AppendConflict(AppendFailed):
    """Not committed: the subject moved on. `expected` and `actual` are its last sequences.

    `actual` is None where the server did not say.
    """

    def __init__(self, subject: str, expected: int, actual: int | None) -> None:
        found = "it has moved on" if actual is None else f"it ends at {actual}"
        super().__init__(
            f"{subject} was expected to end at sequence {expected}, {found}: read it again, and "
            "decide anew"
        )
        self.subject = subject
        self.expected = expected
        self.actual = actual


class IdTaken(AppendFailed):
    """An id stands for other content already. A repeat of the same content raises nothing.

    Raised by the call that saves the other content, which stores nothing; or, where the view was
    not in memory, by the next read of the view in the same store: what was saved has no effect. A
    store that degrades counts and logs it there, and the read returns its data.

    `kind` and `keys` name the view. `stored` and `given` are digests of the two contents.
    """

    def __init__(
        self, kind: str, keys: Sequence[str], id: str, stored: int, given: int, what: str = ""
    ) -> None:
        view = f"{kind}({', '.join(map(shown, keys))})"
        super().__init__(
            what
            or f"{view} has another record of the id {shown(id)}: {stored:08x} is stored, and "
            f"{given:08x} was given; save it under another id"
        )
        self.kind = kind
        self.keys: tuple[str, ...] = tuple(keys)
        self.id = id
        self.stored: str = f"{stored:08x}"
        self.given: str = f"{given:08x}"


class VersionConflict(AppendConflict):
    """What was to change is not at the version that was expected: nothing was stored.

    `key` is what was to change: a scoped key, or a conversation. `expected` and `actual` are
    versions; None for no such key. Repeating the call with the same version is of no use.
    """

    key: str
    expected: Any
    actual: Any

    def __init__(self, key: str, expected: object, actual: object) -> None:
        wanted = "not to be there" if expected is None else f"at version {expected}"
        found = "not there" if actual is None else f"at version {actual}"
        AppendFailed.__init__(self, f"{shown(key)} was expected {wanted}, and is {found}")
        self.subject = self.key = key
        self.expected, self.actual = expected, actual


class AlreadyAnswered(AppendConflict):
    """Somebody else answered what waited: nothing was stored.

    `decision` is what was decided, and `answer` what a question was answered with, as it is stored.
    """

    def __init__(self, id: str, decision: str, answer: Any = None) -> None:
        given = f" {shown(answer)}" if decision == "answered" else ""
        AppendFailed.__init__(self, f"{id} was answered before: {decision}{given}")
        self.subject = id
        self.expected = 0
        self.actual: int | None = None
        self.id = id
        self.decision = decision
        self.answer = answer

    def __str__(self) -> str:
        return self.reason


class NotWaiting(NotFound):
    """Nothing of that id waits for an answer, nor has anybody answered it."""

    def __init__(self, id: str) -> None:
        super().__init__("waiting item", id, "store.waiting() lists what waits")


class WaitingExpired(FoldlogError):
    """What waited has expired, and takes no answer. `until` is when, in Unix seconds."""

    def __init__(self, id: str, until: float) -> None:
        when = dt.datetime.fromtimestamp(until, dt.UTC).isoformat(timespec="seconds")
        super().__init__(f"{id} expired at {when}: it has to be asked again")
        self.id = id
        self.until = until


class AppendUnknown(FoldlogError):
    """Whether the append was committed is not known, and reading back did not settle it in time.

    `ids` are the envelope ids concerned. Saving the same again is safe: it takes effect once.
    """

    def __init__(self, ids: Sequence[str], reason: str) -> None:
        super().__init__(
            f"outcome unknown for {len(ids)} envelope(s): {reason}; saving the same again is safe"
        )
        self.ids: list[str] = list(ids)
        self.reason = reason


# --- the log ----------------------------------------------------------------------------------


class LogUnavailable(FoldlogError):
    """The log cannot be reached."""


class LogTimeout(LogUnavailable):
    """The log did not answer in time. `timeout` in seconds."""

    def __init__(self, what: str, timeout: float) -> None:
        super().__init__(f"{what} took longer than {timeout:g} s")
        self.timeout = timeout


class LogRewound(FoldlogError):
    """The log no longer holds what it held: it was restored from a backup, replaced or cut short.

    `stream` names the stream or the subject, `sequence` what is gone. `rebuild()` accepts the log
    as it is now.
    """

    def __init__(self, stream: str, sequence: int, reason: str) -> None:
        super().__init__(
            f"{stream} no longer holds sequence {sequence}: {reason}; "
            "it was restored, replaced or cut short, and store.rebuild() accepts it as it is"
        )
        self.stream = stream
        self.sequence = sequence
        self.reason = reason


class ReadOnlyStore(FoldlogError):
    """The store only reads. `refused`: the method, or the type of the envelope."""

    def __init__(self, refused: str) -> None:
        super().__init__(
            f"{refused} is refused: this store only reads: at() or connect(read_only=True) "
            "made it; save through another one"
        )
        self.refused = refused


class UnknownMoment(FoldlogError, ValueError):
    """The log has no such moment, or several; `moment` is what was asked for."""

    def __init__(self, moment: str, reason: str) -> None:
        super().__init__(f"there is no moment {moment!r:.80}: {reason}")
        self.moment = moment
        self.reason = reason


class PastErased(FoldlogError):
    """What was there at the moment asked for has been removed from the log since."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what} as it was is gone: {reason}")
        self.what = what
        self.reason = reason


class SessionExists(FoldlogError, ValueError):
    """A fork would go into a session whose id was used before."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r:.80} was used before: a fork needs a new id")
        self.session_id = session_id


class SessionHasForks(FoldlogError):
    """A session cannot be removed while others share its past. `forks` are their ids."""

    def __init__(self, session_id: str, forks: Sequence[str]) -> None:
        super().__init__(
            f"session {session_id!r:.80} is shared by its forks, which have to be removed first: "
            + ", ".join(f"{fork!r:.80}" for fork in forks)
        )
        self.session_id = session_id
        self.forks: list[str] = list(forks)


class LogCorrupt(FoldlogError):
    """A message of the log cannot be read as what it should be."""

    def __init__(self, stream: str, sequence: int, reason: str) -> None:
        super().__init__(f"{stream} at sequence {sequence}: {reason}")
        self.stream = stream
        self.sequence = sequence
        self.reason = reason


class MissingUpcaster(LogCorrupt):
    """A payload whose `version` has no upcaster, or is newer than `newest`, the one that is known.

    `type` is the envelope's; it stands at `sequence` and `index`.
    """

    def __init__(self, type: str, version: int, sequence: int, index: int, newest: int) -> None:
        what = (
            "is newer than this program knows: upgrade it"
            if version > newest
            else "has no upcaster: register one with @foldlog.upcaster"
        )
        super().__init__(type, sequence, f"envelope {index}: version {version} {what}")
        self.type = type
        self.version = version
        self.index = index
        self.newest = newest


class UnsupportedServer(FoldlogError):
    """The server is too old or lacks JetStream; the message says what to do."""


class ServerStartFailed(FoldlogError):
    """The embedded server did not start; the message ends with the tail of its log."""


class ImportFailed(FoldlogError):
    """A file that cannot be imported: no conversation, or no whole export, can be read in it."""


class BundleRefused(FoldlogError, ValueError):
    """A bundle cannot be made, or the key is not an Ed25519 key as PEM.

    `what` names the file, the key or the session.
    """

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.what = what
        self.reason = reason


def shown(value: object) -> str:
    """The caller's object for a message, whatever its own code does when it is asked."""
    try:
        return f"{value!r:.80}"
    except Exception as fault:  # noqa: BLE001 - the caller's code; another error is being reported
        return f"{type(value).__qualname__} (its repr raised {type(fault).__name__})"

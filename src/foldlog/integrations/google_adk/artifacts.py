"""ADK's artifacts: one scoped key a version, in the session's scope or in the user's.

The contract is `google.adk.artifacts.BaseArtifactService` of ADK 2.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import (
    ArtifactVersion,
    BaseArtifactService,
    ensure_part,
)
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from foldlog.errors import shown
from foldlog.integrations.access import AnyStore, access_to
from foldlog.integrations.google_adk.sessions import session_id_of
from foldlog.integrations.objects import read_as
from foldlog.scoped import Scope, VersionConflict
from foldlog_projections.langgraph.langgraphitems import path_of

_REFERENCES: Final = 5
"""How many artifacts may refer to each other in a row, as in ADK."""

_SECONDS: Final = 30.0
"""How long a save tries to get a number of its own."""

_PREFIX: Final = "artifact:"


class FoldlogArtifactService(BaseArtifactService):  # type: ignore[misc, unused-ignore]
    """ADK's artifact service on a foldlog store, which it does not close.

    When several callers save one artifact at once, each gets a different version. Artifacts never
    expire. Those of a session go with `Store.erase_session(session_id_of(...))`; those whose name
    begins with `user:` are the user's.

    Args:
        store: an open store, blocking or not; or one of the past (`store.at(...)`), for reading.

    Every method may raise ADK's InputValidationError, for what names no artifact or refers to one
    out of reach; Unreadable, for what `redact=` has replaced; and InvalidId, PayloadError,
    LogUnavailable, LogCorrupt, AppendFailed and AppendUnknown.
    """

    def __init__(self, store: AnyStore) -> None:
        self._access = access_to(store)

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Save a new version of an artifact. Return its number: 0, 1, 2 and so on."""
        scope = _scope(app_name, user_id, session_id, filename)
        part = ensure_part(artifact).model_copy(deep=True)
        data = part.inline_data or part.file_data
        if data is None and part.text is None:
            raise InputValidationError("Not supported artifact type.")
        _referred(part, app_name, user_id, session_id)
        about = ArtifactVersion(
            version=0,
            canonical_uri="",
            custom_metadata=custom_metadata or {},
            mime_type=data.mime_type if data else "text/plain",
        )
        value: dict[str, Any] = {"about": about.model_dump(mode="json")}
        if part.inline_data:  # as bytes, which no search of the scope looks at
            value["data"], part.inline_data.data = part.inline_data.data, None
        value["part"] = part.model_dump(mode="json", exclude_none=True)
        async with asyncio.timeout(_SECONDS):
            while True:
                number = max(await self._numbers(scope, filename), default=-1) + 1
                try:
                    await self._write(scope, _key(filename, number), value)
                except VersionConflict:
                    continue  # somebody else has saved that version
                return number

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Return a version, the latest by default, or what it refers to; None if there is none."""
        for _ in range(_REFERENCES + 1):
            scope = _scope(app_name, user_id, session_id, filename)
            _, value = await self._read(scope, filename, version)
            if value is None:
                return None
            part = read_as(_part, value, f"artifact {shown(filename)}")
            parsed = _referred(part, app_name, user_id, session_id)
            if parsed is None:
                removed = types.Blob(mime_type="application/octet-stream", data=b"")
                return None if part.inline_data == removed else part  # so do ADK's rewinds
            session_id, filename, version = parsed.session_id, parsed.filename, parsed.version
        raise InputValidationError(f"More than {_REFERENCES} artifacts refer to each other.")

    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Return the names of the user's artifacts and, if one is given, of the session's."""
        scopes = [_scope(app_name, user_id, None, "user:")]
        if session_id is not None:
            scopes.append(_scope(app_name, user_id, session_id, ""))
        keys = [key for scope in scopes for key in await self._keys(scope, _PREFIX)]
        return sorted({key.removeprefix(_PREFIX).rpartition(":")[0] for key in keys})

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete all versions of an artifact with their history. Fine if there are none."""
        scope = _scope(app_name, user_id, session_id, filename)
        for number in reversed(await self._numbers(scope, filename)):
            await self._clear(scope, _key(filename, number))

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of an artifact's versions."""
        return await self._numbers(_scope(app_name, user_id, session_id, filename), filename)

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return what is known of each version. It reads all of them."""
        scope = _scope(app_name, user_id, session_id, filename)
        found = [
            await self.get_artifact_version(
                app_name=app_name,
                user_id=user_id,
                filename=filename,
                session_id=session_id,
                version=number,
            )
            for number in await self._numbers(scope, filename)
        ]
        return [each for each in found if each is not None]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return what is known of a version, the latest by default; None if there is none."""
        scope = _scope(app_name, user_id, session_id, filename)
        number, value = await self._read(scope, filename, version)
        if value is None:
            return None
        session = None if filename.startswith("user:") else session_id
        uri = artifact_util.get_artifact_uri(app_name, user_id, filename, number, session)
        about = {"version": number, "canonical_uri": uri}
        what = f"artifact {shown(filename)}"
        return read_as(lambda stored: ArtifactVersion(**{**stored["about"], **about}), value, what)

    async def _write(self, scope: Scope, key: str, value: Any) -> None:
        await self._access.acall(lambda store: store.scoped.write(scope, key, value, expected=None))

    async def _clear(self, scope: Scope, key: str) -> None:
        await self._access.acall(lambda store: store.scoped.erase(scope, key))

    async def _keys(self, scope: Scope, prefix: str) -> list[str]:
        return await self._access.acall(
            lambda store: store.scoped.list(scope, prefix, consistency="strong")
        )

    async def _numbers(self, scope: Scope, filename: str) -> list[int]:
        prefix = f"{_PREFIX}{filename}:"
        found = [key.removeprefix(prefix) for key in await self._keys(scope, prefix)]
        return sorted(int(each) for each in found if each.isdecimal())

    async def _read(self, scope: Scope, filename: str, version: int | None) -> tuple[int, Any]:
        if version is None:
            version = max(await self._numbers(scope, filename), default=-1)
        key = _key(filename, version)
        read = self._access.acall(lambda s: s.scoped.read(scope, key, consistency="strong"))
        return version, await read


def _part(value: Any) -> types.Part:
    part = types.Part.model_validate(value["part"])
    if part.inline_data:
        part.inline_data.data = value["data"]
    return part


def _key(filename: str, version: int) -> str:
    return f"{_PREFIX}{filename}:{version}"


def _scope(app_name: str, user_id: str, session_id: str | None, filename: str) -> Scope:
    """Where an artifact is; InputValidationError if nowhere."""
    artifact_util.validate_path_segment(app_name, "app_name")
    artifact_util.validate_path_segment(user_id, "user_id")
    if filename.startswith("user:"):
        return Scope.custom(f"adk-artifacts/{path_of((app_name, user_id))}")
    if session_id is None:
        raise InputValidationError("Session ID must be provided for session-scoped artifacts.")
    artifact_util.validate_path_segment(session_id, "session_id")
    return Scope.session(session_id_of(app_name, user_id, session_id))


def _referred(part: types.Part, app_name: str, user_id: str, session_id: str | None) -> Any:
    """What a part refers to, None if it holds something; InputValidationError if it must not."""
    if not artifact_util.is_artifact_ref(part):
        return None
    parsed = artifact_util.parse_artifact_uri(part.file_data.file_uri)
    if parsed is None:
        raise InputValidationError(f"Invalid artifact reference URI: {part.file_data.file_uri}")
    artifact_util.validate_artifact_reference_scope(
        app_name=app_name, user_id=user_id, session_id=session_id, parsed_uri=parsed
    )
    return parsed

"""An account that may not do all that `deploy/nats-tenants.conf` lists."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import foldlog
from foldlog.log.jetstream.connection import Connection, Forbidden
from foldlog.telemetry.stores import jetstream
from tests.security.conftest import CONFIG
from tests.security.server import PATIENCE, Certificates, free_port, running, secret
from tests.support.build import update

READING = {
    '"$JS.API.DIRECT.GET.>"': '"$JS.API.DIRECT.GET.FOLDLOG_default_0"',
    '"$JS.API.STREAM.MSG.GET.*"': '"$JS.API.STREAM.MSG.GET.FOLDLOG_default_0"',
}
WRITING = {'"snapshots.>"': '"snapshots.0.>"'}


@pytest.mark.parametrize(
    ("narrowed", "forbidden"),
    [
        (READING, "$JS.API.STREAM.MSG.GET.FOLDLOG_default_snapshots"),
        (WRITING, "snapshots.mark.foldlog.default.0"),
    ],
    ids=["reading", "writing"],
)
async def test_a_store_that_may_not_use_marks_does_without(
    tmp_path: Path, narrowed: dict[str, str], forbidden: str
) -> None:
    """Neither a first read nor clearing waits for marks that this account cannot use."""
    config, certificates = tmp_path / "nats.conf", Certificates(tmp_path)
    text = CONFIG.read_text()
    for wide, narrow in narrowed.items():
        assert wide in text
        text = text.replace(wide, narrow)
    config.write_text(text)
    port, password = free_port(), secret()
    environment = {
        "NATS_NAME": "narrow",
        "NATS_LISTEN": f"127.0.0.1:{port}",
        "NATS_CERT": str(certificates.certificate),
        "NATS_KEY": str(certificates.key),
        "NATS_STORE_DIR": str(tmp_path / "data"),
        "ACME_PASSWORD": password,
        "GLOBEX_PASSWORD": secret(),
    }
    options = {"user": "acme", "password": password, "tls": certificates.trusting()}
    async with running(config, environment), asyncio.timeout(PATIENCE):
        for saved in ("first", "second"):  # the first store leaves a mark behind
            async with foldlog.connect(f"nats://localhost:{port}", **options) as store:
                await store.save_update(update(saved))
                assert [u.update_id for u in await store.list_updates("session")] == [saved]
                log = jetstream(store)
                assert log is not None
                await store.clear_session("session")
                assert log.connection.forbids(forbidden)
                assert await store.list_updates("session") == []
                await store.save_update(update("other", "another"))
                await store.clear_session("another")


@pytest.mark.parametrize("ask", ["request", "collect"])
async def test_what_is_refused_waits_for_no_reply(tmp_path: Path, ask: str) -> None:
    config, port = tmp_path / "nats.conf", free_port()
    config.write_text(
        f"""listen: "127.0.0.1:{port}"
        authorization: {{users: [
            {{user: ann, password: a, permissions: {{publish: {{deny: "closed.>"}}}}}}
        ]}}"""
    )
    async with running(config, {}), asyncio.timeout(PATIENCE):
        connection = await Connection.open(
            f"nats://127.0.0.1:{port}", timeout=PATIENCE, options={"user": "ann", "password": "a"}
        )
        try:
            with pytest.raises(Forbidden, match=r"closed\.door"):
                await getattr(connection, ask)("closed.door", b"", timeout=10 * PATIENCE)
        finally:
            await connection.close()

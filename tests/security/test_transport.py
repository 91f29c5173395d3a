"""TLS, nkeys and credentials against a real server: what is right works, what is wrong says so."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nkeys
import pytest

import foldlog
from tests.cli.support import run_process
from tests.security.keys import Chain, Key
from tests.security.server import Certificates, free_port, running
from tests.support.build import update

PATIENCE = 60


@asynccontextmanager
async def server(
    directory: Path, sign_in: str, *, verify: bool = False
) -> AsyncIterator[tuple[str, Certificates]]:
    """A server that takes TLS only, and who signs in as `sign_in` says; its URL."""
    certificates, port = Certificates(directory), free_port()
    ca = directory / "ca.pem"
    certificates.authority.cert_pem.write_to_path(ca)
    config = directory / "nats.conf"
    config.write_text(
        f'listen: "127.0.0.1:{port}"\n'
        f'tls {{ cert_file: "{certificates.certificate}", key_file: "{certificates.key}", '
        f'ca_file: "{ca}", verify: {str(verify).lower()} }}\n'
        f'jetstream {{ store_dir: "{directory / "data"}" }}\n' + sign_in
    )
    async with running(config, {}):
        yield f"nats://localhost:{port}", certificates


async def saves_and_reads(store: foldlog.Store) -> None:
    await asyncio.gather(*(store.save_update(update(f"u{n}")) for n in range(50)))
    assert len(await store.list_updates("session", consistency="strong")) == 50
    ref = await store.artifact_store.put_bytes(b"x" * 1_000_000)
    assert await store.artifact_store.get(ref.id) == b"x" * 1_000_000


USER = 'authorization { user: me, password: "s3cret" }\n'
ME = {"user": "me", "password": "s3cret"}


# --- TLS ----------------------------------------------------------------------------------------


async def test_a_store_works_over_tls(tmp_path: Path) -> None:
    async with server(tmp_path, USER) as (url, certificates):
        async with foldlog.connect(url, tls=certificates.trusting(), **ME) as store:
            await saves_and_reads(store)
        tls_url = url.replace("nats://", "tls://")
        async with foldlog.connect(tls_url, tls=certificates.trusting(), **ME) as store:
            assert len(await store.list_updates("session")) == 50
            assert (await store.health()).url == tls_url


async def test_the_command_line_works_over_tls(tmp_path: Path) -> None:
    async with server(tmp_path, USER) as (url, certificates):
        trusted = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}
        sign_in = {"FOLDLOG_USER": "me", "FOLDLOG_PASSWORD": "s3cret"}
        tls_url = url.replace("nats://", "tls://")
        async with foldlog.connect(url, tls=certificates.trusting(), **ME) as store:
            await store.save_update(update("u"))
        listed = await asyncio.to_thread(
            run_process, "sessions", "--url", tls_url, **trusted, **sign_in
        )
        assert (listed.code, listed.ids) == (0, ["session"]), listed.stderr
        refused = await asyncio.to_thread(run_process, "sessions", "--url", tls_url, **sign_in)
        assert refused.code == 1
        assert "certificate verify failed" in refused.stderr


async def test_a_server_that_is_not_trusted_gets_no_password(tmp_path: Path) -> None:
    async with server(tmp_path, USER) as (url, certificates):
        host_name = certificates.trusting()
        wrong_name = url.replace("localhost", "127.0.0.1")
        async with asyncio.timeout(PATIENCE):
            for at, context in (
                (url, ssl.create_default_context()),  # whose authority nobody knows
                (url, None),
                (wrong_name, host_name),  # whose certificate is for another host
            ):
                with pytest.raises(foldlog.LogUnavailable, match="certificate verify failed") as no:
                    await foldlog.connect(at, timeout=0.5, tls=context, **ME)
                assert "s3cret" not in str(no.value)


async def test_a_server_may_ask_for_a_clients_certificate(tmp_path: Path) -> None:
    async with server(tmp_path, USER, verify=True) as (url, certificates):
        anonymous, known = certificates.trusting(), certificates.trusting()
        certificates.authority.issue_cert("a-client").configure_cert(known)
        async with foldlog.connect(url, tls=known, **ME) as store:
            await store.save_update(update("u"))
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(foldlog.FoldlogError):
                await foldlog.connect(url, timeout=1.0, tls=anonymous, **ME)


async def test_a_tls_store_comes_back_after_its_server(tmp_path: Path) -> None:
    async with server(tmp_path, USER) as (url, certificates):
        context = certificates.trusting()
        store = await foldlog.connect(url, tls=context, timeout=60.0, **ME)
        await store.save_update(update("before"))
    config = tmp_path / "nats.conf"
    async with running(config, {}):
        await store.save_update(update("after"))
        found = await store.list_updates("session", consistency="strong")
        assert [u.update_id for u in found] == ["before", "after"]
        await store.close()


# --- nkeys --------------------------------------------------------------------------------------


@pytest.fixture
def key() -> Key:
    return Key(nkeys.PREFIX_BYTE_USER)


async def test_a_store_signs_in_with_an_nkey(tmp_path: Path, key: Key) -> None:
    sign_in = f"authorization {{ users: [{{ nkey: {key.public} }}] }}\n"
    seed_file = tmp_path / "user.nk"
    seed_file.write_bytes(key.seed)
    async with server(tmp_path, sign_in) as (url, certificates):
        context = certificates.trusting()
        async with foldlog.connect(url, tls=context, nkeys_seed=str(seed_file)) as store:
            await saves_and_reads(store)
        async with foldlog.connect(url, tls=context, nkeys_seed_str=key.seed.decode()) as store:
            assert len(await store.list_updates("session")) == 50


async def test_another_nkey_is_refused_without_a_word_of_it(tmp_path: Path, key: Key) -> None:
    sign_in = f"authorization {{ users: [{{ nkey: {key.public} }}] }}\n"
    other = Key(nkeys.PREFIX_BYTE_USER).seed.decode()
    async with server(tmp_path, sign_in) as (url, certificates), asyncio.timeout(PATIENCE):
        with pytest.raises(foldlog.ConfigurationError, match="the key given") as refused:
            await foldlog.connect(url, tls=certificates.trusting(), nkeys_seed_str=other)
    assert other not in str(refused.value)


# --- credentials --------------------------------------------------------------------------------


async def test_a_store_signs_in_with_a_creds_file(tmp_path: Path) -> None:
    chain = Chain()
    creds = tmp_path / "me.creds"
    creds.write_text(chain.credentials())
    async with server(tmp_path, chain.config()) as (url, certificates):
        context = certificates.trusting()
        async with foldlog.connect(url, tls=context, user_credentials=str(creds)) as store:
            await saves_and_reads(store)


async def test_wrong_creds_are_refused_by_the_name_of_their_file(tmp_path: Path) -> None:
    chain = Chain()
    seed = Key(nkeys.PREFIX_BYTE_USER).seed
    creds = tmp_path / "wrong.creds"
    creds.write_text(chain.credentials(seed))
    async with server(tmp_path, chain.config()) as (url, certificates), asyncio.timeout(PATIENCE):
        context = certificates.trusting()
        with pytest.raises(foldlog.ConfigurationError, match=r"wrong\.creds") as refused:
            await foldlog.connect(url, tls=context, user_credentials=str(creds))
        with pytest.raises(foldlog.ConfigurationError, match="does not sign in"):
            await foldlog.connect(url, tls=context)
    assert seed.decode() not in str(refused.value)


@pytest.mark.parametrize("content", ["", "no credentials", None], ids=["empty", "text", "absent"])
async def test_a_creds_file_that_is_none_is_a_typed_error(
    tmp_path: Path, content: str | None
) -> None:
    chain = Chain()
    creds = tmp_path / "broken.creds"
    if content is not None:
        creds.write_text(content)
    async with server(tmp_path, chain.config()) as (url, certificates), asyncio.timeout(PATIENCE):
        with pytest.raises(foldlog.FoldlogError):
            await foldlog.connect(
                url, timeout=1.0, tls=certificates.trusting(), user_credentials=str(creds)
            )

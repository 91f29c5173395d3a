"""Who is let in, and what a browser may do with the page."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import httpx
import pytest

import foldlog
from foldlog import ui
from foldlog.errors import ConfigurationError
from foldlog.ui.safety import POLICY
from tests.ui.support import said, task

ClientOf = Callable[..., httpx.AsyncClient]
STEER = {"session_id": "s", "task_id": "t", "event_type": "PAUSE", "payload": {}}


async def test_without_the_token_nothing_is_shown(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    async with client_of(store, signed_in=False) as client:
        for path in ("/", "/static/app.js", "/api/sessions", "/api/openapi.json", "/api/none"):
            response = await client.get(path)
            assert response.status_code == 401, path
            assert "foldlog ui" in response.json()["error"]["message"]
        assert (await client.get("/?token=wrong")).status_code == 401
        assert (await client.post("/api/steer", json=STEER)).status_code == 401


async def test_the_token_of_the_address_becomes_a_strict_cookie(store: foldlog.Store) -> None:
    application = ui.app(store, token="secret")
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
        entered = await client.get("/?token=secret&x=1")
        assert entered.status_code == 303
        assert entered.headers["location"] == "/?x=1"
        cookie = entered.headers["set-cookie"].lower()
        assert "samesite=strict" in cookie
        assert "httponly" in cookie
        assert (await client.get("/api/sessions")).status_code == 200


async def test_the_way_in_stays_on_this_host(store: foldlog.Store) -> None:
    transport = httpx.ASGITransport(ui.app(store, token="secret"))
    async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
        entered = await client.get("http://page//evil.example/?token=secret")
        assert entered.headers["location"] == "/evil.example/"


async def test_cookies_of_other_pages_lock_nobody_out(store: foldlog.Store) -> None:
    transport = httpx.ASGITransport(ui.app(store, token="secret"))
    async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
        await client.get("/?token=secret")
        [(name, value)] = client.cookies.items()
        client.cookies.clear()
        cookie = f'prefs={{"a": 1}}; {name}={value}'
        response = await client.get("/api/about", headers={"cookie": cookie})
        assert response.status_code == 200


async def test_a_password_that_the_browser_adds_is_no_token(store: foldlog.Store) -> None:
    await task(store, "s", "t")
    transport = httpx.ASGITransport(ui.app(store, user_header="X-User"))
    headers = {"x-user": "ann", "authorization": "Basic YW5uOng="}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://page", headers=headers
    ) as client:
        assert (await client.post("/api/steer", json=STEER)).status_code == 403


async def test_two_pages_on_one_host_keep_their_own_cookies(store: foldlog.Store) -> None:
    names = set()
    for token in ("one", "two"):
        transport = httpx.ASGITransport(ui.app(store, token=token))
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
            await client.get(f"/?token={token}")
            names |= set(client.cookies)
    assert len(names) == 2


async def test_a_header_that_the_proxy_sets_lets_in(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    await task(store, "s", "t")
    async with client_of(store, user_header="X-Remote-User") as client:
        assert (await client.get("/api/about")).status_code == 401
        client.headers["x-remote-user"] = "ann"
        about = (await client.get("/api/about")).json()
        assert about["user"] == "ann"
        done = await client.post(
            "/api/steer", json=STEER, headers={"x-foldlog-csrf": about["csrf"]}
        )
        assert done.status_code == 200
    [event] = await store.list_steering("s")
    assert event.payload["by"] == "ann"


async def test_only_named_hosts_are_served(store: foldlog.Store, client_of: ClientOf) -> None:
    async with client_of(store, hosts=["127.0.0.1"]) as client:
        for host, status in (("127.0.0.1:80", 200), ("evil.example", 400), ("", 400), ("[", 400)):
            response = await client.get("/api/about", headers={"host": host})
            assert response.status_code == status, host


async def test_a_read_only_page_refuses_every_write(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    await task(store, "s", "t")
    before = await store.position()
    async with client_of(store, read_only=True) as client:
        for name in ("answer", "steer", "fork", "feedback", "queue"):
            response = await client.post(f"/api/{name}", json={})
            assert response.status_code == 403, name
        assert (await client.get("/api/about")).json()["read_only"] is True
    assert await store.position() == before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://page"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"x-foldlog-csrf": "guessed"}, 403),
        ({"content-type": "text/plain"}, 415),
    ],
)
async def test_a_write_comes_from_the_page_itself(
    store: foldlog.Store, headers: dict[str, str], status: int
) -> None:
    await task(store, "s", "t")
    transport = httpx.ASGITransport(ui.app(store, token="secret"))
    async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
        await client.get("/?token=secret")
        csrf = (await client.get("/api/about")).json()["csrf"]
        content = {"content-type": "application/json", "x-foldlog-csrf": csrf} | headers
        body = b'{"session_id":"s","task_id":"t","event_type":"PAUSE"}'
        response = await client.post("/api/steer", content=body, headers=content)
        assert response.status_code == status


async def test_every_response_has_the_policy(store: foldlog.Store, client_of: ClientOf) -> None:
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
    async with client_of(store) as client:
        for path in ("/", "/static/app.js", "/static/style.css", "/api/sessions", "/api/none"):
            response = await client.get(path)
            assert response.headers["content-security-policy"] == POLICY, path
            assert response.headers["x-content-type-options"] == "nosniff"


async def test_no_file_beside_the_pages_own_is_served(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    async with client_of(store) as client:
        for path in (
            "../application.py",
            "%2e%2e/application.py",
            "..%2f..%2fcodec.py",
            "x.js",
            "",
        ):
            response = await client.get(f"/static/{path}")
            assert response.status_code == 404, path


async def test_a_page_is_known_by_its_tag(store: foldlog.Store, client_of: ClientOf) -> None:
    async with client_of(store) as client:
        first = await client.get("/static/style.css")
        again = await client.get(
            "/static/style.css", headers={"if-none-match": first.headers["etag"]}
        )
        assert (first.status_code, again.status_code) == (200, 304)


async def test_a_token_and_a_header_do_not_go_together(store: foldlog.Store) -> None:
    with pytest.raises(ConfigurationError, match="one of them"):
        ui.app(store, token="t", user_header="X-User")
    with pytest.raises(ConfigurationError, match="everybody"):
        ui.app(store, token="")


async def test_without_the_extra_the_error_says_what_to_install(store: foldlog.Store) -> None:
    with (
        mock.patch.dict("sys.modules", {"starlette": None}),
        pytest.raises(ConfigurationError, match=r"pip install 'foldlog\[ui\]'"),
    ):
        ui.app(store)


async def test_it_can_be_mounted(store: foldlog.Store) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    await store.save_update(said("s", 1))
    outer = Starlette(routes=[Mount("/agents", ui.app(store, token="secret"))])
    transport = httpx.ASGITransport(outer)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://page", follow_redirects=True
    ) as client:
        page = await client.get("/agents/?token=secret")
        assert page.status_code == 200
        assert "<title>" in page.text
        found = await client.get("/agents/api/sessions")
        assert [each["id"] for each in found.json()["sessions"]] == ["s"]

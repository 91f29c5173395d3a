"""`foldlog ui` serves streams, too: to those that it lets in, and as they may write."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from foldlog.importer import demo_transcript
from tests.cli.support import PATIENCE, Cli
from tests.support.stores import fresh_namespace

HTML = {"content-type": "text/html"}
FROM_START = {"offset": "-1"}


@pytest.mark.parametrize("is_read_only", [False, True])
def test_streams_are_for_who_is_let_in_to_the_page(embedded_path: Path, is_read_only: bool) -> None:
    cli = Cli(embedded_path, fresh_namespace())
    assert cli("import", demo_transcript()).code == 0  # else there is no log to show
    options = ["--read-only"] if is_read_only else []
    with cli.start("ui", "--no-browser", "--json", *options) as process:
        assert process.stdout is not None
        page = urlsplit(json.loads(process.stdout.readline())["url"])
        base_url, token = f"http://{page.netloc}/streams", page.query.removeprefix("token=")
        with httpx.Client(base_url=base_url, timeout=PATIENCE) as client:
            assert client.put("/sessions/trip/a", headers=HTML).status_code == 401
            assert client.get("/sessions/trip/a", params=FROM_START).status_code == 401
            client.headers["authorization"] = f"Bearer {token}"
            made = client.put("/sessions/trip/a", headers=HTML, content="<script>")
            assert made.status_code == (403 if is_read_only else 201)
            found = client.get("/sessions/trip/a", params=FROM_START)
            assert found.status_code == (404 if is_read_only else 200)
            assert found.headers["content-security-policy"] == "sandbox"
            feed = client.get("/feeds/sessions/trip", params=FROM_START).json()
            assert len(feed) == (0 if is_read_only else 2)
            elsewhere = HTML | {"origin": "http://evil.example"}
            assert client.put("/b", headers=elsewhere).status_code == 403
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0

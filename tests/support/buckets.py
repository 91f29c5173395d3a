"""An S3 server in a thread of this process, over HTTP on 127.0.0.1."""

from __future__ import annotations

import datetime as dt
import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_KEYS = {"access_key_id": "test", "secret_access_key": "test", "region": "us-east-1"}
_numbers = itertools.count(1)


class S3Server:
    """moto's. Buckets are made as they are asked for."""

    def __init__(self, url: str) -> None:
        self.url = url

    def bucket(self) -> str:
        """Make another bucket, and return its URL with a prefix in it."""
        import boto3

        name = f"bucket-{next(_numbers)}"
        client = boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=_KEYS["access_key_id"],
            aws_secret_access_key=_KEYS["secret_access_key"],
            region_name=_KEYS["region"],
        )
        client.create_bucket(Bucket=name)
        return f"s3://{name}/prefix"


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server that runs until the context ends."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(f"http://{host}:{port}")
    finally:
        server.stop()


def s3_options(endpoint: str, *, timeout: float = 30.0, retries: int = 3) -> dict[str, Any]:
    """`archive_options` for a bucket there."""
    return {
        **_KEYS,
        "endpoint": endpoint,
        "client_options": {"allow_http": True, "timeout": dt.timedelta(seconds=timeout)},
        "retry_config": {
            "max_retries": retries,
            "retry_timeout": dt.timedelta(seconds=timeout),
            "backoff": {
                "init_backoff": dt.timedelta(milliseconds=1),
                "max_backoff": dt.timedelta(milliseconds=5),
                "base": 2,
            },
        },
    }

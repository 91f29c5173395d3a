"""When a cluster is healthy, and what is in the way of it: as the leader of a stream sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import msgspec
import nats
import nats.errors

from foldlog.subjects import Namespace
from tests.faults.storms.crowd import Crowd
from tests.faults.storms.patience import PATIENCE
from tests.support.cluster import LocalCluster

_REPLY_SECONDS: Final = 2.0


class Peer(msgspec.Struct, frozen=True):
    """A follower. `active`: nanoseconds since its leader last heard from it."""

    name: str = ""
    current: bool = False
    offline: bool = False
    active: int = 0
    lag: int = 0


class Group(msgspec.Struct, frozen=True):
    """Who leads a stream, as far as whoever answers knows, and who follows."""

    leader: str = ""
    replicas: Sequence[Peer] = ()


class _Answer(msgspec.Struct, frozen=True):
    cluster: Group = Group()


class NotHealthyError(Exception):
    """A cluster did not become healthy in time; carries what was in the way at last."""


def ailments(group: Group, back: float) -> list[str]:
    """What a group of three lacks in health; `back`: seconds since its last node came back.

    What a leader says of a follower may be of the time before that was killed: it keeps what it
    knew. So a follower counts only once it was heard from since.
    """
    if not group.leader:
        return ["there is no leader"]
    found = [] if len(group.replicas) == 2 else [f"{len(group.replicas)} followers"]
    for peer in group.replicas:
        if peer.offline:
            found.append(f"{peer.name} is offline")
        elif peer.active / 1e9 >= back:
            found.append(f"{peer.name} was not heard from since it came back")
        elif not peer.current or peer.lag:
            found.append(f"{peer.name} lags by {peer.lag}")
    return found


async def group(cluster: LocalCluster, namespace: str) -> Group:
    """The group of a namespace's stream as its leader tells it; nothing known where none does."""
    asked = f"$JS.API.STREAM.INFO.{Namespace(namespace).stream(0)}"
    try:
        async with await nats.connect(list(cluster.urls)) as client:
            answer = await client.request(asked, timeout=_REPLY_SECONDS)
    except (nats.errors.Error, OSError):
        return Group()
    return msgspec.json.decode(answer.data, type=_Answer).cluster


async def healthy(cluster: LocalCluster, crowd: Crowd, namespace: str, back: float) -> str:
    """Wait until the cluster is healthy, a save at a time; return the name of its leader.

    `back`: when its last node came back, of `time.monotonic()`.

    Raises:
        NotHealthyError: it did not become so.
    """
    lacking: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await group(cluster, namespace)
                lacking = ailments(found, time.monotonic() - back)
                if not lacking:
                    return found.leader
                await crowd.progressed()
    except TimeoutError as error:
        raise NotHealthyError(f"in {PATIENCE:g} s: {', '.join(lacking)}") from error

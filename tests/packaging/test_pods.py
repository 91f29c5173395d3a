"""The nodes and the worker of deploy/kubernetes: processes with the environment of their pods."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml

import foldlog
from tests.docs.markdown import ROOT
from tests.support.cluster import LocalCluster
from tests.support.ports import free_ports
from tests.support.workers import PATIENCE

pytestmark = pytest.mark.long

KUBERNETES = ROOT / "deploy/kubernetes"


def container_of(file: str, kind: str) -> dict[str, Any]:
    documents = yaml.safe_load_all(KUBERNETES.joinpath(file).read_text("utf-8"))
    [found] = [document for document in documents if document["kind"] == kind]
    [container] = found["spec"]["template"]["spec"]["containers"]
    return dict(container)


class Pods(LocalCluster):
    """The StatefulSet, whose pods are processes on loopback."""

    def __init__(self) -> None:
        super().__init__()
        self.names = ("nats-0", "nats-1", "nats-2")
        self.monitors = free_ports(3)
        self.container = container_of("nats.yaml", "StatefulSet")

    def _environment(self, node: int) -> dict[str, str]:
        secrets = {"PASSWORD": self._password, "ROUTE_PASSWORD": self._route_password}
        values = {"POD_NAME": self.names[node]} | secrets
        for variable in self.container["env"]:
            text = variable.get("value", "")
            text = re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], text)
            values.setdefault(variable["name"], text)
        here = {"0.0.0.0:4222": self._client_ports[node], "0.0.0.0:6222": self.route_ports[node]}
        here |= {"0.0.0.0:8222": self.monitors[node]}
        here |= {
            f"{name}.nats-nodes:6222": port
            for name, port in zip(self.names, self.route_ports, strict=True)
        }
        for address, port in here.items():
            values = {k: v.replace(address, f"127.0.0.1:{port}") for k, v in values.items()}
        store = f'"{self._directory.name}/{self.names[node]}"'
        return values | {"NATS_STORE_DIR": store}


async def test_nodes_form_a_cluster_and_a_worker_goes_on_where_it_was(tmp_path: Path) -> None:
    program = container_of("worker.yaml", "Deployment")["command"][-1]
    worker = KUBERNETES / Path(program).name
    async with Pods() as cluster:
        password = cluster.urls[0].split(":")[2].partition("@")[0]
        addresses = ",".join(url.replace(f"foldlog:{password}@", "") for url in cluster.urls)
        pod = {"FOLDLOG_URL": addresses, "FOLDLOG_USER": "foldlog", "FOLDLOG_PASSWORD": password}
        pod |= {"FOLDLOG_PATH": str(tmp_path / "foldlog")}

        first = await steps(worker, pod, upto=2)
        await cluster.kill(0)
        second = await steps(worker, pod, upto=first[-1] + 2)
        assert second[0] in (first[-1], first[-1] + 1)
        assert (tmp_path / "alive").exists()

        await cluster.start(0)
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            path = cluster.container[probe]["httpGet"]["path"]
            for port in cluster.monitors:
                await succeeds(f"http://127.0.0.1:{port}{path}")
        async with foldlog.connect(addresses, user="foldlog", password=password) as store:
            assert (await store.health()).streams[0].replicas == 3


async def steps(worker: Path, pod: dict[str, str], upto: int) -> list[int]:
    """The steps that a worker begins, until it is killed in the one that is named.

    While the nodes elect a leader, a worker may end; like a Deployment, this starts another one.
    """
    begun: list[int] = []
    async with asyncio.timeout(PATIENCE):
        while not begun or begun[-1] < upto:
            process = await asyncio.create_subprocess_exec(
                sys.executable, worker, env=os.environ | pod, stdout=asyncio.subprocess.PIPE
            )
            assert process.stdout is not None
            try:
                while line := await process.stdout.readline():
                    begun.append(int(line))
                    if begun[-1] >= upto:
                        break
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()
    return begun


async def succeeds(url: str) -> None:
    """Ask as the kubelet does, again and again, though not every ten seconds."""

    def ask() -> bool:
        try:
            with urlopen(url, timeout=5):
                return True
        except HTTPError as error:
            error.close()
            return False

    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(ask):  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.1)

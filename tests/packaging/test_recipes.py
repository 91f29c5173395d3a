"""The recipes of deploy/ and the workflows, by the checkers that each format has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.markdown import ROOT, read
from tests.packaging.support import PROJECT, Distributions, ran

pytestmark = pytest.mark.long

DEPLOY = ROOT / "deploy"
SECRETS = {"foldlog": {"password", "route-password", "traces-token"}}
"""What `kubectl create secret` is told to make."""
OVERLAY = next(
    block.text
    for block in read(ROOT / "docs/guides/deploy.md").blocks
    if block.language == "yaml" and "components:" in block.text
)

Resource = dict[str, Any]


def tool(name: str, *arguments: str | Path) -> str:
    """What a checker of the environment `packaging` says, which has to be content."""
    program = ROOT / ".venv-packaging/bin" / name
    if not program.exists():
        pytest.skip("`make .venv-packaging/.ready` installs the checkers")
    return ran([program, *arguments])


@pytest.fixture(scope="module", params=["as it is", "with an archive"])
def manifests(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All manifests in one file, as Kustomize makes it."""
    folder, place = tmp_path_factory.mktemp("manifests"), DEPLOY
    if request.param == "with an archive":
        # Kustomize wants relative paths, and they lead through a link: next to the checkout.
        place = folder / "overlay"
        place.mkdir()
        up = Path(*[".."] * len(place.resolve().parts[1:]))
        overlay = OVERLAY.replace("foldlog/deploy", str(up / str(DEPLOY.resolve())[1:]))
        (place / "kustomization.yaml").write_text(overlay, "utf-8")
    file = folder / "manifests.yaml"
    file.write_text(tool("kubectl", "kustomize", place), "utf-8")
    return file


@pytest.fixture(scope="module")
def resources(manifests: Path) -> list[Resource]:
    return list(yaml.safe_load_all(manifests.read_text("utf-8")))


def pods(resources: list[Resource]) -> Iterator[tuple[Resource, Resource]]:
    """Each resource that makes pods, and their template."""
    for each in resources:
        spec = each["spec"].get("jobTemplate", each)["spec"] if "spec" in each else {}
        if "template" in spec:
            yield each, spec["template"]


def test_kubernetes_takes_the_manifests(manifests: Path) -> None:
    tool("kubernetes-validate", "--strict", "--quiet", manifests)


def test_what_pods_name_is_there(resources: list[Resource]) -> None:
    config_maps = {r["metadata"]["name"]: set(r["data"]) for r in resources if "data" in r}
    for owner, template in pods(resources):
        spec = template["spec"]
        [container] = spec["containers"]
        for volume in spec["volumes"]:
            assert "configMap" not in volume or volume["configMap"]["name"] in config_maps
        for source in container.get("envFrom", []):
            assert source.get("secretRef", {"optional": True})["optional"]
            assert source.get("configMapRef", {"name": next(iter(config_maps))})["name"]
        for variable in container["env"]:
            key = variable.get("valueFrom", {}).get("secretKeyRef")
            assert key is None or key["key"] in SECRETS[key["name"]]
        ports = {port["name"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            for asked in container.get(probe, {}).values():
                assert not isinstance(asked, dict) or asked.get("port") in {*ports, None}
        name = owner["metadata"]["labels"]["app.kubernetes.io/name"]
        assert template["metadata"]["labels"]["app.kubernetes.io/name"] == name


def test_pods_are_confined_and_reach_the_server(resources: list[Resource]) -> None:
    for _, template in pods(resources):
        [container] = template["spec"]["containers"]
        assert template["spec"]["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["resources"]["limits"].keys() == {"memory"}
        if container["name"] != "nats":
            assert container["image"].endswith(f"foldlog:{PROJECT['project']['version']}")
            assert template["metadata"]["labels"]["foldlog/client"] == "true"


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    assert tool("hadolint", DEPLOY / "Dockerfile") == ""


def test_workflows_follow_their_schema() -> None:
    workflows = sorted(ROOT.glob(".github/workflows/*.yml"))
    if not workflows:
        pytest.skip("an sdist has none")
    tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)


def test_the_index_would_show_the_readme(distributions: Distributions) -> None:
    tool("twine", "check", "--strict", *distributions)

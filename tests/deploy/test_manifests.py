"""What the manifests say: valid by the schemas of their formats, and safe by default."""

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from gateway.config import load
from tests.deploy.manifests import (
    DEPLOY,
    DOCKERFILES,
    KUBERNETES,
    ROOT,
    Container,
    compose,
    deployment,
    documents,
    pod,
)

VERSIONS = ("1.32", "1.37")
"""Of Kubernetes: the oldest that has all that is used here, the newest whose schemas are known."""
SECRETS = {"alice": "token-of-alice", "link": "secret-of-the-link", "ALICE_TOKEN": "token-of-alice"}
FOLDERS = sorted({path.parent for path in KUBERNETES})
SETS = {
    **{folder.name: pod(folder, SECRETS) for folder in FOLDERS},
    "compose": compose(SECRETS),
}
CONTAINERS = [
    pytest.param(container, id=f"{name}-{container.name}")
    for name, containers in SETS.items()
    for container in containers
]
LAST_WORDS = 5.0
"""Seconds that the end of a process may take beyond the grace (docs/operations.md)."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_kubernetes_schemas(path: Path, version: str) -> None:
    """Fields that Kubernetes does not know are errors, too."""
    found = documents(path)
    assert found
    for document in found:
        kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_refuse_what_is_wrong() -> None:
    document = deployment(FOLDERS[0])
    document["spec"]["template"]["spec"]["containers"][0]["readinessprobe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, VERSIONS[0], strict=True)


def test_compose_schema() -> None:
    schema = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    jsonschema.validate(document, json.loads(schema.read_text()))


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_may_do_nothing_but_their_work(container: Container) -> None:
    assert container.user == container.group == 10001
    assert container.is_read_only
    assert container.security["capabilities"] == {"drop": ["ALL"]}
    if "options" in container.security:
        assert container.security["options"] == ["no-new-privileges:true"]
    else:
        assert container.security["runAsNonRoot"] is True
        assert container.security["allowPrivilegeEscalation"] is False
        assert container.security["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_pods_get_no_token_of_the_cluster(folder: Path) -> None:
    spec = deployment(folder)["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False


@pytest.mark.parametrize("container", CONTAINERS)
def test_configuration_is_right(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flags and variables make a configuration, with nobody let in without a credential; the
    grace and what comes around it fit into the time before the kill."""
    if container.image != "a2a-gateway:0.1.0":
        return
    for name, value in container.environment.items():
        monkeypatch.setenv(name, value)
    command, *rest = container.arguments
    flags = dict(word.removeprefix("--").split("=", 1) for word in rest if word.startswith("--"))
    doors = [word.removeprefix("--transport=") for word in rest if "=0.0.0.0:" in word]
    config = load(
        None,
        environment={"A2A_GATEWAY_STATE_DIR": "/var/lib/a2a-gateway", **container.environment},
        flags={"agent.spec": ("--agent", flags.get("agent"))},
        transports=doors,
    )
    assert doors
    # the adapter decides nothing: it has no list of callers, and hands credentials on
    assert config.access.is_configured is (command != "adapter")
    needed = container.pre_stop + config.grace + LAST_WORDS
    assert needed <= container.stop_within, f"{needed} s are needed"


def test_the_agent_outlives_the_gateways_last_message() -> None:
    for name, containers in SETS.items():
        first, last = containers[0], containers[-1]
        if name != "compose":  # which stops one after the other
            assert first.pre_stop > last.pre_stop


def test_core_and_door_agree_on_the_link() -> None:
    core, door = SETS["apart"]
    for name in ("A2A_GATEWAY_LINK__ADDRESS", "A2A_GATEWAY_LINK__SECRET"):
        assert core.environment[name] == door.environment[name]
    assert core.mounts["/run/a2a"] == door.mounts["/run/a2a"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_objects_name_one_another(folder: Path) -> None:
    """Selectors fit labels, ports that are named exist, claims are there."""
    sidecar = DEPLOY / "kubernetes" / "sidecar"
    found = {d["kind"]: d for file in sidecar.glob("*.yaml") for d in documents(file)}
    spec = deployment(folder)["spec"]
    labels = spec["template"]["metadata"]["labels"]
    ports = {p["name"] for c in spec["template"]["spec"]["containers"] for p in c.get("ports", [])}
    claims = {
        v["persistentVolumeClaim"]["claimName"]
        for v in spec["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in v
    }
    assert spec["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    assert found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert {p["targetPort"] for p in found["Service"]["spec"]["ports"]} <= ports
    policy = found["NetworkPolicy"]["spec"]["ingress"]
    assert {p["port"] for rule in policy for p in rule["ports"]} <= ports
    assert claims == {found["PersistentVolumeClaim"]["metadata"]["name"]}


def test_images_are_this_version() -> None:
    """And every image that a manifest names is one that can be built from here."""
    project = (ROOT / "pyproject.toml").read_text()
    for container in (c for containers in SETS.values() for c in containers):
        assert DOCKERFILES[container.image].exists()
        version = container.image.partition(":")[2]
        assert f'version = "{version}"' in project

"""Reads deploy/: Kubernetes and compose files, as the containers that they describe."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILES = {
    "a2a-gateway:0.1.0": DEPLOY / "Dockerfile",
    "a2a-agent:0.1.0": DEPLOY / "agent.Dockerfile",
}
KUBERNETES = sorted((DEPLOY / "kubernetes").rglob("*.yaml"))

Json = Any


@dataclass(frozen=True)
class Container:
    """One container, whoever described it."""

    name: str
    image: str
    arguments: list[str]
    environment: Mapping[str, str]
    user: int
    group: int
    is_read_only: bool
    mounts: Mapping[str, str]
    """Names of volumes by the path where they are mounted."""
    readiness: Json = None
    """The probe, as the file has it, ports by number."""
    pre_stop: float = 0.0
    """Seconds between the wish to end it and SIGTERM."""
    stop_within: float = 0.0
    """Seconds from then to SIGKILL, `pre_stop` among them."""
    security: Json = field(default_factory=dict)


def documents(path: Path) -> list[Json]:
    """The YAML documents of one file."""
    return [found for found in yaml.safe_load_all(path.read_text()) if found]


def deployment(path: Path) -> Json:
    """The only Deployment of a folder."""
    found = [d for file in sorted(path.glob("*.yaml")) for d in documents(file)]
    (only,) = [d for d in found if d["kind"] == "Deployment"]
    return only


def pod(path: Path, secrets: Mapping[str, str]) -> list[Container]:
    """The containers of the Deployment in a folder of deploy/kubernetes. `secrets` are the keys
    of its Secret."""
    spec = deployment(path)["spec"]["template"]["spec"]
    shared = spec["securityContext"]
    return [
        Container(
            name=container["name"],
            image=container["image"],
            arguments=container.get("args", []),
            environment=_environment(container.get("env", []), secrets),
            user=shared["runAsUser"],
            group=shared["runAsGroup"],
            is_read_only=container["securityContext"]["readOnlyRootFilesystem"],
            mounts={m["mountPath"]: m["name"] for m in container.get("volumeMounts", [])},
            readiness=_probe(container),
            pre_stop=_pre_stop(container),
            stop_within=spec["terminationGracePeriodSeconds"],
            security={**shared, **container["securityContext"]},
        )
        for container in spec["containers"]
    ]


def _environment(entries: list[Json], secrets: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for entry in entries:
        if "value" in entry:
            found[entry["name"]] = entry["value"]
        else:
            found[entry["name"]] = secrets[entry["valueFrom"]["secretKeyRef"]["key"]]
    return found


def _probe(container: Json) -> Json:
    probe = container.get("readinessProbe")
    if probe and "httpGet" in probe:
        ports = {p["name"]: p["containerPort"] for p in container["ports"]}
        asked = probe["httpGet"]
        probe = {**probe, "httpGet": {**asked, "port": ports.get(asked["port"], asked["port"])}}
    return probe


def _pre_stop(container: Json) -> float:
    return float(
        container.get("lifecycle", {}).get("preStop", {}).get("sleep", {"seconds": 0})["seconds"]
    )


def compose(variables: Mapping[str, str]) -> list[Container]:
    """The containers of deploy/compose.yaml, in the order in which they start."""
    (whole,) = documents(DEPLOY / "compose.yaml")
    services = whole["services"]
    first = sorted(services, key=lambda name: len(services[name].get("depends_on", [])))
    return [_service(name, services[name], variables) for name in first]


def _service(name: str, service: Json, variables: Mapping[str, str]) -> Container:
    user, _, group = service["user"].partition(":")
    mounts = (volume.split(":") for volume in service.get("volumes", []))
    command = service.get("command", [])
    return Container(
        name=name,
        image=service["image"],
        arguments=shlex.split(command) if isinstance(command, str) else command,
        environment={
            key: _interpolate(str(value), variables)
            for key, value in service.get("environment", {}).items()
        },
        user=int(user),
        group=int(group),
        is_read_only=service["read_only"],
        mounts={path: volume for volume, path in mounts},
        stop_within=float(service["stop_grace_period"].removesuffix("s")),
        security={
            "capabilities": {"drop": service["cap_drop"]},
            "options": service["security_opt"],
        },
    )


def _interpolate(text: str, variables: Mapping[str, str]) -> str:
    # ${NAME:?text}: without it, compose stops and says the text
    return re.sub(r"\$\{(\w+)(?::\?[^}]*)?\}", lambda found: variables[found[1]], text)

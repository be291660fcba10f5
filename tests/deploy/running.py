"""Runs the containers of a manifest as processes: their own command lines, environment and user,
on the images that `image.build` made, with volumes in a folder and ports that are free."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2

from tests.deploy.image import Image
from tests.deploy.manifests import Container
from tests.processes import free_ports

READY_SECONDS = 30.0


@dataclass
class Running:
    """One container that runs."""

    container: Container
    process: subprocess.Popen[str]
    output: deque[str]
    reader: threading.Thread
    ports: Mapping[int, int]
    health: Sequence[str]
    environment: Mapping[str, str]
    is_told: bool = False
    """To end, by SIGTERM."""

    def text(self) -> str:
        """What it printed last."""
        return f"{self.container.name}:\n" + "\n".join(self.output)

    def is_ready(self) -> bool:
        """Ask as the kubelet does by the readiness probe, or an engine by the image's check."""
        probe = self.container.readiness
        if probe is None:
            return not self.health or self._ask(self.health)
        if "grpc" in probe:
            return _grpc_is_serving(self.ports[probe["grpc"]["port"]])
        get = probe["httpGet"]
        return _http_is_ok(f"http://127.0.0.1:{self.ports[get['port']]}{get['path']}")

    def _ask(self, command: Sequence[str]) -> bool:
        done = subprocess.run(
            [*as_user(self.container.user, self.container.group), *command],
            env=dict(self.environment),
            capture_output=True,
            timeout=READY_SECONDS,
        )
        return done.returncode == 0

    def kill(self) -> None:
        """SIGKILL to all of its processes, as an engine does that has lost its patience."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def terminate(self) -> None:
        """SIGTERM, once."""
        if not self.is_told:
            self.is_told = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """SIGTERM; the exit code. Fails where it takes longer than the manifest gives it."""
        self.terminate()
        limit = self.container.stop_within - self.container.pre_stop
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {limit} s\n{self.text()}") from None
        self.reader.join(5)
        assert not self.reader.is_alive(), f"left processes behind\n{self.text()}"
        return code


class Pod:
    """Containers that run beside one another; they share volumes, and the numbers of ports."""

    def __init__(self, containers: Sequence[Container], images: Mapping[str, Image], folder: Path):
        self._containers = {container.name: container for container in containers}
        self._images = images
        self._folder = folder
        numbers = sorted({n for c in containers for n in _numbers(c)})
        self.ports = dict(zip(numbers, free_ports(len(numbers)), strict=True))
        """Where the ports of the manifest really are."""
        self.running: dict[str, Running] = {}

    def start(self, *names: str) -> None:
        """Start them, and wait until those that have a probe are ready."""
        for name in names:
            container = self._containers[name]
            self.running[name] = _start(container, self._images, self._folder, self.ports)
        for name in names:
            _wait(self.running[name])

    def text(self) -> str:
        """What all of them printed last."""
        return "\n".join(one.text() for one in self.running.values())


@contextmanager
def running(
    containers: Sequence[Container], images: Mapping[str, Image], folder: Path
) -> Iterator[Pod]:
    """A pod with all of them ready; none is left in the end."""
    pod = Pod(containers, images, folder)
    try:
        pod.start(*(container.name for container in containers))
        yield pod
    finally:
        for one in pod.running.values():
            one.kill()


def _start(
    container: Container,
    images: Mapping[str, Image],
    folder: Path,
    ports: Mapping[int, int],
) -> Running:
    image = images[container.image]
    assert container.is_read_only
    places = {path: _volume(folder / name, container) for path, name in container.mounts.items()}

    def here(text: str) -> str:
        for number, free in ports.items():
            text = text.replace(f"0.0.0.0:{number}", f"127.0.0.1:{free}")
            text = text.replace(f"127.0.0.1:{number}", f"127.0.0.1:{free}")
        return image.moved(text, places)

    given = {**image.environment, **container.environment}
    environment = {name: here(value) for name, value in given.items()}
    arguments = container.arguments or image.command
    process = subprocess.Popen(
        [
            *as_user(container.user, container.group),
            *(here(word) for word in [*image.entry_point, *arguments]),
        ],
        cwd=image.real("."),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    output: deque[str] = deque(maxlen=200)

    def read() -> None:
        assert process.stdout is not None
        with process.stdout:
            output.extend(line.rstrip("\n") for line in process.stdout)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    health = [here(word) for word in image.health]
    return Running(container, process, output, reader, ports, health, environment)


def _wait(one: Running) -> None:
    end = time.monotonic() + READY_SECONDS
    while not one.is_ready():
        assert one.process.poll() is None, f"ended\n{one.text()}"
        assert time.monotonic() < end, f"not ready\n{one.text()}"
        time.sleep(0.1)  # as the kubelet asks, and engines do


def _volume(path: Path, container: Container) -> Path:
    """A new volume: its user's own as compose makes it; root's and the group's in a pod, which has
    an `fsGroup`."""
    if not path.exists():
        path.mkdir()
        is_shared = "fsGroup" in container.security
        if os.geteuid() == 0:
            group = container.security.get("fsGroup", container.group)
            os.chown(path, 0 if is_shared else container.user, group)
        path.chmod(0o2777 if is_shared else 0o700)
    return path


def _numbers(container: Container) -> set[int]:
    """The ports that it listens at: all that are given with the address of every interface."""
    texts = [*container.arguments, *container.environment.values()]
    return {int(text.rpartition(":")[2]) for text in texts if "0.0.0.0:" in text}


@cache
def as_user(user: int, group: int) -> tuple[str, ...]:
    """The words before a command that run it as that user without capabilities, as in the pod;
    none where the tests do not run as root, and so as a user without them already.

    An interpreter below a home that only root may enter is still to be read: then the process
    gets the capability to read everything. It may write no more than its user.
    """
    if os.geteuid() != 0:
        return ()
    switch = ("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs")
    # from within: setpriv itself still enters what its user could not
    again = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'import json'])"
    for kept in ("-all", "-all,+dac_read_search"):
        sets = (f"--inh-caps={kept}", f"--ambient-caps={kept}", f"--bounding-set={kept}")
        words = (*switch, *sets)
        tried = subprocess.run([*words, sys.executable, "-c", again], capture_output=True)
        if tried.returncode == 0:
            return words
    raise AssertionError(
        f"user {user} cannot run {sys.executable}: {tried.stderr.decode()}; take a Python that "
        "every user may read, by: make PYTHON=..."
    )


def _http_is_ok(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _grpc_is_serving(port: int) -> bool:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        try:
            answer = check(health_pb2.HealthCheckRequest(), timeout=2)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

"""Listeners: which addresses are taken, and what is said of the others."""

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import grpc.aio
import pytest

from gateway.config import Address, Tls
from gateway.server import GrpcServer, Listener, PublicServer
from tests.conftest import run
from tests.doubles.runtime import ScriptedRuntime
from tests.unit.service.making import make_call, make_send, make_service
from transports.grpc_client import GrpcClient


def make_server(address: Address, **fields: object) -> PublicServer:
    return PublicServer(make_service(), [Listener(address, **fields)])  # type: ignore[arg-type]


async def answers(target: str) -> bool:
    client = GrpcClient(target)
    try:
        return bool(
            (await client.unary("SendMessage", make_send(), make_call())).metadata is not None
        )
    finally:
        await client.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_opens_a_free_port(host: str) -> None:
    """S36: port 0 takes any; the real one is told, and stands in the card."""

    async def main() -> None:
        server = make_server(Address(host, 0))
        [address] = await server.start()
        assert address.port
        assert await answers(f"127.0.0.1:{address.port}")
        [entry] = server.interfaces()
        assert entry.protocol_binding == "GRPC"
        assert entry.url.endswith(f":{address.port}")
        assert "0.0.0.0" not in entry.url
        await server.stop(0)

    run(main())


def test_the_card_names_the_public_address() -> None:
    """AC01: what a proxy listens at stands in the card instead."""

    async def main() -> None:
        listeners = [Listener(Address("127.0.0.1", 0)), Listener(Address("127.0.0.1", 0))]
        server = PublicServer(make_service(), listeners, public_url="agents.example:443")
        assert len(await server.start()) == 2
        assert [entry.url for entry in server.interfaces()] == ["agents.example:443"]
        await server.stop(0)

    run(main())


def test_refuses_a_port_in_use() -> None:
    """GR12: the second server fails to start, and says which address is taken."""

    async def main() -> None:
        first = make_server(Address("127.0.0.1", 0))
        [address] = await first.start()
        for host in ("127.0.0.1", "localhost"):
            second = make_server(Address(host, address.port))
            with pytest.raises(OSError, match="in use") as caught:
                await second.start()
            assert caught.value.errno == errno.EADDRINUSE
            assert caught.value.filename == f"{host}:{address.port}"
            await second.stop(0)
        assert await answers(str(address))
        await first.stop(0)

    run(main())


def test_refuses_an_unknown_host() -> None:
    """The reason is the name, not gRPC's number."""
    with pytest.raises(OSError, match="is not known") as caught:
        run(make_server(Address("no.such.host.invalid", 1234)).start())
    assert caught.value.filename == "no.such.host.invalid:1234"


def test_opens_a_unix_socket_for_its_owner_alone(tmp_path: Path) -> None:
    """S36, R29: mode 0600, in a directory of mode 0700, made where it is missing."""
    path = tmp_path / "new" / "core.sock"

    async def main() -> None:
        server = make_server(Address(path=str(path)))
        await server.start()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert await answers(f"unix:{path}")
        assert not server.interfaces()
        await server.stop(0)

    run(main())


def test_the_mode_of_a_unix_socket_can_be_wider(tmp_path: Path) -> None:
    """Containers with other uids share a group."""
    path = tmp_path / "core.sock"

    async def main() -> None:
        server = make_server(Address(path=str(path)), mode=0o660)
        await server.start()
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        await server.stop(0)

    run(main())


def test_refuses_a_socket_that_answers(tmp_path: Path) -> None:
    """US01: the second server refuses, and when it is gone the first is still reachable."""
    address = Address(path=str(tmp_path / "core.sock"))

    async def main() -> None:
        first = make_server(address)
        await first.start()
        second = make_server(address)
        with pytest.raises(OSError, match="in use") as caught:
            await second.start()
        assert caught.value.filename == address.path
        await second.stop(0)
        assert await answers(str(address))
        await first.stop(0)

    run(main())


def test_replaces_what_a_killed_server_left(tmp_path: Path) -> None:
    """US04: kill -9, then the restart works without manual steps."""
    path = tmp_path / "core.sock"
    code = (
        "import socket, sys, time\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n"
        "print('ready', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    ) as left:
        assert left.stdout is not None
        assert left.stdout.readline()
        left.send_signal(signal.SIGKILL)
    assert path.is_socket()

    async def main() -> None:
        server = make_server(Address(path=str(path)))
        await server.start()
        assert await answers(f"unix:{path}")
        await server.stop(0)

    run(main())


def test_refuses_a_file_in_the_way(tmp_path: Path) -> None:
    """US04: what is no socket is never removed."""
    path = tmp_path / "core.sock"
    path.write_text("precious")
    with pytest.raises(OSError, match="no socket"):
        run(make_server(Address(path=str(path))).start())
    assert path.read_text() == "precious"


def test_says_so_where_a_stale_socket_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """US04: a leftover of another user gives a clear error."""
    path = tmp_path / "core.sock"
    with closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(path))

    def refuse(path: str) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(OSError, match="cannot be removed"):
        run(make_server(Address(path=str(path))).start())


def test_refuses_a_path_that_is_too_long(tmp_path: Path) -> None:
    """The system's limit, in words."""
    with pytest.raises(OSError, match="shorter"):
        run(make_server(Address(path=str(tmp_path / ("x" * 120)))).start())


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_refuses_certificates_that_cannot_be_used(tmp_path: Path, content: str | None) -> None:
    """R29: gRPC would start and refuse every client; here the start fails."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    if content is not None:
        certificate.write_text(content)
        key.write_text(content)
    with pytest.raises(OSError, match="TLS") as caught:
        run(make_server(Address("127.0.0.1", 0), tls=Tls(certificate=certificate, key=key)).start())
    assert caught.value.filename == str(certificate)


def test_a_server_without_a_door_of_its_own() -> None:
    """The link's server serves what it is given and nothing else."""

    async def main() -> None:
        added: list[grpc.aio.Server] = []
        server = GrpcServer((added.append,), [Listener(Address("127.0.0.1", 0))])
        [address] = await server.start()
        assert len(added) == 1
        with pytest.raises(Exception, match="Method not found"):
            await answers(str(address))
        await server.stop(0)
        await server.stop(0)

    run(main())


def test_stopping_before_the_start_does_nothing() -> None:
    """A start that failed is followed by a stop."""
    run(GrpcServer((), []).stop(0))
    assert ScriptedRuntime().readers == 0

"""The door's life: addresses, TLS, client certificates, Unix sockets, stop."""

import socket
import ssl
from pathlib import Path

import httpx
import pytest

from gateway.pb import GetTaskRequest, Task
from tests.conftest import run
from tests.doubles.certificates import Authority
from tests.doubles.core import FakeCore
from tests.unit.transports.http.serving import echo, served
from transports.http import Options, Tls
from transports.http.client import Binding, HttpClient
from transports.http.server import HttpTransport


def test_several_addresses_and_free_ports() -> None:
    """S3, R3: it returns what it opened, and the card's entries are usable as written."""

    async def main() -> None:
        door = HttpTransport(FakeCore(echo), Options(address=("127.0.0.1:0", "127.0.0.1:0")))
        assert door.interfaces() == []
        addresses = await door.start()
        assert addresses == door.addresses
        assert len({int(address.rpartition(":")[2]) for address in addresses} - {0}) == 2
        entries = door.interfaces()
        assert [entry.protocol_binding for entry in entries] == ["JSONRPC", "HTTP+JSON"] * 2
        assert {entry.protocol_version for entry in entries} == {"1.0"}
        for entry in entries:
            binding: Binding = "jsonrpc" if entry.protocol_binding == "JSONRPC" else "rest"
            async with HttpClient(entry.url, binding) as client:
                assert await client.unary("GetTask", GetTaskRequest(id="x")) == Task(id="x")
        await door.stop(0)
        await door.stop(0)

    run(main())


def test_what_the_card_says() -> None:
    """AC01: the public URL where there is one; a name instead of a wildcard."""

    async def main() -> None:
        for options, urls in [
            (
                Options(address=("127.0.0.1:0",), public_url="https://a.example/x/"),
                ["https://a.example/x/", "https://a.example/x"],
            ),
            (Options(address=("0.0.0.0:0",), path="/rpc"), None),
        ]:
            door = HttpTransport(FakeCore(echo), options)
            await door.start()
            found = [entry.url for entry in door.interfaces()]
            assert found == urls or (urls is None and "0.0.0.0" not in found[0])
            await door.stop(0)

    run(main())


def test_an_address_in_use() -> None:
    """GR12: the second one fails, and leaves nothing open."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            taken = door.door.addresses[0]
            other = HttpTransport(FakeCore(echo), Options(address=("127.0.0.1:0", taken)))
            with pytest.raises(OSError, match="in use"):
                await other.start()
            assert (await door.http.get("/health")).status_code == 200

    run(main())


@pytest.mark.parametrize("address", ["8080", "host", ":80", "127.0.0.1:99999", "unix:"])
def test_addresses_that_are_wrong(address: str) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match=r"port|host|path"):
            await HttpTransport(FakeCore(echo), Options(address=(address,))).start()

    run(main())


def test_a_unix_socket(tmp_path: Path) -> None:
    """US01, US04: a socket that answers is not taken over, one that nobody answers is; the file
    goes with the door."""

    async def main() -> None:
        path = tmp_path / "http.sock"
        options = Options(address=(f"unix:{path}",))
        door = HttpTransport(FakeCore(echo), options)
        assert await door.start() == (f"unix:{path}",)
        assert door.interfaces() == []
        async with HttpClient(f"unix:{path}") as client:
            assert await client.unary("GetTask", GetTaskRequest(id="x")) == Task(id="x")
            with pytest.raises(OSError, match="in use"):
                await HttpTransport(FakeCore(echo), options).start()
            assert await client.unary("GetTask", GetTaskRequest(id="y")) == Task(id="y")
        await door.stop(0)
        assert not path.exists()
        # left behind by a process that was killed
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        assert path.exists()
        door = HttpTransport(FakeCore(echo), options)
        await door.start()
        await door.stop(0)

    run(main())


def tls_client(authority: Authority, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.ca))
    if own:
        context.load_cert_chain(*own)
    return context


def test_tls_and_client_certificates(tmp_path: Path) -> None:
    """R29, R50: TLS 1.2 or later, HSTS; the client's certificate reaches the core as a fact of the
    peer."""

    async def main() -> None:
        authority = Authority(tmp_path)
        certificate, key = authority.issue("server")
        tls = Tls(certificate=certificate, key=key, client_ca=authority.ca, client_optional=True)
        core = FakeCore(echo)
        door = HttpTransport(core, Options(address=("127.0.0.1:0",), tls=tls))
        await door.start()
        url = door.interfaces()[0].url
        assert url.startswith("https://127.0.0.1:")
        own = authority.issue("client")
        for context in (tls_client(authority), tls_client(authority, own)):
            async with HttpClient(url, verify=context) as client:
                await client.unary("GetTask", GetTaskRequest(id="x"))
        assert core.calls[0][2].peer.certificate == ""
        shown = ssl.PEM_cert_to_DER_cert(core.calls[1][2].peer.certificate)
        assert shown == ssl.PEM_cert_to_DER_cert(own[0].read_text())
        old = tls_client(authority)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        old.minimum_version = ssl.TLSVersion.TLSv1_2
        async with httpx.AsyncClient(verify=old, trust_env=False) as http:
            response = await http.get(url + "health")
            assert response.status_code == 200
            assert response.headers["strict-transport-security"] == "max-age=31536000"
        await door.stop(0)

    run(main())


def test_a_client_without_the_certificate_that_is_demanded(tmp_path: Path) -> None:
    """R50: refused in the handshake, also with a certificate of another authority."""

    async def main() -> None:
        authority = Authority(tmp_path)
        certificate, key = authority.issue("server")
        tls = Tls(certificate=certificate, key=key, client_ca=authority.ca)
        door = HttpTransport(FakeCore(echo), Options(address=("127.0.0.1:0",), tls=tls))
        await door.start()
        url = door.interfaces()[0].url
        stranger = Authority(tmp_path, "other-ca").issue("stranger")
        for own in (None, stranger):
            async with httpx.AsyncClient(
                verify=tls_client(authority, own), trust_env=False
            ) as http:
                with pytest.raises(httpx.TransportError):
                    await http.get(url)
        async with HttpClient(
            url, verify=tls_client(authority, authority.issue("friend"))
        ) as client:
            assert await client.unary("GetTask", GetTaskRequest(id="x")) == Task(id="x")
        await door.stop(0)

    run(main())


def test_tls_files_that_cannot_be_used(tmp_path: Path) -> None:
    """The error names the cause."""

    async def main() -> None:
        tls = Tls(certificate=tmp_path / "no.pem", key=tmp_path / "no.key")
        with pytest.raises(ValueError, match=r"TLS files cannot be used: .*No such file.*no\.pem"):
            await HttpTransport(FakeCore(echo), Options(address=("127.0.0.1:0",), tls=tls)).start()

    run(main())

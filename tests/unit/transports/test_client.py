"""Choosing a wire by URL."""

import subprocess
import sys

import pytest

from tests.conftest import run
from transports.client import SCHEMES, UrlError, connect, schemes
from transports.grpc_connecting import parse


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("foo://host", "'foo://host' begins with no scheme that is known"),
        ("localhost:8080", "try http://localhost:8080"),
        ("example.org", "try http://example.org"),
        ("", "no scheme"),
        ("http://", "names no host"),
        ("http://[::1", "is no URL"),
        ("http://host:99999", "is no URL"),
        ("http://user:secret@host", "may hold no user or password"),
        ("http+unix:relative", "http+unix:/run/a2a.sock"),
        ("grpc://host", "grpc://HOST:PORT"),
        ("grpc://host:1/path", "grpc://HOST:PORT"),
        ("grpc://u:secret@host:1", "may hold no user or password"),
        ("grpcs:", "grpcs://HOST:PORT"),
        ("grpc:unix:", "grpc:unix:/PATH"),
        ("stdio:", "stdio:PROGRAM"),
    ],
)
def test_urls_that_lead_nowhere(url: str, words: str) -> None:
    """The error names what would do, and no secret."""
    with pytest.raises(UrlError) as caught:
        run(connect(url))
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_unknown_scheme_names_those_there_are() -> None:
    """Each of them, with its form."""
    with pytest.raises(UrlError) as caught:
        run(connect("foo:bar"))
    for scheme in SCHEMES:
        assert f"{scheme}:" in str(caught.value) or f"{scheme.replace('+', ':')}:" in str(
            caught.value
        )
    assert schemes()[: len(SCHEMES)] == list(SCHEMES)


@pytest.mark.parametrize(
    ("url", "address", "is_secure"),
    [
        ("grpc://host:1", "host:1", False),
        ("grpc://[::1]:1/", "[::1]:1", False),
        ("grpcs://host:1", "host:1", True),
        ("grpc:unix:/run/a.sock", "unix:/run/a.sock", False),
        ("grpc+unix:/run/a.sock", "unix:/run/a.sock", False),
        ("grpc+unix:///run/a.sock", "unix:/run/a.sock", False),
    ],
)
def test_addresses_of_grpc(url: str, address: str, is_secure: bool) -> None:
    """R59: as gRPC writes them."""
    assert parse(url) == (address, is_secure)


def test_importing_it_loads_no_wire() -> None:
    """A command pays for the wire that it uses."""
    code = (
        "import sys, transports.client\n"
        "heavy = {'httpx', 'grpc', 'uvicorn'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Connections to a program: `stdio:COMMAND`, such as `stdio:a2a-gateway stdio --agent demo`."""

import shlex
from functools import partial

from gateway.pb import AgentInterface
from transports.connection import Connection, Way
from transports.stdio import BINDING
from transports.stdio.client import StdioClient
from transports.wire import Client, Options, UrlError


async def directly(url: str, options: Options) -> Connection:
    """The program that the URL names, started with the first call. Raises `UrlError`."""
    words = parse(url)
    interface = AgentInterface(url=url, protocol_binding=BINDING, protocol_version="1.0")
    return Connection([Way(interface, partial(_open, words))], options)


def parse(url: str) -> list[str]:
    """The words of the command, as a shell would split it. Raises `UrlError`."""
    command = url.partition(":")[2]
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UrlError(f"the command {command!r} cannot be read: {error}") from None
    if not words:
        raise UrlError("stdio: names no program; write it as stdio:PROGRAM ARGUMENT...")
    return words


async def _open(words: list[str]) -> Client:
    return StdioClient(words)

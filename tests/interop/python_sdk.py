"""The SDK's Python client as the tests use it: connected by the card, to one binding."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import httpx
from a2a.client import A2ACardResolver, Client, ClientCallInterceptor, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
)

from tests.processes import Addresses

BINDINGS = ("GRPC", "JSONRPC", "HTTP+JSON")


async def read_card(addresses: Addresses) -> AgentCard:
    async with httpx.AsyncClient() as client:
        return await A2ACardResolver(client, addresses.http).get_agent_card()


@asynccontextmanager
async def connect(
    addresses: Addresses,
    binding: str,
    card: AgentCard | None = None,
    interceptors: list[ClientCallInterceptor] | None = None,
    **options: Any,
) -> AsyncIterator[Client]:
    """A client as the SDK's factory makes it, from the gateway's card where none is given."""
    config = ClientConfig(
        supported_protocol_bindings=[binding],
        grpc_channel_factory=grpc.aio.insecure_channel,
        **options,
    )
    factory = ClientFactory(config)
    card = card or await read_card(addresses)
    async with factory.create(card, interceptors) as client:
        yield client


def request(text: str, **fields: Any) -> SendMessageRequest:
    message = Message(
        message_id=uuid.uuid4().hex,
        role=Role.ROLE_USER,
        parts=[Part(text=text, media_type="text/plain")],
        **fields,
    )
    return SendMessageRequest(message=message)


def at_once(text: str) -> SendMessageRequest:
    made = request(text)
    made.configuration.CopyFrom(SendMessageConfiguration(return_immediately=True))
    return made


async def send(client: Client, made: SendMessageRequest) -> StreamResponse:
    """The only answer of a client that does not stream."""
    answers = [answer async for answer in client.send_message(made)]
    assert len(answers) == 1
    return answers[0]


def kinds(events: list[StreamResponse]) -> list[str]:
    return [str(event.WhichOneof("payload")) for event in events]


def texts(task: Task) -> list[str]:
    return [part.text for artifact in task.artifacts for part in artifact.parts]

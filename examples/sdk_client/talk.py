"""The SDK's own client, over the pipes of a program.

python examples/sdk_client/talk.py a2a-gateway stdio --agent demo
"""

import asyncio
import shlex
import sys

from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    Message,
    Part,
    Role,
    SendMessageRequest,
)

from transports.sdk_client import STDIO, register


async def main(command: list[str]) -> None:
    """Send one message and print what comes."""
    factory = ClientFactory(ClientConfig(supported_protocol_bindings=[STDIO]))
    register(factory)
    card = AgentCard(
        name="over pipes",
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[
            AgentInterface(
                url=f"stdio:{shlex.join(command)}",
                protocol_binding=STDIO,
                protocol_version="1.0",
            )
        ],
    )
    client = factory.create(card)
    try:
        message = Message(message_id="1", role=Role.ROLE_USER, parts=[Part(text="stream a b c")])
        async for event in client.send_message(SendMessageRequest(message=message)):
            for part in event.artifact_update.artifact.parts:
                print(part.text, end="", flush=True)
        print()
    finally:
        await client.close()


asyncio.run(main(sys.argv[1:] or ["a2a-gateway", "stdio", "--agent", "demo"]))

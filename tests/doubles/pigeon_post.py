"""What the package pigeon-post holds (`tests.doubles.pigeon`): doors that somebody else wrote."""

import asyncio
from collections.abc import Mapping
from typing import Any

from gateway.call import Call
from gateway.config import Address, section
from gateway.config.values import Addresses, Positive
from gateway.errors import FailureError
from gateway.pb import AgentInterface, Message, Part, Role, SendMessageRequest, TaskState
from transports.listening import listen_at

BINDING = "https://pigeon.example/v1"


@section
class Section:
    """The section `transports.carrier-pigeon`."""

    address: Addresses = ("127.0.0.1:0",)
    wings: Positive = 2


class CarrierPigeon:
    """Sends each line as a message; answers with the state of its task."""

    Options = Section

    def __init__(self, client: Any, options: Section):
        self._client = client
        self._address = options.address
        self._wings = options.wings
        self._server: asyncio.Server | None = None
        self._addresses: list[str] = []

    async def start(self) -> list[str]:
        """Listen."""
        sock = listen_at(Address.parse(self._address[0]))
        self._server = await asyncio.start_server(self._answer, sock=sock)
        host, port = sock.getsockname()[:2]
        self._addresses = [f"{host}:{port}"]
        return self._addresses

    def interfaces(self) -> list[AgentInterface]:
        """For the card."""
        return [
            AgentInterface(url=f"tcp://{a}", protocol_binding=BINDING, protocol_version="1.0")
            for a in self._addresses
        ]

    def reach(self, example: Any) -> list[tuple[str, str]]:
        """For the table."""
        return [(f"tcp://{a}", f"echo {example.text} | nc {a}") for a in self._addresses]

    async def stop(self, grace: float) -> None:
        """Close."""
        if self._server:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(f"{await self._send(line.decode().strip())} {self._wings}\n".encode())
        writer.close()

    async def _send(self, text: str) -> str:
        message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text=text)])
        call = Call.from_metadata([("a2a-version", "1.0")], door="carrier-pigeon")
        try:
            answer = await self._client.unary(
                "SendMessage", SendMessageRequest(message=message), call
            )
        except FailureError as error:
            return error.failure.row.reason
        return TaskState.Name(answer.message.task.status.state)


class HomingPigeon(CarrierPigeon):
    """The same, with a section of its own kind and no line to try it."""

    Options = None  # type: ignore[assignment]
    reach = None  # type: ignore[assignment]

    def __init__(self, client: Any, options: Mapping[str, Any]):
        if unknown := set(options) - {"address", "home"}:
            raise ValueError(f"a homing pigeon has no {', '.join(sorted(unknown))}; give its home")
        super().__init__(client, Section(address=tuple(options.get("address", ["127.0.0.1:0"]))))

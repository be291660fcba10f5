"""What a connection adds to the client of a wire."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from gateway.errors import FailureError
from gateway.pb import (
    AgentInterface,
    GetTaskRequest,
    Message,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    Task,
)
from tests.conftest import run
from tests.doubles.wire import Made, ScriptedClient, broken, failure, unreachable
from transports.connection import Connection, Way
from transports.wire import Client, ConnectError, Credentials, Options

SEND = SendMessageRequest(message=Message(message_id="m"))


def way(client: ScriptedClient, tenant: str = "", **fields: Any) -> Way:
    """One interface."""
    return Way(AgentInterface(url="u", tenant=tenant), client.opener(), **fields)


def answering(call: Made) -> Any:
    """Each call gets what it asks for."""
    return SendMessageResponse() if call.method == "SendMessage" else Task(id="t")


def failing(error: Exception) -> ScriptedClient:
    """A client whose calls all fail."""

    def fail(call: Made) -> Any:
        raise error

    return ScriptedClient([[error], [error]], fail)


def test_version_and_key() -> None:
    """S157, R10: each call names the version; each send has a key of its own, or the caller's;
    reads have none."""
    client = ScriptedClient([[(0, StreamResponse())]], answering)

    async def main() -> None:
        async with Connection(
            [way(client)], Options(metadata={"a2a-extensions": "urn:x"})
        ) as calls:
            await calls.unary("SendMessage", SEND)
            await calls.unary("SendMessage", SEND, {"idempotency-key": "mine"})
            await calls.unary("GetTask", GetTaskRequest(id="t"))
            async with aclosing(calls.stream("SendStreamingMessage", SEND)) as events:
                await anext(events)
        assert client.is_closed

    run(main())
    assert {call.metadata["a2a-version"] for call in client.calls} == {"1.0"}
    assert {call.metadata["a2a-extensions"] for call in client.calls} == {"urn:x"}
    first, second, read, stream = [call.metadata.get("idempotency-key") for call in client.calls]
    assert second == "mine"
    assert read is None
    assert first
    assert stream
    assert first != stream


@pytest.mark.parametrize(
    ("entry", "option", "own", "sent"),
    [("", "", "", ""), ("e", "", "", "e"), ("e", "o", "", "o"), ("e", "o", "r", "r")],
)
def test_tenant(entry: str, option: str, own: str, sent: str) -> None:
    """R5: the tenant of the entry in each request, unless the caller says otherwise; the caller's
    message is not touched."""
    client = ScriptedClient(on_unary=answering)
    request = GetTaskRequest(id="t", tenant=own)

    async def main() -> None:
        async with Connection([way(client, entry)], Options(tenant=option)) as calls:
            await calls.unary("GetTask", request)

    run(main())
    assert client.calls[0].request.tenant == sent
    assert request.tenant == own


def test_credentials_go_where_they_belong() -> None:
    """S160: an interface elsewhere gets none."""
    here, there = ScriptedClient(on_unary=answering), ScriptedClient(on_unary=answering)
    options = Options(credentials=Credentials(token="t", api_key="k"))

    async def main() -> None:
        for one in (way(here), way(there, has_credentials=False)):
            async with Connection([one], options) as calls:
                await calls.unary("GetTask", GetTaskRequest(id="t"))

    run(main())
    assert here.calls[0].metadata["authorization"] == "Bearer t"
    assert here.calls[0].metadata["x-api-key"] == "k"
    assert not {"authorization", "x-api-key"} & set(there.calls[0].metadata)


class TestFallback:
    """R6: the next entry where one cannot be reached."""

    def calls(self, *clients: ScriptedClient) -> Connection:
        return Connection([way(c, f"t{n}") for n, c in enumerate(clients)], Options(patience=0))

    def test_the_next_one(self) -> None:
        """R6: with its own tenant, and for good."""
        bad, good = failing(unreachable()), ScriptedClient(on_unary=answering)

        async def main() -> None:
            async with self.calls(bad, bad, good) as calls:
                await calls.unary("GetTask", GetTaskRequest(id="t"))
                await calls.unary("GetTask", GetTaskRequest(id="t"))
                assert calls.interface.tenant == "t2"

        run(main())
        assert len(bad.calls) == 2
        assert [call.request.tenant for call in good.calls] == ["t2", "t2"]

    def test_streams(self) -> None:
        """R6: the same for a stream that never began."""
        good = ScriptedClient([[(1, StreamResponse())]])

        async def main() -> list[int]:
            async with (
                self.calls(failing(unreachable()), good) as calls,
                aclosing(calls.stream("SendStreamingMessage", SEND)) as events,
            ):
                return [seq async for seq, _ in events]

        assert run(main()) == [1]

    def test_one_that_cannot_even_be_opened(self) -> None:
        """R6: a wire whose files are missing, say."""

        def opener() -> Callable[[], Awaitable[Client]]:
            async def open() -> Client:
                raise ConnectError("no such file")

            return open

        good = ScriptedClient(on_unary=answering)

        async def main() -> None:
            ways = [Way(AgentInterface(), opener()), way(good)]
            async with Connection(ways, Options()) as calls:
                await calls.unary("GetTask", GetTaskRequest(id="t"))

        run(main())
        assert len(good.calls) == 1

    @pytest.mark.parametrize("error", [broken(), failure("UNAUTHENTICATED")])
    def test_an_answer_is_an_answer(self, error: FailureError) -> None:
        """An interface that was reached is the one to talk to, whatever it says."""
        other = ScriptedClient(on_unary=answering)

        async def main() -> None:
            async with self.calls(failing(error), other) as calls:
                with pytest.raises(FailureError):
                    await calls.unary("SendMessage", SEND)

        run(main())
        assert not other.calls

    def test_the_last_one(self) -> None:
        """How it failed is told."""

        async def main() -> None:
            async with self.calls(failing(unreachable()), failing(unreachable())) as calls:
                with pytest.raises(FailureError, match="nobody listens"):
                    await calls.unary("GetTask", GetTaskRequest(id="t"))

        run(main())


class TestCredentials:
    """What may be sent, and that none of it shows."""

    def test_never_shown(self) -> None:
        """R30: neither alone nor as part of the options."""
        credentials = Credentials("sec-1", "sec-2", basic=None)
        shown = repr(Options(credentials=credentials)) + repr(Credentials(basic=("u", "sec-3")))
        assert "sec-" not in shown

    @pytest.mark.parametrize("value", ["a\nb", "a b\r", "ä", " a", "a\x00"])
    def test_what_no_header_can_hold(self, value: str) -> None:
        """The error does not hold it either."""
        for token, api_key in ((value, ""), ("", value)):
            with pytest.raises(ValueError, match="cannot be sent") as caught:
                Credentials(token, api_key)
            assert value not in str(caught.value)

    def test_basic(self) -> None:
        """RFC 7617: UTF-8."""
        assert Credentials(basic=("ä", "b:c")).to_metadata() == {"authorization": "Basic w6Q6Yjpj"}

    def test_names(self) -> None:
        """RFC 9110 s5.1, RFC 7617 s2."""
        with pytest.raises(ValueError, match="'X Key:' is no name"):
            Credentials(api_key="k", api_key_header="X Key:")
        with pytest.raises(ValueError, match="colon"):
            Credentials(basic=("a:b", "p"))

    def test_two_authorizations(self) -> None:
        """There is one header for both."""
        with pytest.raises(ValueError, match="one of them"):
            Credentials(token="t", basic=("u", "p"))

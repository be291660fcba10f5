"""The core's end against adapters that do not behave: raw frames on a real gRPC stream."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc.status_pb2 import Status

from gateway.call import Call
from gateway.errors import Code
from gateway.link.core_link import READS, is_end
from gateway.link.frames import FRAME_BYTES, WINDOW_BYTES, LinkError
from gateway.link.server import LinkLimits
from gateway.pb import GetTaskRequest, ProtoMessage, Task, link_pb2
from tests.conftest import run
from tests.doubles.certificates import Authority
from tests.doubles.link import (
    SECRET,
    Batch,
    addresses,
    call,
    core,
    event,
    request,
    stream_to,
    until,
)
from transports.core import CoreClient, LinkOptions


@pytest.fixture(params=["unix", "grpc"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """By what carries the link."""
    with addresses(request.param) as address:
        yield address


class Raw:
    """An adapter that says what the test wants."""

    def __init__(self, stream: Any):
        self.stream = stream
        self.waiting: list[link_pb2.Frame] = []

    async def say(self, *frames: link_pb2.Frame) -> None:
        await self.stream.write(link_pb2.Batch(frames=frames).SerializeToString())

    async def hello(self, **fields: Any) -> link_pb2.Frame:
        """Say hello; the answer."""
        said = {"versions": [1], "secret": SECRET, "window_bytes": WINDOW_BYTES, "door": "raw"}
        await self.say(link_pb2.Frame(hello=link_pb2.Hello(**{**said, **fields})))
        return await self.hear()

    async def hear(self, kind: str = "") -> link_pb2.Frame:
        """The next frame, of a kind."""
        while True:
            while self.waiting:
                frame = self.waiting.pop(0)
                if not kind or frame.WhichOneof("kind") == kind:
                    return frame
            batch = await self.stream.read()
            assert not is_end(batch), "the core ended the link"
            self.waiting += batch.frames

    async def is_over(self) -> bool:
        """Wait for the end of the link."""
        while not is_end(await self.stream.read()):
            pass
        return True

    async def open(self, call_id: int, method: str = "GetTask", **fields: Any) -> None:
        await self.say(link_pb2.Frame(call=call_id, open=link_pb2.Open(method=method, **fields)))


@asynccontextmanager
async def raw(address: str) -> AsyncIterator[Raw]:
    async with stream_to(address) as stream:
        yield Raw(stream)


async def wait_forever(request: Any, call: Call) -> ProtoMessage:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def code(frame: link_pb2.Frame) -> int:
    return int(Status.FromString(frame.end.status).code)


class TestHello:
    def test_welcome_says_what_holds(self, address: str) -> None:
        async def main() -> None:
            limits = LinkLimits(message_bytes=1000, calls_per_link=5, ping_interval=7)
            async with core(address, limits=limits) as fake, raw(address) as adapter:
                welcome = (await adapter.hello()).welcome
                assert welcome.version == 1
                assert welcome.frame_bytes == FRAME_BYTES
                assert (welcome.message_bytes, welcome.calls) == (1000, 5)
                assert welcome.ping_interval == 7
                assert list(welcome.credential_names) == ["x-api-key"]
                assert welcome.card.agent_card == fake.card.revision.agent_card
                assert welcome.readiness.ready

        run(main())

    @pytest.mark.parametrize(
        ("said", "reason", "can_retry"),
        [
            ({"secret": b""}, "secret", False),
            ({"secret": SECRET[:-1]}, "secret", False),
            ({"versions": []}, "no link version in common", False),
            ({"versions": [2, 9]}, "upgrade the older one", False),
            ({"window_bytes": 100}, "window_bytes is 100", False),
            ({"interfaces": [link_pb2.Interface(protocol_binding="X")]}, "needs a url", False),
        ],
    )
    def test_refusals_are_in_words(
        self, address: str, said: dict[str, Any], reason: str, can_retry: bool
    ) -> None:
        async def main() -> None:
            async with core(address) as fake, raw(address) as adapter:
                refusal = (await adapter.hello(**said)).refusal
                assert reason in refusal.reason
                assert refusal.retry == can_retry
                assert await adapter.is_over()
                assert fake.links.open_links == 0

        run(main())

    @pytest.mark.parametrize(
        "first",
        [
            [link_pb2.Frame(ping=link_pb2.Ping())],
            [link_pb2.Frame(call=1, open=link_pb2.Open(method="GetTask"))],
            [],
        ],
    )
    def test_before_hello_nothing_is_done(self, address: str, first: list[link_pb2.Frame]) -> None:
        async def main() -> None:
            async with core(address) as fake, raw(address) as adapter:
                await adapter.say(*first)
                assert "hello" in (await adapter.hear()).refusal.reason
                assert await adapter.is_over()
                assert fake.service.calls == []

        run(main())

    def test_an_adapter_that_says_nothing(self, address: str) -> None:
        async def main() -> None:
            limits = LinkLimits(hello_timeout=0.05)
            async with core(address, limits=limits), raw(address) as adapter:
                assert "no hello came" in (await adapter.hear()).refusal.reason

        run(main())

    def test_an_adapter_that_is_gone_again(
        self, address: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """One killed before its hello, whom no refusal reaches."""

        async def main() -> None:
            async with core(address):
                async with raw(address) as adapter:
                    adapter.stream.cancel()
                if address.startswith("unix:"):
                    await until(lambda: "hung up without a hello" in caplog.text)
                async with raw(address) as adapter:
                    assert (await adapter.hello()).welcome.version == 1

        run(main())
        gc.collect()
        assert "never retrieved" not in caplog.text


class TestRules:
    def test_a_broken_rule_ends_the_link_in_words(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, raw(address) as adapter:
                fake.service.on_unary = wait_forever
                await adapter.hello()
                await adapter.open(5)
                await adapter.open(5)
                refusal = (await adapter.hear("refusal")).refusal
                assert "call id 5 was used before" in refusal.reason
                adapter.stream.cancel()
                await until(lambda: fake.service.running == 0)

        run(main())

    def test_unknown_frames_are_skipped(self, address: str) -> None:
        """A frame of a later version does no harm unless it says that it is critical."""

        async def main() -> None:
            async with core(address), raw(address) as adapter:
                await adapter.hello()
                unknown = link_pb2.Frame.FromString(b"\x08\x05\xa2\x06\x01x")
                await adapter.say(unknown)
                await adapter.open(1, request=GetTaskRequest(id="t").SerializeToString())
                assert (await adapter.hear("end")).call == 1
                unknown.critical = True
                await adapter.say(unknown)
                assert "unknown kind" in (await adapter.hear("refusal")).refusal.reason

        run(main())

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"method": "Nope"}, Code.UNIMPLEMENTED),
            ({"request": b"\xff\xff"}, Code.INVALID_ARGUMENT),
            ({"metadata": ["last-event-id", "x"]}, Code.INVALID_ARGUMENT),
            ({"metadata": ["idempotency-key", "k" * 300]}, Code.INVALID_ARGUMENT),
            ({"method": "SubscribeToTask", "request": b"\xff"}, Code.INVALID_ARGUMENT),
        ],
    )
    def test_bad_calls_end_and_the_link_goes_on(
        self, address: str, fields: dict[str, Any], expected: Code
    ) -> None:
        async def main() -> None:
            async with core(address), raw(address) as adapter:
                await adapter.hello()
                await adapter.open(1, **{"method": "GetTask", **fields})
                assert code(await adapter.hear("end")) == expected
                await adapter.open(2, request=GetTaskRequest(id="t").SerializeToString())
                assert (await adapter.hear("end")).end.status == b""

        run(main())

    def test_no_byte_beyond_the_credit(self, address: str) -> None:
        """An adapter that returns no credit gets a window, and its other calls go on."""

        async def endless(request: Any, call: Call) -> AsyncIterator[Batch]:
            for n in range(1, 1000):
                yield [event(n, 10_000)]

        async def main() -> None:
            async with core(address) as fake, raw(address) as adapter:
                fake.service.on_stream = endless
                await adapter.hello()
                await adapter.open(1, "SubscribeToTask")
                got = 0
                while got < WINDOW_BYTES - 10_200:
                    got += sum(map(len, (await adapter.hear("events")).events.payloads))
                await adapter.open(2)
                assert (await adapter.hear("end")).call == 2
                assert got <= WINDOW_BYTES
                await adapter.say(link_pb2.Frame(call=1, cancel=link_pb2.Cancel()))
                await until(lambda: fake.service.running == 0)

        run(main())

    def test_large_answers_are_made_once_those_before_have_left(self, address: str) -> None:
        """ML02: many small reads do not fill the memory where their answers are not taken; calls
        of other kinds go on, and a read that is given up makes place for the next."""
        begun = 0

        async def large(request: Any, call: Call) -> ProtoMessage:
            nonlocal begun
            begun += isinstance(request, GetTaskRequest)
            return Task(id="t" * 2 * WINDOW_BYTES)

        async def main() -> None:
            async with core(address) as fake, raw(address) as adapter:
                fake.service.on_unary = large
                await adapter.hello()
                for number in range(1, READS + 11):
                    await adapter.open(number)
                await adapter.open(1000, "CancelTask")
                while (await adapter.hear("events")).call != 1000:
                    pass
                assert begun == READS
                await adapter.say(link_pb2.Frame(call=1, cancel=link_pb2.Cancel()))
                await until(lambda: begun == READS + 1)
                adapter.stream.cancel()
                await until(lambda: fake.service.running == 0)

        run(main())


class TestFrozen:
    def test_an_adapter_that_does_not_answer(
        self, address: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Its calls end, its doors leave the card."""

        async def main() -> None:
            limits = LinkLimits(ping_interval=0.05)
            async with core(address, limits=limits) as fake, raw(address) as adapter:
                fake.service.on_unary = wait_forever
                await adapter.hello(
                    interfaces=[link_pb2.Interface(url="http://a", protocol_binding="X")]
                )
                await adapter.open(1)
                await until(lambda: fake.service.running == 1)
                assert fake.interfaces["link-1"]
                await until(lambda: fake.links.open_links == 0)
                assert fake.interfaces["link-1"] == []
                await until(lambda: fake.service.running == 0)

        with caplog.at_level(logging.INFO):
            run(main())
        assert "does not answer" in caplog.text

    def test_any_frame_shows_life(self, address: str) -> None:
        async def main() -> None:
            limits = LinkLimits(ping_interval=0.05)
            async with core(address, limits=limits) as fake, raw(address) as adapter:
                await adapter.hello()
                for number in range(5):
                    ping = await adapter.hear("ping")
                    await adapter.say(link_pb2.Frame(pong=ping.ping))
                    await adapter.say(link_pb2.Frame(ping=link_pb2.Ping(nonce=number)))
                    assert (await adapter.hear("pong")).pong.nonce == number
                assert fake.links.open_links == 1

        run(main())


class TestStop:
    def test_goaway_comes_first(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, raw(address) as adapter:
                fake.service.on_unary = wait_forever
                await adapter.hello()
                await adapter.open(1)
                await until(lambda: fake.service.running == 1)
                stop = asyncio.create_task(fake.links.stop(0.05))
                assert "stopping" in (await adapter.hear("goaway")).goaway.reason
                assert "stopping" in (await adapter.hear("refusal")).refusal.reason
                adapter.stream.cancel()
                await stop

        run(main())

    def test_an_adapter_that_does_not_hang_up(self, address: str) -> None:
        async def main() -> None:
            limits = LinkLimits(close_timeout=0.05)
            async with core(address, limits=limits) as fake, raw(address) as adapter:
                await adapter.hello()
                await fake.links.stop(20)
                assert await adapter.is_over()

        run(main())

    def test_the_last_answers_still_leave(self, address: str) -> None:
        go = asyncio.Event()

        async def wait(request: Any, call: Call) -> ProtoMessage:
            await go.wait()
            return request  # type: ignore[no-any-return]

        async def main() -> None:
            async with core(address) as fake, raw(address) as adapter:
                fake.service.on_unary = wait
                await adapter.hello()
                data = GetTaskRequest(id="t" * 500_000).SerializeToString()
                await adapter.open(1, request_bytes=len(data))
                pieces = [data[at : at + 60_000] for at in range(0, len(data), 60_000)]
                for piece in pieces:
                    more = piece is not pieces[-1]
                    events = link_pb2.Events(sequences=[0], payloads=[piece], more=more)
                    await adapter.say(link_pb2.Frame(call=1, events=events))
                await until(lambda: fake.service.running == 1)
                stop = asyncio.create_task(fake.links.stop(20))
                await adapter.hear("goaway")
                go.set()
                got = b""
                while len(got) < len(data):
                    piece = (await adapter.hear("events")).events.payloads[0]
                    got += piece
                    credit = link_pb2.Credit(bytes=len(piece))
                    await adapter.say(link_pb2.Frame(call=1, credit=credit))
                assert (await adapter.hear("end")).end.status == b""
                assert got == data
                adapter.stream.cancel()
                await stop

        run(main())


class TestCertificates:
    def test_a_client_certificate_stands_for_the_secret(self, tmp_path: Path) -> None:
        """Between hosts: TCP with certificates on both sides."""
        ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
        certificate, key = (path.read_bytes() for path in ours.issue("core"))

        async def main() -> None:
            async with core("127.0.0.1:0", secret=b"") as fake:
                server = grpc.aio.server()
                fake.links.add_to(server)
                credentials = grpc.ssl_server_credentials(
                    [(key, certificate)], ours.ca.read_bytes(), require_client_auth=True
                )
                port = server.add_secure_port("127.0.0.1:0", credentials)
                await server.start()
                place = f"127.0.0.1:{port}"
                adapter = CoreClient(place, door="test", credentials=identity(ours, ours))
                await adapter.start()
                await adapter.unary("SendMessage", request(), call())
                await adapter.stop(1)
                stranger = CoreClient(
                    place,
                    door="test",
                    credentials=identity(ours, theirs),
                    options=LinkOptions(start_timeout=0.2),
                )
                with pytest.raises(LinkError, match="cannot reach"):
                    await stranger.start()
                await server.stop(0)

        run(main())


def identity(trusted: Authority, issuer: Authority) -> grpc.ChannelCredentials:
    certificate, key = (path.read_bytes() for path in issuer.issue("adapter"))
    return grpc.ssl_channel_credentials(trusted.ca.read_bytes(), key, certificate)

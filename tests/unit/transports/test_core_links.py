"""Links that come, break, freeze and go away, and what their calls notice."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from gateway.call import Call
from gateway.errors import FailureError
from gateway.link.core_link import is_end
from gateway.link.frames import (
    LinkError,
    LinkRefusedError,
    link_frame,
)
from gateway.link.server import LinkLimits
from gateway.pb import (
    AgentInterface,
    CancelTaskRequest,
    GetTaskRequest,
    ProtoMessage,
    SendMessageResponse,
    SubscribeToTaskRequest,
    Task,
    link_pb2,
)
from tests.conftest import run
from tests.doubles.link import (
    SECRET,
    Batch,
    FakeCore,
    addresses,
    call,
    client,
    core,
    count,
    event,
    request,
    serving,
    until,
)
from transports.core import CoreClient, LinkOptions

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(params=["unix", "grpc"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """By what carries the link."""
    with addresses(request.param) as address:
        yield address


class Broken:
    """A core whose first run of each call is cut, with the link, and whose second is answered."""

    def __init__(self, fake: FakeCore):
        self.fake = fake
        self.runs = 0
        self.has_read = asyncio.Event()
        """The reader of the stream has the first three events."""
        fake.service.on_unary = self.run
        fake.service.on_stream = self.events

    async def cut(self) -> None:
        self.runs += 1
        if self.runs == 1:
            for link in tuple(self.fake.links._links.values()):
                link._finish("cut by the test")
            await asyncio.Event().wait()

    async def run(self, request: Any, call: Call) -> ProtoMessage:
        await self.cut()
        return Task(id="t") if isinstance(request, GetTaskRequest) else SendMessageResponse()

    async def events(self, request: Any, call: Call) -> AsyncIterator[Batch]:
        async for batch in count(3, after=call.cursor or 0):
            yield batch
        await self.has_read.wait()
        await self.cut()
        async for batch in count(6, after=max(3, call.cursor or 0)):
            yield batch


class TestBroken:
    @pytest.mark.parametrize(
        ("method", "message"),
        [("SendMessage", request()), ("CancelTask", CancelTaskRequest(id="t"))],
    )
    def test_what_changes_something_is_not_repeated(
        self, address: str, method: str, message: ProtoMessage
    ) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                broken = Broken(fake)
                with pytest.raises(FailureError, match="outcome unknown") as raised:
                    await adapter.unary(method, message, call())
                assert raised.value.failure.row.reason == "UNAVAILABLE"
                assert broken.runs == 1

        run(main())

    def test_reads_are_repeated(self, address: str) -> None:
        """Without a restart of the adapter, and without the caller noticing."""

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                broken = Broken(fake)
                answer = await adapter.unary("GetTask", GetTaskRequest(id="t"), call())
                assert answer.message == Task(id="t")
                assert broken.runs == 2

        run(main())

    def test_a_send_with_a_key_is_repeated(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                broken = Broken(fake)
                await adapter.unary("SendMessage", request(), call(idempotency_key="k"))
                assert broken.runs == 2
                assert [c.idempotency_key for _, _, c in fake.service.calls] == ["k", "k"]

        run(main())

    def test_reads_are_repeated_once(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                broken = Broken(fake)

                async def always(request: Any, call: Call) -> ProtoMessage:
                    broken.runs = 0
                    await broken.cut()
                    raise AssertionError("unreachable")

                fake.service.on_unary = always
                with pytest.raises(FailureError, match="The link to the core broke; try again"):
                    await adapter.unary("GetTask", GetTaskRequest(id="t"), call())
                assert len(fake.service.calls) == 2

        run(main())

    @pytest.mark.parametrize(
        ("method", "message", "given"),
        [
            ("SubscribeToTask", SubscribeToTaskRequest(id="t"), call()),
            ("SendStreamingMessage", request(), call(idempotency_key="k")),
        ],
    )
    def test_streams_go_on_after_their_last_event(
        self, address: str, method: str, message: ProtoMessage, given: Call
    ) -> None:
        """S70, S71: nothing is lost and nothing comes twice."""

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                broken = Broken(fake)
                events: Batch = []
                async for batch in adapter.stream(method, message, given):
                    events += batch
                    if len(events) == 3:
                        broken.has_read.set()
                assert events == [event(n) for n in range(1, 7)]
                assert [c.cursor for _, _, c in fake.service.calls] == [None, 3]

        run(main())

    def test_a_streaming_send_without_a_key_is_not_repeated(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                broken = Broken(fake)
                stream = adapter.stream("SendStreamingMessage", request(), call())
                seen: list[int] = []

                async def read() -> None:
                    async for batch in stream:
                        seen.extend(number for number, _ in batch)
                        broken.has_read.set()

                with pytest.raises(FailureError, match="SubscribeToTask") as raised:
                    await read()
                assert raised.value.failure.row.reason == "UNAVAILABLE"
                assert seen == [1, 2, 3][: len(seen)]
                assert len(fake.service.calls) == 1

        run(main())

    def test_a_stream_that_finds_no_other_core(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address, resume_timeout=0.1) as adapter:
                Broken(fake)
                stream = adapter.stream("SubscribeToTask", request(), call())
                await anext(stream)
                await fake.kill()

                async def read() -> None:
                    async for _ in stream:
                        pass

                with pytest.raises(FailureError, match="go on with SubscribeToTask"):
                    await read()
                with pytest.raises(StopAsyncIteration):
                    await anext(stream)

        run(main())

    def test_events_without_a_number_have_no_place_to_go_on_from(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                broken = Broken(fake)

                async def one(request: Any, call: Call) -> AsyncIterator[Batch]:
                    yield [(0, event(1)[1])]
                    await broken.cut()

                fake.service.on_stream = one
                stream = adapter.stream("SubscribeToTask", request(), call())
                await anext(stream)
                with pytest.raises(FailureError, match="broke"):
                    await anext(stream)

        run(main())

    def test_calls_that_never_left_run_on_the_next_link(self, address: str) -> None:
        """Even those that must not be repeated: the core has not seen them."""

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                assert adapter._link is not None
                adapter._link.end.out._wake = lambda: None
                task = asyncio.create_task(adapter.unary("SendMessage", request(), call()))
                stream = adapter.stream("SendStreamingMessage", request(), call())
                events = asyncio.create_task(anext(stream))
                await asyncio.sleep(0)
                assert adapter.open_calls == 2
                adapter._link.close("cut by the test")
                assert (await task).message == SendMessageResponse(message=request().message)
                assert (await events)[0] == event(1)
                await stream.aclose()
                assert len(fake.service.calls) == 2

        run(main())

    def test_new_calls_wait_for_the_next_link(self, address: str) -> None:
        """SH07: works again without a restart of the adapter."""

        async def main() -> None:
            async with core(address) as fake, client(address, wait_timeout=20) as adapter:
                await fake.kill()
                await until(lambda: not adapter.is_ready)
                tasks = [
                    asyncio.create_task(adapter.unary("SendMessage", request(), call()))
                    for _ in range(5)
                ]
                await asyncio.sleep(0)
                assert not any(task.done() for task in tasks)
                await fake.start()
                await asyncio.gather(*tasks)
                assert adapter.is_ready

        run(main())

    def test_waiting_calls_shorten_the_wait_for_the_next_attempt(self, address: str) -> None:
        async def main() -> None:
            async with (
                core(address) as fake,
                client(address, min_delay=60, max_delay=60, wait_timeout=20) as adapter,
            ):
                await fake.kill()
                await until(lambda: not adapter.is_ready)
                await asyncio.sleep(adapter.options.wanted_delay * 2)
                await fake.start()
                await adapter.unary("SendMessage", request(), call())

        run(main())

    def test_the_core_forgets_calls_and_doors_of_a_lost_link(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake:
                fake.service.on_stream = lambda request, call: count(10**9)
                async with client(address) as adapter:
                    entry = AgentInterface(url="http://a", protocol_binding="JSONRPC")
                    adapter.set_interfaces([entry])
                    await until(lambda: list(fake.interfaces.values()) == [[entry]])
                    stream = adapter.stream("SubscribeToTask", request(), call())
                    await anext(stream)
                    assert fake.links.open_calls == 1
                    await adapter.stop(0)
                await until(lambda: fake.links.open_calls == 0)
                await until(lambda: list(fake.interfaces.values()) == [[]])
                await until(lambda: fake.service.running == 0)

        run(main())

    def test_a_link_that_breaks_under_load_leaks_nothing(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_stream = lambda request, call: count(
                    400, after=call.cursor or 0, size=3000
                )
                ended = {"ok": 0, "UNAVAILABLE": 0}

                async def caller() -> None:
                    for _ in range(30):
                        try:
                            await adapter.unary("SendMessage", request("x" * 50_000), call())
                            ended["ok"] += 1
                        except FailureError as error:
                            ended[error.failure.row.reason] += 1

                async def reader() -> None:
                    stream = adapter.stream("SubscribeToTask", request(), call())
                    numbers = [n async for batch in stream for n, _ in batch]
                    assert numbers == list(range(1, 401))

                async def breaker() -> None:
                    for _ in range(4):
                        await until(lambda: adapter.is_ready)
                        await asyncio.sleep(0.02)
                        if adapter._link is not None:
                            adapter._link.close("cut by the test")

                await asyncio.gather(
                    *(caller() for _ in range(8)), *(reader() for _ in range(4)), breaker()
                )
                assert sum(ended.values()) == 240
                assert ended["ok"]

        run(main())


class TestGoAway:
    def test_running_calls_finish(self, address: str) -> None:
        go = asyncio.Event()

        async def wait(request: Any, call: Call) -> ProtoMessage:
            await go.wait()
            return SendMessageResponse(message=request.message)

        async def main() -> None:
            async with core(address) as fake, client(address, wait_timeout=0.1) as adapter:
                fake.service.on_unary = wait
                running = asyncio.create_task(adapter.unary("SendMessage", request(), call()))
                await until(lambda: fake.service.running == 1)
                stop = asyncio.create_task(fake.links.stop(20))
                await until(lambda: not adapter.is_ready)
                with pytest.raises(FailureError, match="nothing was done"):
                    await adapter.unary("SendMessage", request(), call())
                go.set()
                await running
                await stop
                assert fake.links.open_links == 0

        run(main())

    def test_what_outlasts_the_grace_is_cut(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address, wait_timeout=0.1) as adapter:
                fake.service.on_unary = Broken(fake).run
                fake.service.on_unary = wait_forever
                running = asyncio.create_task(adapter.unary("SendMessage", request(), call()))
                await until(lambda: fake.service.running == 1)
                await fake.links.stop(0.05)
                with pytest.raises(FailureError, match="outcome unknown"):
                    await running

        run(main())

    def test_streams_move_to_another_core(self, address: str) -> None:
        """The stream of a core that leaves goes on at the next, after its last event."""

        async def some(request: Any, call: Call) -> AsyncIterator[Batch]:
            async for batch in count(3):
                yield batch
            await asyncio.Event().wait()

        async def main() -> None:
            async with core(address) as old, client(address, wait_timeout=20) as adapter:
                old.service.on_stream = some
                stream = adapter.stream("SubscribeToTask", request(), call())
                seen: list[int] = []
                while len(seen) < 3:
                    seen += [n for n, _ in await anext(stream)]
                async with core(address) as new:
                    new.service.on_stream = lambda request, call: count(6, after=call.cursor or 0)
                    stop = asyncio.create_task(old.links.stop(20))
                    seen += [n async for batch in stream for n, _ in batch]
                    await stop
                    assert seen == [1, 2, 3, 4, 5, 6]
                    assert old.service.running == 0
                    await adapter.stop(1)

        run(main())

    def test_a_core_that_stops_takes_no_links(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake:
                await fake.links.stop(0)
                adapter = CoreClient(
                    address, door="test", secret=SECRET, options=LinkOptions(start_timeout=0.2)
                )
                with pytest.raises(LinkError, match="the core is stopping"):
                    await adapter.start()

        run(main())


async def wait_forever(request: Any, call: Call) -> ProtoMessage:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


@asynccontextmanager
async def mute_core(address: str, ping_interval: float) -> AsyncIterator[list[link_pb2.Batch]]:
    """Welcomes a link and says nothing more; gives what it hears."""
    heard: list[link_pb2.Batch] = []

    async def serve(stream: Any) -> None:
        await stream.read()
        batch, frame = link_frame()
        frame.welcome.version = 1
        frame.welcome.window_bytes = 262144
        frame.welcome.calls = 10
        frame.welcome.message_bytes = 1000
        frame.welcome.ping_interval = ping_interval
        await stream.write(batch.SerializeToString())
        while not is_end(batch := await stream.read()):
            heard.append(batch)

    async with serving(address, serve):
        yield heard


class TestFrozen:
    def test_calls_of_a_core_that_says_nothing_end(self, address: str) -> None:
        """No caller waits past two missed pings without an answer."""

        async def main() -> None:
            async with mute_core(address, 0.05) as heard, client(address) as adapter:
                with pytest.raises(FailureError, match="outcome unknown"):
                    await adapter.unary("SendMessage", request(), call())
                kinds = [f.WhichOneof("kind") for batch in heard for f in batch.frames]
                assert kinds.count("ping") >= 2

        run(main())

    def test_a_late_deadline_is_answered_here(self, address: str) -> None:
        """A second after the deadline, whatever the core does; and the core is told."""

        async def main() -> None:
            async with (
                mute_core(address, 20) as heard,
                client(address, answer_slack=0.05) as adapter,
            ):
                with pytest.raises(FailureError) as raised:
                    await adapter.unary("SendMessage", request(), call(timeout=0.05))
                assert raised.value.failure.row.reason == "DEADLINE_EXCEEDED"
                stream = adapter.stream("SubscribeToTask", request(), call(timeout=0.05))
                with pytest.raises(FailureError) as raised:
                    await anext(stream)
                assert raised.value.failure.row.reason == "DEADLINE_EXCEEDED"
                await until(
                    lambda: (
                        [f.WhichOneof("kind") for b in heard for f in b.frames].count("cancel") == 2
                    )
                )

        run(main())

    def test_a_stopped_process(self, address: str) -> None:
        """SIGSTOP: calls end; SIGCONT: it works again."""

        async def main() -> None:
            process = await asyncio.to_thread(start_core, address)
            try:
                async with client(address, ping_interval=0.1, hello_timeout=0.5) as adapter:
                    await adapter.unary("SendMessage", request(), call())
                    process.send_signal(signal.SIGSTOP)
                    with pytest.raises(FailureError, match="outcome unknown"):
                        await adapter.unary("SendMessage", request(), call())
                    process.send_signal(signal.SIGCONT)
                    await until(lambda: adapter.is_ready)
                    await adapter.unary("SendMessage", request(), call())
            finally:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
                assert process.stdout is not None
                process.stdout.close()

        run(main())

    def test_a_core_that_was_killed(self, address: str) -> None:
        """kill -9: calls end at once, and go on with the next core."""

        async def main() -> None:
            process = await asyncio.to_thread(start_core, address)
            async with client(address, wait_timeout=20) as adapter:
                stream = adapter.stream("SubscribeToTask", request(), call())
                await anext(stream)
                process.kill()
                process.wait()
                assert process.stdout is not None
                process.stdout.close()
                async with core(address) as fake:
                    await adapter.unary("SendMessage", request(), call(idempotency_key="k"))
                    assert "SendMessage" in [method for method, _, _ in fake.service.calls]
                    await stream.aclose()
                    await adapter.stop(1)

        run(main())


def start_core(address: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.doubles.link", address],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


class TestStart:
    def test_wrong_secret_is_refused_in_words(self, address: str) -> None:
        async def main() -> None:
            async with core(address):
                adapter = CoreClient(address, door="test", secret=b"wrong")
                with pytest.raises(LinkRefusedError, match="the secret is not this core's"):
                    await adapter.start()
                assert not adapter.is_ready

        run(main())

    def test_no_version_in_common(self, address: str) -> None:
        async def main() -> None:
            async with core(address):
                options = LinkOptions(versions=(7, 8))
                adapter = CoreClient(address, door="test", secret=SECRET, options=options)
                with pytest.raises(LinkRefusedError, match=r"core speaks 1, the adapter 7, 8"):
                    await adapter.start()

        run(main())

    @pytest.mark.parametrize(("ours", "theirs"), [((1, 2), (1,)), ((1,), (1, 2))])
    def test_neighbouring_versions_work_together(
        self, address: str, ours: tuple[int, ...], theirs: tuple[int, ...]
    ) -> None:
        async def main() -> None:
            async with (
                core(address, versions=ours),
                client(address, versions=theirs) as adapter,
            ):
                await adapter.unary("SendMessage", request(), call())

        run(main())

    def test_no_core(self, address: str) -> None:
        async def main() -> None:
            options = LinkOptions(start_timeout=0.1)
            adapter = CoreClient(address, door="test", options=options)
            with pytest.raises(LinkError, match="cannot reach the core at "):
                await adapter.start()
            assert "cannot reach" in adapter.reason

        run(main())

    def test_a_core_that_comes_later(self, address: str) -> None:
        async def main() -> None:
            adapter = CoreClient(address, door="test", secret=SECRET)
            start = asyncio.create_task(adapter.start())
            await until(lambda: bool(adapter.reason))
            async with core(address):
                await start
                assert adapter.is_ready
                await adapter.stop(1)

        run(main())

    def test_something_else_listens_there(self, address: str) -> None:
        async def main() -> None:
            server = grpc.aio.server()
            server.add_insecure_port(address)
            await server.start()
            options = LinkOptions(start_timeout=0.2)
            adapter = CoreClient(address, door="test", options=options)
            with pytest.raises(LinkError, match=r"cannot reach|no batch"):
                await adapter.start()
            await server.stop(0)

        run(main())

    def test_tcp_needs_a_secret_or_a_certificate(self) -> None:
        async def main() -> None:
            async with core("127.0.0.1:0", secret=b"") as fake:
                adapter = CoreClient(fake.address, door="test")
                with pytest.raises(LinkRefusedError, match="no secret"):
                    await adapter.start()

        run(main())

    def test_tcp_with_a_secret(self) -> None:
        async def main() -> None:
            async with core("127.0.0.1:0") as fake, client(fake.address) as adapter:
                await adapter.unary("SendMessage", request(), call())

        run(main())

    def test_a_unix_socket_proves_who_is_there(self) -> None:
        async def main(address: str) -> None:
            async with core(address, secret=b""), client(address, secret=b"") as adapter:
                await adapter.unary("SendMessage", request(), call())

        with addresses("unix") as address:
            run(main(address))


class TestControl:
    def test_card_and_its_revisions(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                assert adapter.card == (1, fake.card.revision.agent_card, 1.5)
                fake.card.change("two")
                await until(lambda: adapter.card is not None and adapter.card.revision == 2)
                assert adapter.card == (2, fake.card.revision.agent_card, 2.5)

        run(main())

    def test_limits_and_credential_names(self, address: str) -> None:
        async def main() -> None:
            limits = LinkLimits(message_bytes=12345, calls_per_link=7)
            async with core(address, limits=limits), client(address) as adapter:
                assert adapter.limits.message_bytes == 12345
                assert adapter.limits.calls == 7
                assert adapter.credential_names == ("x-api-key",)

        run(main())

    def test_readiness(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.links.set_ready(False, "the store is away")
                await until(lambda: not adapter.is_ready)
                assert adapter.reason == "the store is away"
                async with client(address) as second:
                    assert not second.is_ready
                fake.links.set_ready(True)
                await until(lambda: adapter.is_ready)

        run(main())

    def test_addresses_reach_the_card_at_every_link(self, address: str) -> None:
        """R3: the card names what is really open."""
        entry = AgentInterface(
            url="http://a", protocol_binding="JSONRPC", tenant="t", protocol_version="1.0"
        )

        async def main() -> None:
            async with core(address) as fake, client(address, wait_timeout=20) as adapter:
                adapter.set_interfaces([entry])
                await until(lambda: fake.interfaces.get("link-1") == [entry])
                assert adapter._link is not None
                adapter._link.close("cut by the test")
                await until(lambda: fake.interfaces.get("link-2") == [entry])
                await until(lambda: fake.interfaces["link-1"] == [])

        run(main())

    def test_an_address_that_cannot_stand_in_a_card(
        self, address: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def main() -> None:
            async with core(address), client(address) as adapter:
                adapter.set_interfaces([AgentInterface(protocol_binding="JSONRPC")])
                await until(lambda: "an interface needs a url" in adapter.reason)
                adapter.set_interfaces([])
                await until(lambda: adapter.is_ready)

        run(main())

    def test_round_trips_are_measured_at_both_ends(self, address: str) -> None:
        async def main() -> None:
            core_pings: list[float] = []
            pings: list[float] = []
            limits = LinkLimits(ping_interval=0.02)
            async with core(address, limits=limits, on_ping=core_pings.append):
                adapter = CoreClient(address, door="test", secret=SECRET, on_ping=pings.append)
                await adapter.start()
                await until(lambda: len(pings) > 1 and len(core_pings) > 1)
                assert all(0 < seconds < 5 for seconds in pings + core_pings)
                await adapter.stop(1)

        run(main())

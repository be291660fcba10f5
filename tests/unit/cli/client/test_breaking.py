"""What breaks, and what a user interrupts: real processes, connections that are cut."""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from gateway.pb import Message, Part, Role, SendMessageRequest, TaskState
from tests.conftest import run
from tests.doubles.certificates import Authority
from tests.doubles.proxy import after_events, proxy
from tests.doubles.web import Asked, Said, silent, web
from tests.processes import core_of, gateway
from tests.unit.cli.client.conftest import AGENT, Place
from tests.unit.cli.client.running import Done, finish, homes, invoke, start
from transports.client import Options, connect

Command = Callable[..., Done]


async def command_in_thread(*arguments: str, folder: Path) -> Done:
    """Run a command beside the servers of this loop."""
    process = start(*arguments, folder=folder)
    return await asyncio.to_thread(finish, process)


def words(text: str) -> SendMessageRequest:
    """A message of this text."""
    message = Message(message_id="m1", role=Role.ROLE_USER, parts=[Part(text=text)])
    return SendMessageRequest(message=message)


class TestBrokenStreams:
    """A stream that breaks goes on by itself."""

    @pytest.mark.parametrize("scheme", ["http+jsonrpc", "http+rest"])
    def test_every_event_once(self, place: Place, scheme: str) -> None:
        """S71, S72, S162: cut four times in its middle, in the middle of an event; numbers grow by
        one from the first to the last."""

        async def main() -> tuple[list[int], int, int]:
            target = place.http.partition("://")[2]
            told: list[Any] = []
            async with proxy(target, after_events(3, cuts=4)) as between:
                options = Options(told=lambda *about: told.append(about))
                async with await connect(f"{scheme}://{between.address}", options) as calls:
                    stream = calls.stream("SendStreamingMessage", words("slow 20 20"))
                    async with aclosing(stream) as events:
                        found = [(seq, response) async for seq, response in events]
                assert found[-1][1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
                return [seq for seq, _ in found], between.cuts, len(told)

        numbers, cuts, told = run(main())
        assert cuts == told == 4
        assert numbers == list(range(1, 24))

    def test_the_command(self, place: Place, tmp_path: Path) -> None:
        """The text is whole, and each cut is told on stderr."""

        async def main() -> Done:
            target = place.http.partition("://")[2]
            async with proxy(target, after_events(4, cuts=2)) as between:
                url = f"http+jsonrpc://{between.address}"
                return await command_in_thread("stream", url, "slow 15 20", folder=tmp_path)

        done = run(main())
        assert done.code == 0
        assert done.out == "".join(f"chunk {n} " for n in range(15)) + "\n"
        assert done.err.count("trying again") == 2

    def test_over_grpc(self, place: Place, tmp_path: Path) -> None:
        """S162: without numbers the whole task comes again; its text is printed once."""
        chunk = b"chunk "
        left = 3

        def cut(seen: bytes) -> int | None:
            nonlocal left
            if not left or seen.count(chunk) < 4:
                return None
            left -= 1
            return seen.rindex(chunk)

        async def main() -> tuple[Done, int]:
            async with proxy(place.grpc, cut) as between:
                url = f"grpc://{between.address}"
                done = await command_in_thread("stream", url, "slow 20 40", folder=tmp_path)
                return done, between.cuts

        done, cuts = run(main())
        assert (done.code, cuts) == (0, 3)
        assert done.out == "".join(f"chunk {n} " for n in range(20)) + "\n"

    def test_a_core_that_restarts(self, tmp_path: Path) -> None:
        """SH07: kill -9 of the core in a stream over stdio and HTTP: the task is ended by the
        next core, and the client says so instead of hanging."""

        async def main() -> list[Done]:
            with gateway(AGENT, tmp_path / "gateway") as server:
                place = Place(server, tmp_path / "gateway")
                running = [
                    start("stream", place.url(wire), "slow 4000 25", folder=tmp_path)
                    for wire in ("card", "stdio", "grpc")
                ]
                for process in running:
                    await asyncio.to_thread(read_until, process, "chunk 2")
                core = core_of(server.process.pid)
                assert core is not None
                os.kill(core, signal.SIGKILL)
                return [await asyncio.to_thread(finish, process) for process in running]

        for done in run(main(), 60):
            assert done.code == 10, done.err
            assert "failed" in done.err
            assert "Traceback" not in done.err

    def test_a_send_under_its_key(self, place: Place, tmp_path: Path) -> None:
        """S112: the answer is lost on its way; the send is repeated, and carried out once."""
        path = tmp_path / "count"
        left = 2

        def cut(seen: bytes) -> int | None:
            nonlocal left
            if not left or b'"task"' not in seen:
                return None
            left -= 1
            return 0

        async def main() -> tuple[Done, int]:
            async with proxy(place.http.partition("://")[2], cut) as between:
                url = f"http+jsonrpc://{between.address}"
                done = await command_in_thread("call", url, f"counter {path}", folder=tmp_path)
                return done, between.cuts

        done, cuts = run(main())
        assert (done.code, cuts) == (0, 2)
        assert len(path.read_text().splitlines()) == 1

    def test_no_retry(self, place: Place, tmp_path: Path) -> None:
        """--retry-for 0: exit code 21."""

        async def main() -> Done:
            target = place.http.partition("://")[2]
            async with proxy(target, after_events(2, cuts=1)) as between:
                url = f"http+jsonrpc://{between.address}"
                return await command_in_thread(
                    "stream", "--retry-for", "0", url, "slow 5 20", folder=tmp_path
                )

        assert run(main()).code == 21


def read_until(process: "subprocess.Popen[str]", text: str) -> None:
    """Read what a command prints, until this text; what it printed is lost."""
    assert process.stdout is not None
    limit = threading.Timer(30, process.kill)
    limit.start()
    seen = ""
    while text not in seen:
        piece = os.read(process.stdout.fileno(), 4096).decode()
        assert piece, f"ended: {seen}"
        seen += piece
    limit.cancel()


class TestInterrupted:
    """Ctrl-C."""

    def interrupt(self, place: Place, folder: Path, *options: str) -> Done:
        process = start("stream", *options, place.http, "slow 2000 25", folder=folder)
        read_until(process, "chunk 2")
        process.send_signal(signal.SIGINT)
        return finish(process)

    def test_leaves_the_task(self, place: Place, tmp_path: Path, command: Command) -> None:
        """S85, SS07: exit code 130 and the line that comes back, which works as it stands."""
        done = self.interrupt(place, tmp_path)
        assert done.code == 130
        (line,) = [line for line in done.err.splitlines() if line.startswith("left; ")]
        found = re.fullmatch(r"left; task (\S+) goes on. Come back by: a2a-gateway (.*)", line)
        assert found is not None
        task = json.loads(command("get", "--json", place.http, found[1]).out)
        assert task["status"]["state"] == "TASK_STATE_WORKING"
        command("cancel", place.http, found[1])
        back = command(*shlex.split(found[2]))
        assert back.code == 12
        assert back.out.startswith("chunk")

    def test_cancels_where_it_shall(self, place: Place, tmp_path: Path, command: Command) -> None:
        """--cancel-on-interrupt."""
        done = self.interrupt(place, tmp_path, "--cancel-on-interrupt")
        assert done.code == 130
        (line,) = [line for line in done.err.splitlines() if line.endswith("is canceled")]
        task = json.loads(command("get", "--json", place.http, line.split()[1]).out)
        assert task["status"]["state"] == "TASK_STATE_CANCELED"

    def test_a_reader_that_leaves(self, place: Place, tmp_path: Path) -> None:
        """A pipe whose reader ends, such as `| head -1`: no traceback."""
        process = start("stream", place.http, "slow 100 25", folder=tmp_path)
        read_until(process, "chunk 1")
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
        process.stderr.close()
        assert process.wait(20) == 1
        assert "Traceback" not in errors

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is none on this system")
    @pytest.mark.parametrize("redirection", [">/dev/full", ">&-", ">/dev/full 2>&-"])
    def test_an_output_that_takes_nothing(
        self, place: Place, tmp_path: Path, redirection: str
    ) -> None:
        """It is said, without a traceback; a closed standard error does no harm."""
        command = f'"$0" -m gateway.cli call "$1" hello {redirection}'
        done = subprocess.run(
            ["/bin/sh", "-c", command, sys.executable, place.http],
            env={**os.environ, **homes(tmp_path)},
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
        )
        assert done.returncode == 1
        said = "" if "2>&-" in redirection else "a2a-gateway: the output cannot be written: "
        assert done.stderr.startswith(said)
        assert "Traceback" not in done.stderr

    def test_before_there_is_a_connection(self, tmp_path: Path) -> None:
        """Ctrl-C at a prompt, or while code is loaded, has the code of all interruptions;
        --timeout is for the card, too."""
        done = invoke("call", "--basic", "me", "http://127.0.0.1:9", "x", folder=tmp_path)
        assert done.code == 130

        async def main() -> Done:
            async with silent() as url:
                return await command_in_thread(
                    *("call", url, "x", "--timeout", "0.5"), folder=tmp_path
                )

        done = run(main())
        assert done.code == 21
        assert "did not give its card within 0.5 s" in done.err


class TestFallback:
    """R6: what a card names need not be there."""

    def test_the_next_interface(self, place: Place, command: Command) -> None:
        """S156, R5, R6: the first one is dead, the second is used, with its tenant."""
        entries = [
            {"url": "http://127.0.0.1:9/", "protocolBinding": "JSONRPC", "tenant": "dead"},
            {"url": place.http, "protocolBinding": "HTTP+JSON", "tenant": "alive"},
        ]

        async def main() -> Done:
            async with web(lambda asked: Said(card_of(entries))) as server:
                return await asyncio.to_thread(command, "call", "--json", server.url, "echo x")

        done = run(main())
        assert done.code == 0
        task = json.loads(done.out)["task"]
        assert command("get", "--tenant", "alive", place.http, task["id"]).code == 0
        assert command("get", place.http, task["id"]).code == 20

    def test_ping_tells_them_apart(self, place: Place, command: Command) -> None:
        """Exit code 21 where one does not answer."""
        entries = [
            {"url": "http://127.0.0.1:9/", "protocolBinding": "JSONRPC"},
            {"url": place.http, "protocolBinding": "HTTP+JSON"},
            {"url": "redis://x", "protocolBinding": "urn:x"},
        ]

        async def main() -> Done:
            async with web(lambda asked: Said(card_of(entries))) as server:
                return await asyncio.to_thread(command, "ping", server.url)

        done = run(main())
        assert done.code == 21
        dead, alive = done.out.splitlines()
        assert "Connection refused" in dead
        assert alive.endswith(" ms")
        assert "not tried: urn:x at redis://x" in done.err

    def test_a_card_that_is_not_valid(self, command: Command) -> None:
        """What A2A requires and is not there, each by its path; signatures are named, and that
        nobody has checked them."""
        header = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsxIn0"
        entries = [{"url": "http://127.0.0.1:9/", "protocolBinding": "JSONRPC"}]
        card = card_of(entries, signatures=[{"protected": header, "signature": "AA"}])

        async def main() -> Done:
            async with web(lambda asked: Said(card)) as server:
                return await asyncio.to_thread(command, "card", server.url)

        done = run(main())
        assert done.code == 20
        assert "not valid: skills is required by A2A, and empty" in done.err
        assert "signed   by key k1 (ES256): not verified" in done.out

    def test_cards_are_kept_between_commands(self, place: Place, command: Command) -> None:
        """R32, S159: asked for once while it is fresh; afterwards with its tag."""
        entries = [{"url": place.http, "protocolBinding": "HTTP+JSON"}]
        headers = {"etag": '"one"', "cache-control": "max-age=0"}

        def answer(asked: Asked) -> Said:
            if asked.headers.get("if-none-match") == '"one"':
                headers["cache-control"] = "max-age=60"
                return Said(status=304, headers=headers)
            return Said(card_of(entries), headers=headers)

        async def main() -> list[str | None]:
            async with web(answer) as server:
                for _ in range(3):
                    done = await asyncio.to_thread(command, "call", server.url, "echo x")
                    assert done.code == 0
                return [asked.headers.get("if-none-match") for asked in server.asked]

        assert run(main()) == [None, '"one"']

    def test_credentials_do_not_follow_a_card(self, place: Place, command: Command) -> None:
        """S160, S164: an interface at another origin gets nothing, not even a request."""
        entries = [{"url": place.http, "protocolBinding": "HTTP+JSON"}]

        async def main() -> Done:
            async with web(lambda asked: Said(card_of(entries))) as server:
                done = await asyncio.to_thread(
                    command, "call", server.url, "x", A2A_GATEWAY_TOKEN="sec-ret"
                )
                assert all("authorization" not in asked.headers for asked in server.asked)
                return done

        done = run(main())
        assert done.code == 21
        assert "another origin" in done.err
        assert "sec-ret" not in done.err


def card_of(entries: list[dict[str, str]], **more: Any) -> bytes:
    """A card with these interfaces."""
    full = [{"protocolVersion": "1.0", **entry} for entry in entries]
    return json.dumps({"name": "x", "supportedInterfaces": full, **more}).encode()


def test_tls(tmp_path: Path) -> None:
    """S160: an authority of one's own by --ca, a certificate of one's own by --cert and --key, over
    HTTP and gRPC; without them the error says which option helps."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    own = [str(path) for path in authority.issue("client")]
    files = {
        "certificate": str(certificate),
        "key": str(key),
        "client_ca": str(authority.ca),
    }
    config = {
        "transports": {
            "grpc": {"address": "127.0.0.1:0", "tls": files},
            "http": {"address": "127.0.0.1:0", "tls": files},
        }
    }
    with gateway(AGENT, tmp_path / "gateway", config) as server:
        urls = [server.addresses.http, f"grpcs://{server.addresses.grpc}"]
        trust = ("--ca", str(authority.ca))
        mine = ("--cert", own[0], "--key", own[1])
        for url in urls:
            assert invoke("call", *trust, *mine, url, "echo x", folder=tmp_path).code == 0
            refused = invoke("call", *trust, url, "echo x", folder=tmp_path)
            assert refused.code == 21
            assert "--cert and --key" in refused.err
            nobody = invoke("call", url, "echo x", folder=tmp_path)
            assert nobody.code == 21
        assert "--ca FILE" in invoke("call", urls[0], "x", folder=tmp_path).err
        missing = invoke("call", "--ca", str(tmp_path / "no.pem"), urls[0], "x", folder=tmp_path)
        assert missing.code == 2
        odd = invoke("call", "--ca", sys.executable, urls[0], "x", folder=tmp_path)
        assert odd.code == 21
        assert "TLS files" in odd.err

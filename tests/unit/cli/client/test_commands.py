"""Each client command against a real gateway, over each wire."""

import asyncio
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.cli.client.kept_cards import CardFiles
from tests.conftest import run
from tests.doubles.web import Asked, Said, Web, web
from tests.processes import gateway
from tests.unit.cli.client.conftest import AGENT, Place
from tests.unit.cli.client.running import Done, finish, invoke, start
from transports.client import Kept
from transports.http.discovery import PATH as CARD_PATH

Command = Callable[..., Done]

INFO = "type.googleapis.com/google.rpc.ErrorInfo"
WIRES = ("card", "jsonrpc", "rest", "grpc", "stdio")
wires = pytest.mark.parametrize("wire", WIRES)


def task_of(done: Done) -> str:
    """The id that stands among the hints."""
    return next(
        line.removeprefix("task ") for line in done.err.splitlines() if line.startswith("task ")
    )


class TestCall:
    """`call`."""

    @wires
    def test_a_text(self, place: Place, command: Command, wire: str) -> None:
        """S155, S157: the answer on stdout and nothing else; states on stderr."""
        done = command("call", place.url(wire), "echo hello")
        assert (done.code, done.out) == (0, "echo hello\n")
        assert done.err.splitlines()[1:] == ["completed"]
        assert task_of(done)

    @wires
    def test_for_machines(self, place: Place, command: Command, wire: str) -> None:
        """One ProtoJSON object, the same over each wire."""
        done = command("call", "--json", place.url(wire), "echo hello")
        (answer,) = map(json.loads, done.out.splitlines())
        assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert answer["task"]["artifacts"][0]["parts"][0]["text"] == "echo hello"

    @pytest.mark.parametrize(
        ("text", "code", "said"),
        [
            ("message hi", 0, ""),
            ("raise 1 secret", 10, "failed"),
            ("reject not me", 11, "rejected: not me"),
            ("ask", 13, "input required"),
            ("auth", 14, "auth required"),
        ],
    )
    def test_how_it_ended(
        self, place: Place, command: Command, text: str, code: int, said: str
    ) -> None:
        """S162: the exit code says it; questions are answers, reasons are not."""
        done = command("call", place.http, text)
        assert done.code == code
        assert said in done.err
        assert "secret" not in done.out + done.err

    def test_stdin_files_and_data(self, place: Place, command: Command, tmp_path: Path) -> None:
        """Each becomes a part of its kind; a file keeps its name and gets its type."""
        path = tmp_path / "table.csv"
        path.write_bytes(b"a,b\n1,2\n")
        odd = tmp_path / "odd.bin"
        odd.write_bytes(b"\xff\x00")
        done = command(
            "call", "--json", place.http, "-", "--file", str(path), "--file", str(odd),
            "--data", '{"a":[1,null]}', text="echo ä\n".encode(),
        )  # fmt: skip
        parts = json.loads(done.out)["task"]["history"][0]["parts"]
        assert parts == [
            {"text": "echo ä\n"},
            {"data": {"a": [1, None]}},
            {"raw": "YSxiCjEsMgo=", "filename": "table.csv", "mediaType": "text/csv"},
            {"raw": "/wA=", "filename": "odd.bin", "mediaType": "application/octet-stream"},
        ]

    def test_files_of_an_answer(self, place: Place, command: Command, tmp_path: Path) -> None:
        """S163: kept where the user says, under a name without a path; nothing is overwritten."""
        sent = tmp_path / "x.txt"
        sent.write_text("content")
        folder = tmp_path / "kept"
        for _ in range(2):
            done = command("call", place.http, "echo", "--file", str(sent), "--save", str(folder))
            assert done.code == 0
        assert sorted(path.name for path in folder.iterdir()) == ["x (2).txt", "x.txt"]
        assert (folder / "x.txt").read_text() == "content"
        shown = command("call", place.http, "echo", "--file", str(sent))
        assert "x.txt (text/plain, 7 bytes) is not shown; keep it by --save FOLDER" in shown.err

    def test_files_of_another_type(self, place: Place, command: Command, tmp_path: Path) -> None:
        """What an agent does not take by its name may be taken as something else."""
        script = tmp_path / "x.py"
        script.write_text("pass")
        refused = command("call", place.http, "echo", "--file", str(script))
        assert refused.code == 20
        assert "--media-type" in refused.err
        taken = command(
            "call", place.http, "echo", "--file", str(script), "--media-type", "text/plain"
        )
        assert "x.py (text/plain, 4 bytes)" in taken.err

    def test_without_waiting(self, place: Place, command: Command) -> None:
        """The id of the task is the answer; `subscribe` goes on from there."""
        done = command("call", "--no-wait", place.http, "slow 5 50")
        assert done.code == 0
        task_id = done.out.strip()
        assert f"a2a-gateway subscribe {place.http} {task_id}" in done.err
        followed = command("subscribe", place.http, task_id)
        assert followed.code == 0
        assert followed.out.strip().endswith("chunk 4")

    def test_a_dialogue(self, place: Place, command: Command) -> None:
        """S161: --continue keeps the context, and the task while that waits for an answer."""
        asked = command("call", "--continue", place.http, "ask")
        assert asked.code == 13
        assert f"answer by: a2a-gateway call --continue {place.http} TEXT" in asked.err
        answered = command("call", "--continue", place.http, "red")
        assert answered.code == 0
        assert task_of(answered) == task_of(asked)
        assert "red" in answered.out
        more = command("call", "--continue", "--json", place.http, "echo more")
        task = json.loads(more.out)["task"]
        assert task["id"] != task_of(asked)
        first = json.loads(command("get", "--json", place.http, task_of(asked)).out)
        assert task["contextId"] == first["contextId"]
        new = command("call", "--continue", "--new", "--json", place.http, "echo new")
        assert json.loads(new.out)["task"]["contextId"] != first["contextId"]

    def test_a_follow_up_shows_what_is_new(self, place: Place, command: Command) -> None:
        """S161: by hand, with the id that the hint names; in both ways of sending."""
        for verb in ("call", "stream"):
            asked = command(verb, place.http, "three")
            line = asked.err.splitlines()[-1]
            assert (
                line == f"  answer by: a2a-gateway call --task {task_of(asked)} {place.http} TEXT"
            )
            again = command(verb, place.http, "--task", task_of(asked), "red")
            assert again.code == 13
            done = command(verb, place.http, "--task", task_of(asked), "blue")
            assert done.code == 0

    def test_a_key_of_ones_own(self, place: Place, command: Command, tmp_path: Path) -> None:
        """S112: a script that runs its line again starts nothing twice."""
        path = tmp_path / "count"
        for _ in range(2):
            done = command(
                "call", place.http, f"counter {path}", "--idempotency-key", f"key of {path}"
            )
            assert done.code == 0
        assert len(path.read_text().splitlines()) == 1

    def test_a_deadline(self, place: Place, command: Command) -> None:
        """--timeout: exit code 20, and what to do."""
        done = command("call", place.http, "silent 5", "--timeout", "1")
        assert done.code == 20
        assert "--no-wait" in done.err

    def test_quiet(self, place: Place, command: Command) -> None:
        """The answer alone."""
        done = command("call", "-q", place.http, "echo x")
        assert (done.out, done.err) == ("echo x\n", "")


class TestStream:
    """`stream`."""

    @wires
    def test_chunks(self, place: Place, command: Command, wire: str) -> None:
        """S162: the text as it comes, in one piece at the end."""
        done = command("stream", place.url(wire), "burst 5")
        assert done.code == 0
        whole = command("call", place.url(wire), "burst 5")
        assert done.out == whole.out
        assert done.err.splitlines()[-1] == "completed"

    @wires
    def test_for_machines(self, place: Place, command: Command, wire: str) -> None:
        """One StreamResponse a line."""
        done = command("stream", "--json", place.url(wire), "burst 3")
        events = [json.loads(line) for line in done.out.splitlines()]
        assert [next(iter(event)) for event in events] == [
            "task",
            "statusUpdate",
            *["artifactUpdate"] * 3,
            "statusUpdate",
        ]

    def test_a_time_to_leave(self, place: Place, command: Command) -> None:
        """--timeout: exit code 15, and how to come back."""
        done = command("stream", place.http, "slow 900 99", "--timeout", "2")
        assert done.code == 15
        assert done.out.startswith("chunk 0")
        assert f"a2a-gateway subscribe --after {done.out.count('chunk') + 2} " in done.err
        ended = command("stream", place.http, "slow 900 99", "--timeout", "2",
                        "--cancel-on-interrupt")  # fmt: skip
        task_id = task_of(ended)
        assert ended.err.splitlines()[-1] == f"task {task_id} is canceled"
        assert command("subscribe", place.http, task_id).code == 12

    def test_failures_for_machines(self, place: Place, command: Command) -> None:
        """The last line is the error, as JSON-RPC has it."""
        done = command("stream", "--json", place.http, "--task", "nope", "x")
        assert done.code == 20
        error = json.loads(done.out.splitlines()[-1])["error"]
        assert error["code"] == -32001


class TestTasks:
    """`get`, `list`, `cancel`, `subscribe`."""

    @wires
    def test_get(self, place: Place, command: Command, wire: str) -> None:
        """The exit code is about the reading."""
        task_id = task_of(command("call", place.http, "raise 1"))
        done = command("get", place.url(wire), task_id)
        assert done.code == 0
        assert "failed" in done.err
        missing = command("get", place.url(wire), "no-such-task")
        assert missing.code == 20
        assert "no-such-task" in missing.err
        assert "a2a-gateway list" in missing.err

    @wires
    def test_cancel(self, place: Place, command: Command, wire: str) -> None:
        """Its new state on stdout."""
        task_id = command("call", "--no-wait", place.http, "slow 900 99").out.strip()
        done = command("cancel", place.url(wire), task_id)
        assert (done.code, done.out) == (0, "canceled\n")
        ended = command("call", "--no-wait", place.http, "echo x").out.strip()
        command("subscribe", place.http, ended)
        assert command("cancel", place.url(wire), ended).code == 20

    @wires
    def test_subscribe(self, place: Place, command: Command, wire: str) -> None:
        """S162: a task at work is followed, one that has ended is read; the exit code is the
        task's."""
        task_id = command("call", "--no-wait", place.http, "slow 4 50").out.strip()
        done = command("subscribe", place.url(wire), task_id)
        assert (done.code, done.out) == (0, "chunk 0 chunk 1 chunk 2 chunk 3 \n")
        assert command("subscribe", place.url(wire), task_id).out == done.out
        failed = task_of(command("call", place.http, "raise 2"))
        assert command("subscribe", place.url(wire), failed).code == 10

    def test_list(self, place: Place, command: Command) -> None:
        """Pages by hand, all of them, filters; newest first."""
        tenant = ("--tenant", "lists")
        ids = [
            command("call", *tenant, "--no-wait", place.http, f"echo {n}").out.strip()
            for n in range(5)
        ]
        command("call", *tenant, place.http, "reject")
        page = command("list", *tenant, "--limit", "2", place.http)
        assert len(page.out.splitlines()) == 2
        (hint,) = page.err.splitlines()
        assert hint.startswith("2 of 6; the rest: --all, or --page ")
        token = shlex.split(hint)[-1]
        second = command("list", *tenant, "--limit", "2", "--page", token, place.http)
        everything = command("list", *tenant, "--limit", "2", "--all", place.http)
        assert everything.out.splitlines()[:4] == (page.out + second.out).splitlines()
        assert {line.split()[0] for line in everything.out.splitlines()[1:]} == set(ids)
        rejected = command("list", *tenant, "--state", "rejected", place.http)
        assert [line.split()[1] for line in rejected.out.splitlines()] == ["rejected"]
        lines = command("list", *tenant, "--all", "--json", place.http).out.splitlines()
        assert len([json.loads(line)["id"] for line in lines]) == 6
        whole = json.loads(command("list", *tenant, "--json", place.http).out)
        assert whole["totalSize"] == 6


class TestAbout:
    """`card`, `ping`, `completion`."""

    def test_card(self, place: Place, command: Command) -> None:
        """What a person wants to know; the whole card for machines."""
        done = command("card", place.http)
        assert done.code == 0
        assert f"  JSONRPC    {place.http}/ (1.0)" in done.out.splitlines()
        assert "access   open to everybody" in done.out
        assert "signed   no" in done.out
        assert json.loads(command("card", "--json", place.http).out)["supportedInterfaces"]

    def test_a_card_that_was_kept(self, place: Place, command: Command, tmp_path: Path) -> None:
        """One of an agent that ran there before: `card` and `ping` ask; a call that it led
        nowhere asks at the next try."""
        body = json.loads(command("card", "--json", place.http).out)
        for entry in body["supportedInterfaces"]:
            entry["url"] = "http://127.0.0.1:9"
        old = Kept(f"{place.http}{CARD_PATH}", json.dumps(body).encode(), '"old"', 1e12)
        cards = CardFiles(tmp_path / "cache" / "a2a-gateway" / "cards")
        for name in ("card", "ping"):
            cards.save(place.http, old)
            assert command(name, place.http).code == 0
        cards.save(place.http, old)
        assert [command("call", place.http, "hello").code for _ in range(2)] == [21, 0]

    @pytest.mark.parametrize("wire", ["grpc", "stdio"])
    def test_no_card(self, place: Place, command: Command, wire: str) -> None:
        """These wires have none to read."""
        done = command("card", place.url(wire))
        assert done.code == 20
        assert "HTTP door" in done.err

    @wires
    def test_ping(self, place: Place, command: Command, wire: str) -> None:
        """R6: each interface of the card, or the one that was named."""
        done = command("ping", place.url(wire))
        assert done.code == 0
        assert len(done.out.splitlines()) == (3 if wire == "card" else 1)
        assert all(line.endswith(" ms") for line in done.out.splitlines())
        for line in command("ping", "--json", place.url(wire)).out.splitlines():
            assert json.loads(line)["ok"] is True

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_completion(self, command: Command, shell: str) -> None:
        """The shell's own script, which asks the command for the words."""
        done = command("completion", shell)
        assert done.code == 0
        assert "_A2A_GATEWAY_COMPLETE" in done.out

    def test_words_that_are_completed(self, tmp_path: Path) -> None:
        """What the script asks for."""
        words = {
            "_A2A_GATEWAY_COMPLETE": "bash_complete",
            "COMP_WORDS": "a2a-gateway ca",
            "COMP_CWORD": "1",
        }
        process = start(folder=tmp_path, environment=words)
        done = finish(process)
        found = [line.partition(",")[2] for line in done.out.splitlines()]
        assert found == ["call", "cancel", "card"]


class TestFailures:
    """What is said, and what to do about it."""

    @pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http+rest://127.0.0.1:9"])
    def test_nobody_there(self, command: Command, url: str) -> None:
        """At once, and with the reason."""
        done = command("call", url, "x")
        assert done.code == 21
        assert "Connection refused" in done.err
        assert "is it running" in done.err
        assert done.out == ""

    def test_nobody_there_over_grpc(self, command: Command) -> None:
        """The same."""
        done = command("call", "grpc://127.0.0.1:9", "x")
        assert done.code == 21
        assert "is it running" in done.err

    def test_no_socket(self, command: Command, tmp_path: Path) -> None:
        """It is named as it was given."""
        done = command("call", f"http+unix:{tmp_path}/none.sock", "x")
        assert done.code == 21
        assert f"unix:{tmp_path}/none.sock cannot be reached: No such file" in done.err

    def test_a_program_that_is_not_there(self, command: Command) -> None:
        """The same."""
        done = command("call", "stdio:no-such-program --x", "x")
        assert done.code == 21
        assert "no-such-program" in done.err
        assert "is it installed" in done.err

    def test_a_program_of_something_else(self, command: Command) -> None:
        """A few lines tell, however much it says."""
        done = command("call", "stdio:seq 100", "x")
        assert done.code == 21
        assert "it is no A2A agent" in done.err
        assert len(done.err.splitlines()) < 6

    def test_a_program_that_ends(self, command: Command) -> None:
        """At once, not after the patience for what breaks."""
        done = command("call", "stdio:false", "x")
        assert done.code == 21
        assert "the program false" in done.err

    def test_a_url_without_scheme(self, command: Command) -> None:
        """Usage: exit code 2, and the forms that there are."""
        done = command("call", "localhost:1", "x")
        assert done.code == 2
        assert "try http://localhost:1" in done.err
        assert "grpc://HOST:PORT" in done.err

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ((), "nothing to send"),
            (("x", "--data", "{"), "--data is not JSON"),
            (("x", "--data", "NaN"), "--data is not JSON"),
            (("x", "--new"), "--continue"),
            (("x", "--cert", __file__), "--cert and --key"),
            (("x", "--idempotency-key", "ä"), "printable ASCII"),
            (("x", "--extension", "urn:ä"), "printable ASCII"),
            (("x", "--api-key", "k", "--api-key-header", "a b"), "no name of a header"),
            (("x", "--file", "/nowhere"), "/nowhere"),
        ],
    )
    def test_usage(self, command: Command, arguments: tuple[str, ...], words: str) -> None:
        """Exit code 2 before anything is sent."""
        done = command("call", "http://127.0.0.1:9", *arguments)
        assert done.code == 2
        assert words in done.err

    def test_something_else_at_the_url(self, place: Place, command: Command) -> None:
        """A server without A2A."""
        done = command("call", place.server.addresses.metrics["core"], "x")
        assert done.code == 21
        assert "no agent card" in done.err


def test_unix_sockets(tmp_path: Path) -> None:
    """R59: HTTP in both bindings, and gRPC."""
    http, grpc = tmp_path / "http.sock", tmp_path / "grpc.sock"
    doors = {"http": {"address": f"unix:{http}"}, "grpc": {"address": f"unix:{grpc}"}}
    with gateway(AGENT, tmp_path / "gateway", {"transports": doors}):
        for arguments in (
            (f"http+unix:{http}",),
            (f"http+unix://{http}", "--binding", "rest"),
            (f"grpc:unix:{grpc}",),
            (f"grpc+unix:{grpc}",),
        ):
            done = invoke("stream", *arguments, "echo x", folder=tmp_path)
            assert (done.code, done.out) == (0, "echo x\n"), done.err
            assert invoke("ping", *arguments, folder=tmp_path).code == 0


ACCESS: dict[str, Any] = {
    "access": {
        "tokens": [{"caller": "alice", "token": "alices-token"}],
        "api_keys": [{"caller": "bob", "key": "bobs-key"}],
        "api_key_header": "x-own-key",
        "basic": [{"username": "carol", "password": "carols-password"}],
    }
}


def test_credentials(tmp_path: Path) -> None:
    """S160: from the environment, a file, or a prompt, over each wire; a missing or a wrong one is
    exit code 22 with what to do, and is never shown."""
    token_file = tmp_path / "token"
    token_file.write_text("alices-token\n")
    key_file = tmp_path / "key"
    key_file.write_text("bobs-key\n")

    def run(*arguments: str, text: bytes | None = None, **environment: str) -> Done:
        done = invoke(*arguments, folder=tmp_path, text=text, **environment)
        assert "alices-token" not in done.out + done.err
        assert "wrong-token" not in done.out + done.err
        return done

    with gateway(AGENT, tmp_path / "gateway", ACCESS) as server:
        place = Place(server, tmp_path / "gateway")
        for wire in WIRES:
            url = place.url(wire)
            assert run("call", url, "x", A2A_GATEWAY_TOKEN="alices-token").code == 0
            assert run("call", url, "x", "--token-file", str(token_file)).code == 0
            assert run("call", url, "x").code == 22
        missing = run("call", place.http, "x")
        assert "--token-file FILE or A2A_GATEWAY_TOKEN" in missing.err
        assert "Bearer" in missing.err
        wrong = run("call", place.http, "x", A2A_GATEWAY_TOKEN="wrong-token")
        assert wrong.code == 22
        assert "are not taken" in wrong.err
        # the card says where the key goes; without one the user does
        assert run("call", place.http, "x", "--api-key-file", str(key_file)).code == 0
        named = ("--api-key-header", "X-Own-Key")
        grpc = place.url("grpc")
        assert run("call", grpc, "x", *named, A2A_GATEWAY_API_KEY="bobs-key").code == 0
        asked = run("call", place.http, "x", "--basic", "carol", text=b"carols-password\n")
        assert asked.code == 0
        assert "carols-password" not in asked.out + asked.err
        given = run(
            "call", place.http, "x", "--basic", "carol", A2A_GATEWAY_PASSWORD="carols-password"
        )
        assert given.code == 0
        ways = run("card", place.http)
        assert "Bearer" in ways.out
        assert "API key in header x-own-key" in ways.out
        # an interface that lives answers, whoever asks
        assert run("ping", place.http).code == 0


def test_an_agent_that_does_not_stream(place: Place, command: Command) -> None:
    """S88, S162: `stream` and `subscribe` look at the task instead, no sooner than they may, and
    show what is new."""
    streaming = ("/message:stream", ":subscribe")

    def answer(asked: Asked) -> Said:
        if asked.path.startswith("/.well-known"):
            entry = {"protocolBinding": "HTTP+JSON", "protocolVersion": "1.0", "url": found[0].url}
            return Said(json.dumps({"name": "x", "supportedInterfaces": [entry]}).encode())
        if asked.path.endswith(streaming):
            refusal = {
                "code": 400,
                "message": "no streams here",
                "details": [{"@type": INFO, "reason": "UNSUPPORTED_OPERATION"}],
            }
            return Said(json.dumps({"error": refusal}).encode(), 400)
        answered = httpx.request(
            asked.verb, place.http + asked.path, content=asked.body, trust_env=False,
            headers={"a2a-version": "1.0", "content-type": "application/json"},
        )  # fmt: skip
        kept = {name: v for name, v in answered.headers.items() if name == "retry-after"}
        return Said(answered.content, answered.status_code, kept)

    found: list[Web] = []

    async def main() -> list[Done]:
        async with web(answer) as server:
            found.append(server)
            sent = await asyncio.to_thread(command, "stream", server.url, "slow 4 300")
            asked = await asyncio.to_thread(command, "subscribe", server.url, task_of(sent))
            return [sent, asked]

    for done in run(main()):
        assert (done.code, done.out) == (0, "chunk 0 chunk 1 chunk 2 chunk 3 \n")

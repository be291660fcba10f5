"""The stdio door as bytes: framing, envelopes, what else is written (docs/bindings/stdio.md)."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.doors import Places
from tests.contract.test_json_doors import BROKEN, ENVELOPES
from tests.framed import Program, program, stdio_command

LINES, HEADERS = "lines", "headers"
BAD_LINES = [line for line in BROKEN if line.strip()]


@pytest.fixture(params=[LINES, HEADERS])
def peer(request: pytest.FixtureRequest, places: Places) -> Iterator[Program]:
    """A process that has joined the gateway."""
    with program(stdio_command(places.state_dir), headers=request.param == HEADERS) as found:
        yield found
        found.end_input()
        assert found.exit_code() == 0, found.text()
        assert found.is_at_end()


def test_bad_frames_are_answered_and_survived(peer: Program) -> None:
    """SD01, JR02, S46: bytes that are no UTF-8 or no JSON give one parse error each, with id
    null; the next good request is answered."""
    for frame in BAD_LINES:
        peer.send(frame)
        answer = peer.read()
        assert (answer["error"]["code"], answer["id"]) == (-32700, None), frame
    peer.works()


def test_envelopes(peer: Program) -> None:
    """SD10, JR01, JR09: a flaw of the envelope has its own code, with the id where it can be
    read."""
    peer.initialize()
    for body, code, call_id in ENVELOPES:
        peer.send(body.encode())
        answer = peer.read()
        assert (answer["error"]["code"], answer["id"]) == (code, call_id), body
    peer.works()


def test_blank_lines_count_for_nothing(places: Places) -> None:
    """SD10: nor does a carriage return before the line's end."""
    with program(stdio_command(places.state_dir)) as peer:
        peer.write(b"\n  \r\n\n")
        peer.send(b'{"jsonrpc":"2.0","id":5}\r')
        peer.write(b"\r\n")
        assert peer.read()["id"] == 5
        peer.works()


def test_a_last_line_needs_no_end(places: Places) -> None:
    """A client may close its output right behind the last byte of a request."""
    with program(stdio_command(places.state_dir)) as peer:
        peer.write(b'{"jsonrpc":"2.0","id":9,"method":"GetTask","params":{"id":"x"}}')
        peer.end_input()
        assert peer.read()["id"] == 9
        assert peer.is_at_end()
        assert peer.exit_code() == 0


def test_ids_that_look_alike(peer: Program) -> None:
    """JR05: three streams at once, each frame with its own exact id."""
    ids: list[Any] = [7, "7", "07"]
    for call_id in ids:
        peer.message("slow 3 20", call_id, "SendStreamingMessage")
    seen: dict[str, list[int]] = {}
    ends = 0
    while ends < len(ids):
        value = peer.read()
        key = json.dumps(value["id"])
        if value.get("streamEnd"):
            ends += 1
        else:
            seen.setdefault(key, []).append(value["seq"])
    assert list(map(json.dumps, ids)) == sorted(seen, key=lambda k: (len(k), k))
    assert all(numbers == sorted(numbers) and len(numbers) >= 5 for numbers in seen.values())


def test_notifications_have_no_answer(peer: Program) -> None:
    """JR07: an id of null is a request."""
    peer.send(b'{"jsonrpc":"2.0","method":"GetTask","params":{"id":"unknown"}}')
    peer.send(b'{"jsonrpc":"2.0","id":2,"method":"GetTask","params":{"id":"unknown"}}')
    assert peer.read()["id"] == 2
    peer.send(b'{"jsonrpc":"2.0","id":null,"method":"GetTask","params":{"id":"unknown"}}')
    assert peer.read()["id"] is None


def test_half_surrogates(peer: Program) -> None:
    """PB11: an answer that can be encoded, and never with the bad id."""
    peer.send(b'{"jsonrpc":"2.0","id":"\\ud83d","method":"GetTask","params":{"id":"x"}}')
    answer = peer.read()
    assert (answer["error"]["code"], answer["id"]) == (-32600, None)
    peer.message("echo \ud83d", 3)
    assert peer.answer(3)["error"]["code"] == -32602
    peer.works()


@pytest.mark.parametrize("size", [65_535, 65_537, 1_000_000, 5_000_000])
def test_large_lines(peer: Program, size: int) -> None:
    """SD05: in both directions, byte for byte."""
    text = "é" + "x" * size
    peer.message(f"echo {text}")
    task = peer.answer()["result"]["task"]
    assert task["artifacts"][0]["parts"][0]["text"] == f"echo {text}"


def test_lines_beyond_the_limit(places: Places) -> None:
    """SD05: one error for a line that is too large, and the next request is answered."""
    with program(stdio_command(places.state_dir)) as peer:
        limit = peer.initialize()["limits"]["frameBytes"]
        half = b"x" * 2**20
        for _ in range(limit // len(half) + 2):
            peer.write(half)
        peer.write(b"\n")
        answer = peer.read()
        assert (answer["id"], answer["error"]["code"]) == (None, -32602)
        peer.works()


def test_frames_leave_at_once(peer: Program) -> None:
    """SD07: what was made can be read though the output is a pipe and no more follows."""
    peer.message("slow 1 60000", 2, "SendStreamingMessage")
    task_id = peer.answer(2)["result"]["task"]["id"]
    assert "statusUpdate" in peer.answer(2)["result"]
    peer.call("CancelTask", {"id": task_id}, 3)
    assert peer.answer(3)["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert [value["result"]["statusUpdate"]["status"]["state"] for value in peer.events(2)] == [
        "TASK_STATE_CANCELED"
    ]


def test_a_stream_for_strict_clients(peer: Program) -> None:
    """Events as notifications with the client's token, and one response at the end."""
    peer.message("slow 3 10", 4, "SendStreamingMessage", partialResultToken="t")
    numbers = []
    while (value := peer.read()).get("id") is None:
        assert (value["method"], value["params"]["token"]) == ("$/progress", "t")
        numbers.append(value["params"]["seq"])
    assert numbers == sorted(numbers)
    assert value["result"]["streamEnd"] is True


def test_cancelling_a_stream(peer: Program) -> None:
    """`$/cancelRequest` ends the call with an error, and leaves its task alone."""
    peer.message("slow 9999 10", 5, "SendStreamingMessage")
    task_id = peer.answer(5)["result"]["task"]["id"]
    peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 5}})
    while "error" not in peer.answer(5):
        pass
    peer.call("GetTask", {"id": task_id}, 6)
    assert peer.answer(6)["result"]["status"]["state"] == "TASK_STATE_WORKING"
    peer.call("CancelTask", {"id": task_id}, 7)
    assert peer.answer(7)["result"]["status"]["state"] == "TASK_STATE_CANCELED"


def test_standard_input_in_one_go(places: Places) -> None:
    """A script pipes requests in, and gets all answers before the process ends."""
    requests = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "SendMessage",
            "params": {
                "a2a-service-parameters": {"a2a-version": "1.0"},
                "message": {
                    "messageId": f"m{number}",
                    "role": "ROLE_USER",
                    "parts": [{"text": "slow 2 50"}],
                },
            },
        }
        for number in range(20)
    ]
    done = subprocess.run(
        stdio_command(places.state_dir),
        input="".join(json.dumps(request) + "\n" for request in requests).encode(),
        capture_output=True,
        timeout=30,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(20))
    assert all("result" in answer for answer in answers)


def test_usage(tmp_path: Any) -> None:
    """What cannot work ends with the exit codes of the other commands, and with an empty output."""
    for arguments, code, text in (
        ((), 2, "no agent is named"),
        (("--agent", "no.such.module:agent"), 3, "no.such.module"),
        (("--agent", "demo", "--store", "nonsense:"), 2, "store"),
        (("--agent", "demo", "--log-level", "loud"), 2, "logs.level"),
    ):
        done = subprocess.run(
            stdio_command(tmp_path / "state", "", *arguments),
            input=b"",
            capture_output=True,
            timeout=30,
        )
        assert (done.returncode, done.stdout) == (code, b""), done.stderr
        assert text in done.stderr.decode()
        assert b"Traceback" not in done.stderr
    (tmp_path / "file").touch()
    done = subprocess.run(
        stdio_command(tmp_path / "file" / "state", "demo"),
        input=b"",
        capture_output=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (5, b"")
    assert b"cannot be used" in done.stderr
    assert b"Traceback" not in done.stderr


def test_another_agent_is_not_joined(places: Places) -> None:
    """Messages meant for one agent never reach another that happens to run."""
    done = subprocess.run(
        stdio_command(places.state_dir, "demo"), input=b"", capture_output=True, timeout=30
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"runs another agent" in done.stderr
    with program(stdio_command(places.state_dir, "tests.doubles.agents:agent")) as peer:
        peer.works()

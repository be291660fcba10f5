"""Real programs, run for a message: what they get, what becomes of what they print, how they
end."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from gateway.agents import AgentError
from gateway.agents.command.agent import card_name
from gateway.agents.loader import load
from gateway.errors import ContentTypeNotSupportedError, InvalidAgentResponseError
from gateway.pb import Message, Part, Role, Task
from tests.conftest import run
from tests.doubles.recording import RecordingTurn
from tests.unit.agents.command.scene import agent, appears, gone, play, python, sh, started


def test_text_in_and_out() -> None:
    turn = play("cat", "one", "two")
    assert turn.text == "one\ntwo\n"
    assert turn.states == ["WORKING", "COMPLETED"]


def test_a_silent_program_completes_its_task() -> None:
    assert play("true").states == ["WORKING", "COMPLETED"]


def test_a_program_that_reads_nothing() -> None:
    """Its stdin is closed before a megabyte of it is written."""
    turn = play("true", "x" * 2**20)
    assert turn.states == ["WORKING", "COMPLETED"]


def test_what_is_read_late_is_there() -> None:
    turn = play(sh("sleep 0.1; wc -c"), "x" * 2**20)
    assert int(turn.text) == 2**20 + 1


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo so far; exit 3", "The agent ended with exit code 3"),
        ("echo so far; kill -KILL $$", "The agent was ended by SIGKILL"),
    ],
)
def test_a_program_that_fails(script: str, words: str) -> None:
    """S176: only how it ended; what it printed on stderr is for the log."""
    turn = play(sh(f"echo secret-123 >&2; {script}"))
    assert turn.states == ["WORKING", "FAILED"]
    assert turn.text == "so far\n"
    assert turn.last_words == words


def test_asking_by_exit_code() -> None:
    turn = play(sh("echo I can bake.; echo Which topping?; exit 10"))
    assert turn.states == ["WORKING", "INPUT_REQUIRED"]
    assert turn.last_words == "Which topping?"
    assert play(sh("exit 10")).states == ["WORKING", "INPUT_REQUIRED"]


def test_asking_by_another_exit_code_or_none() -> None:
    assert play(sh("exit 10"), ask_code=None).states == ["WORKING", "FAILED"]
    assert play(sh("exit 10"), ask_code=75).states == ["WORKING", "FAILED"]
    assert play(sh("exit 75"), ask_code=75).states == ["WORKING", "INPUT_REQUIRED"]


def test_ids_and_the_number_of_the_turn() -> None:
    script = sh('echo "$A2A_TASK_ID $A2A_CONTEXT_ID $A2A_MESSAGE_ID $A2A_TURN"')
    assert play(script).text == "task-1 context-1 m1 1\n"
    said = [Message(message_id=str(n), role=Role.ROLE_USER) for n in range(2)]
    said.insert(1, Message(message_id="answer", role=Role.ROLE_AGENT))
    turn = RecordingTurn("hi", task=Task(id="task-1", context_id="context-1", history=said))
    assert play(script, turn=turn).text == "task-1 context-1 m1 2\n"


def test_the_environment_is_a_list_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """S176: what the gateway was started with, its secrets among it, stays there."""
    monkeypatch.setenv("API_KEY", "secret-123")
    monkeypatch.setenv("MODEL", "small")
    monkeypatch.setenv("LC_TIME", "C")
    turn = play("env", environment=("MODEL", "NOT_SET"))
    names = {line.partition("=")[0] for line in turn.text.splitlines()}
    assert {"MODEL", "PATH", "LC_TIME"} <= names
    assert "API_KEY" not in names
    assert not {name for name in names if name.startswith(("PYTHON", "A2A_GATEWAY"))}


def test_the_directory(tmp_path: Path) -> None:
    """Program and arguments are looked for there."""
    (tmp_path / "hello.sh").write_text("#!/bin/sh\npwd\n")
    (tmp_path / "hello.sh").chmod(0o755)
    assert play("./hello.sh", directory=tmp_path).text == f"{tmp_path}\n"
    assert play("sh hello.sh", directory=tmp_path).text == f"{tmp_path}\n"


def test_a_time_limit() -> None:
    started_at = time.monotonic()
    turn = play(sh("echo so far; sleep 60"), timeout=1)
    assert time.monotonic() - started_at < 30
    assert turn.states == ["WORKING", "FAILED"]
    assert turn.text == "so far\n"
    assert "longer than 1 s" in turn.last_words


def test_a_limit_of_what_is_printed() -> None:
    turn = play("yes", output_bytes=100_000)
    assert turn.states == ["WORKING", "FAILED"]
    assert len(turn.text) <= 100_000
    assert "more than 100000 bytes" in turn.last_words


def test_bytes_that_are_no_text() -> None:
    """Neither cut inside a character nor refused."""
    turn = play(python(r"import os; [os.write(1, bytes((b,))) for b in '€ö𝄞'.encode() + b'\xff']"))
    assert turn.text == "€ö𝄞�"


def test_a_program_that_closes_stdout_and_runs_on() -> None:
    turn = play(sh("echo hi; exec >&-; sleep 0.3; exit 4"))
    assert turn.text == "hi\n"
    assert turn.last_words == "The agent ended with exit code 4"


def test_a_child_that_is_left_behind(tmp_path: Path) -> None:
    """It holds stdout open: that is waited for only a moment, and it ends with its program."""
    started_at = time.monotonic()

    async def main() -> None:
        async with started(sh(f"sleep 60 & echo $! > {tmp_path}/pid; echo hi")) as made:
            turn = RecordingTurn("hi")
            await made.run(turn)
            assert turn.text == "hi\n"
            assert turn.states[-1] == "COMPLETED"
            await gone(int((tmp_path / "pid").read_text()))

    run(main())
    assert time.monotonic() - started_at < 30


def test_what_a_child_prints_after_its_program_is_not_lost() -> None:
    assert play(sh("(sleep 0.1; echo late) & echo early")).text == "early\nlate\n"


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="there are subreapers on Linux alone")
def test_a_child_that_has_left_its_group(tmp_path: Path) -> None:
    """It holds nobody up, and ends with the agent."""
    child = f"echo $$ > {tmp_path}/pid; exec sleep 60"

    async def main() -> None:
        async with started(sh(f"setsid sh -c '{child}' & echo hi")) as made:
            turn = RecordingTurn("hi")
            await made.run(turn)
            assert turn.states[-1] == "COMPLETED"
            pid = int(await appears(tmp_path / "pid"))
        await gone(pid)

    run(main())


def test_a_flood_is_held_up(tmp_path: Path) -> None:
    """Nothing is read that cannot be passed on."""
    count = tmp_path / "count"
    flood = python(
        "import os\n"
        "for n in range(1000):\n"
        "    os.write(1, b'x' * 65536)\n"
        f"    open({str(count)!r}, 'w').write(f'{{n}}\\n')\n"
    )

    async def main() -> None:
        turn = RecordingTurn("hi")
        async with started(flood, output_bytes=10**9) as made:
            running = asyncio.create_task(made.run(turn))
            while not turn.parts:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            turn.gate = asyncio.Event()
            await asyncio.sleep(0.3)
            # a pipe holds one block, one has been read, and one more is being written
            printed = (int(await appears(count)) + 1) * 65536
            assert printed - len(turn.text) <= 3 * 65536
            turn.gate.set()
            await running
        assert len(turn.text) == 1000 * 65536

    run(main())


def test_a_flood_on_stderr(caplog: pytest.LogCaptureFixture) -> None:
    """It holds nobody up, and the log has its beginning and its end."""
    caplog.set_level("INFO", "gateway.agents.command")
    script = "i=0; while [ $i -lt 20000 ]; do echo line $i of stderr; i=$((i+1)); done >&2"
    assert play(sh(script)).states[-1] == "COMPLETED"
    assert "line 0 of stderr" in caplog.text
    assert "line 19999 of stderr" in caplog.text
    assert len(caplog.text) < 400_000


def test_what_is_cancelled_ends_with_its_children(tmp_path: Path) -> None:
    """The group gets SIGTERM; the program may say its last words, and clean up."""
    script = f"""
        trap 'echo cleaning; echo done > {tmp_path}/done; exit' TERM
        sleep 60 & echo $! > {tmp_path}/child
        wait
    """

    async def main() -> None:
        async with started(sh(script)) as made:
            running = asyncio.create_task(made.run(RecordingTurn("hi")))
            child = int(await appears(tmp_path / "child"))
            running.cancel()
            await asyncio.wait((running,))
            assert running.cancelled()
            assert await appears(tmp_path / "done")
            await gone(child)

    run(main())


@pytest.mark.parametrize("gives_up", [False, True])
def test_what_ignores_a_cancel_is_killed(tmp_path: Path, gives_up: bool) -> None:
    """Also where nobody waits for it any more."""
    script = f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done"

    async def main() -> None:
        async with started(sh(script), cancel_timeout=1.0) as made:
            running = asyncio.create_task(made.run(RecordingTurn("hi")))
            pid = int(await appears(tmp_path / "pid"))
            running.cancel()
            if gives_up:
                await asyncio.sleep(0)
                running.cancel()
            await asyncio.wait((running,))
            await gone(pid)

    run(main())


def test_what_runs_when_the_agent_stops(tmp_path: Path) -> None:
    script = f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done"

    async def main() -> None:
        turn = RecordingTurn("hi")
        async with started(sh(script)) as made:
            running = asyncio.create_task(made.run(turn))
            pid = int(await appears(tmp_path / "pid"))
        await gone(pid)
        await running
        assert turn.last_words == "The agent was ended by SIGKILL"

    run(main())


def test_an_event_that_is_refused_ends_the_program(tmp_path: Path) -> None:
    async def main() -> None:
        turn = RecordingTurn("hi")
        async with started(sh(f"echo $$ > {tmp_path}/pid; read go; exec yes")) as made:
            turn.gate = asyncio.Event()
            running = asyncio.create_task(made.run(turn))
            turn.gate.set()
            pid = int(await appears(tmp_path / "pid"))
            turn.error = InvalidAgentResponseError("not so")
            with pytest.raises(InvalidAgentResponseError):
                await running
            await gone(pid)

    run(main())


def test_a_program_that_has_gone_since(tmp_path: Path) -> None:
    program = tmp_path / "agent.sh"
    program.write_text("#!/bin/sh\necho hi\n")
    program.chmod(0o755)

    async def main() -> None:
        async with started(str(program)) as made:
            program.unlink()
            turn = RecordingTurn("hi")
            with pytest.raises(AgentError, match="No such file"):
                await made.run(turn)

    run(main())


def test_files_by_their_bytes_are_refused() -> None:
    """S178."""
    with pytest.raises(ContentTypeNotSupportedError, match="text"):
        play("cat", Part(raw=b"\0"))


def test_events() -> None:
    events = """
        {"statusUpdate": {"status": {"state": "TASK_STATE_WORKING"}}}

        {"artifactUpdate": {"artifact": {"artifactId": "a", "parts": [{"data": {"n": 1}}]}}}
        {"statusUpdate": {"status": {"state": "TASK_STATE_REJECTED"}}}"""
    turn = play(sh(f"echo '{events}'"), is_events=True)
    assert turn.states == ["WORKING", "REJECTED"]
    assert turn.parts[0].data.struct_value["n"] == 1
    assert {event.task_id for event in turn.events} == {"task-1"}


def test_a_direct_answer() -> None:
    answer = '{"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}'
    (event,) = play(sh(f"printf %s '{answer}'"), is_events=True).events
    assert isinstance(event, Message)


@pytest.mark.parametrize(
    ("script", "states"),
    [
        ("true", ["COMPLETED"]),
        ("exit 3", ["FAILED"]),
        ('echo \'{"statusUpdate": {"status": {"state": 6}}}\'; exit 3', ["INPUT_REQUIRED"]),
    ],
)
def test_the_end_of_events(script: str, states: list[str]) -> None:
    """What the program has said itself counts; else its exit code."""
    assert play(sh(script), is_events=True).states == states


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("secret-123", "line 2 .* no StreamResponse"),
        ('{"statusUpdate": {"secret-123": 1}}', "line 2 .* no StreamResponse"),
        ("{}", "none of task, message"),
    ],
)
def test_lines_that_are_no_events(line: str, words: str, caplog: pytest.LogCaptureFixture) -> None:
    """S176: which line, and nothing of it; the log has the reason."""
    with pytest.raises(InvalidAgentResponseError, match=words) as caught:
        play(sh(f"echo; echo '{line}'; sleep 60"), is_events=True)
    assert "secret-123" not in str(caught.value)
    assert str(caught.value) in caplog.text
    assert str(caught.value.__cause__ or "") in caplog.text


@pytest.mark.parametrize(
    ("rest", "name"),
    [
        ("./my-agent.sh --fast", "my-agent"),
        ("/opt/agents/answer", "answer"),
        ("python3.11 -u tools/pizza.py --port 1", "pizza"),
        ("node", "node"),
        ("", "agent"),
        ("'", "agent"),
    ],
)
def test_the_name_on_the_card(rest: str, name: str) -> None:
    assert card_name(rest) == name


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("command:", "names no program; write command:PROGRAM"),
        ("command:  ", "names no program"),
        ("command:./a 'b", "No closing quotation"),
    ],
)
def test_specs_that_are_wrong(spec: str, words: str) -> None:
    with pytest.raises(AgentError, match=words):
        load(spec)


def test_the_loader_makes_one() -> None:
    made = load("command:cat -u", isolation="thread")
    assert type(made) is type(agent("cat"))
    assert made.name == "cat"

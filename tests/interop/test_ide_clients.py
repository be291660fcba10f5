"""What editors bring talks to `a2a-gateway stdio` over pipes, unmodified: npm's vscode-jsonrpc, in
both framings, and a client that knows lines and JSON alone.

vscode-jsonrpc is driven through the client of examples/vscode, which so is tested as well.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.javascript import NODE, install
from tests.processes import ROOT

EXAMPLE = ROOT / "examples" / "vscode"
SCRIPTS = Path(__file__).parent / "js"
LIMIT = 60

Json = Any
Steps = dict[str, Json]


def dialogue(state_dir: Path, *script: str) -> Steps:
    """What each step of a script told."""
    gateway = ["-m", "gateway.cli", "stdio", "--agent", "demo", "--state-dir", str(state_dir)]
    told = run(state_dir.parent, *script, sys.executable, *gateway)
    return {step["step"]: step["value"] for step in told}


def run(folder: Path, script: str, *arguments: str) -> list[Json]:
    """What a script printed, a value on each line."""
    done = subprocess.run(
        [NODE, SCRIPTS / script, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module", params=["headers", "lines"])
def ide(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Steps:
    """vscode-jsonrpc, by its own framing, and by lines."""
    install(EXAMPLE)
    folder = tmp_path_factory.mktemp(f"ide-{request.param}")
    return dialogue(folder / "state", "ide.mjs", request.param)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    """The client of lines."""
    return dialogue(tmp_path_factory.mktemp("lines") / "state", "lines.mjs")


def text(events: list[Json]) -> str:
    return "".join(
        part["text"]
        for event in events
        if "artifactUpdate" in event
        for part in event["artifactUpdate"]["artifact"]["parts"]
    )


def state(value: Json) -> str:
    return str(value["status"]["state"]).removeprefix("TASK_STATE_")


def test_request(ide: Steps) -> None:
    """R42, R44."""
    assert state(ide["request"]["task"]) == "COMPLETED"
    assert ide["direct"]["message"]["parts"][0]["text"].startswith("Hello")


def test_stream(ide: Steps) -> None:
    """R49: for a client that takes JSON-RPC at its word, events are notifications, the response is
    one, and it is the last."""
    events, end = ide["stream"]["events"], ide["stream"]["end"]
    assert "task" in events[0]
    assert text(events) == "one two three "
    assert state(events[-1]["statusUpdate"]) == "COMPLETED"
    assert end["streamEnd"] is True
    assert end["seq"] == len(events)


def test_many_at_once(ide: Steps) -> None:
    """SH03: each stream gets its own events, whatever comes between them."""
    assert ide["many"] == [f"w{n} w{n} " for n in range(20)]


def test_cancelled_call(ide: Steps) -> None:
    """S64: `$/cancelRequest` ends the call with an answer, and not its task."""
    assert ide["cancelled call"]["code"] == -32044
    assert state(ide["its task"]) == "WORKING"
    assert state(ide["cancelled task"]) == "CANCELED"


def test_cancelled_answer(ide: Steps) -> None:
    """The example's own: who cancels in the editor cancels the work."""
    assert ide["cancelled answer"]["state"] == "TASK_STATE_CANCELED"
    assert state(ide["task of the answer"]) == "CANCELED"


def test_conversation(ide: Steps) -> None:
    """S99, R22."""
    told = ide["conversation"]
    assert told["asked"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert told["answered"]["taskId"] == told["asked"]["taskId"]
    assert "blue" in told["text"]


def test_a_question_that_was_printed(tmp_path: Path) -> None:
    """The example shows it once, although a program's question is also what it printed last."""
    install(EXAMPLE)
    program = "command:sh -c 'echo Hello.; echo What is your name?; exit 10'"
    gateway = ["-m", "gateway.cli", "stdio", "--agent", program, "--state-dir", str(tmp_path / "s")]
    assert run(tmp_path, "ask.mjs", sys.executable, *gateway) == [
        {"state": "TASK_STATE_INPUT_REQUIRED", "said": "Hello.\nWhat is your name?\n"}
    ]


def test_errors(ide: Steps) -> None:
    """R48: numbers and typed data as at the other doors."""
    for step in ("error", "stream error"):
        assert ide[step]["code"] == -32001
        assert ide[step]["data"][0]["reason"] == "TASK_NOT_FOUND"
    assert ide["unknown method"]["code"] == -32601


def test_end(ide: Steps) -> None:
    """The end of the input ends the program, in order."""
    assert ide["end"]["reason"] == ""


def test_what_cannot_start(ide: Steps) -> None:
    """The example says why in one line."""
    assert "no-such-program" in ide["no program"]
    assert "no_such_agent" in ide["no agent"]


def test_extension(tmp_path: Path) -> None:
    """The command of examples/vscode, in as much of VS Code as it uses: answers as they come, one
    conversation, a click on Cancel."""
    install(EXAMPLE)
    arguments = ["-m", "gateway.cli", "stdio", "--agent", "demo", "--log-level", "error"]
    settings = {"command": sys.executable, "arguments": arguments}
    questions = ("stream one two", "ask", "blue", "count 50", "reject")
    state_dir = str(tmp_path / "state")
    (told,) = run(tmp_path, "extension.cjs", state_dir, json.dumps(settings), *questions)
    package = json.loads((EXAMPLE / "package.json").read_text())
    assert told["commands"] == [c["command"] for c in package["contributes"]["commands"]]
    assert told["errors"] == []
    one, two, three, four, five = told["shown"].split("> ")[1:]
    assert one == "stream one two\none two \n"
    assert "[input required]" in two
    assert "You answered: blue" in three
    assert four.startswith("count 50\n1\n2\n")
    assert "[canceled]" in four
    assert "[rejected]" in five


def test_lines(lines: Steps) -> None:
    """The same by lines: nothing but one frame stands on each."""
    assert [frame["id"] for frame in lines["request"]] == [1]
    assert state(lines["request"][0]["result"]["task"]) == "COMPLETED"


def test_lines_stream(lines: Steps) -> None:
    """R49: without a word to the contrary, each event is a response, and `streamEnd` the last."""
    *events, end = lines["stream"]
    assert {frame["id"] for frame in events} == {"s"}
    assert text([frame["result"] for frame in events]) == "one two "
    assert [frame["seq"] for frame in events] == list(range(1, len(events) + 1))
    assert end["streamEnd"] is True
    assert "result" not in end


def test_lines_strict_stream(lines: Steps) -> None:
    """R49: a session may choose the strict style."""
    assert lines["initialize"][0]["result"]["streams"] == "notifications"
    *events, end = lines["strict stream"]
    assert {frame["method"] for frame in events} == {"$/progress"}
    assert {frame["params"]["token"] for frame in events} == {3}
    assert text([frame["params"]["value"] for frame in events]) == "one two "
    assert end["result"]["streamEnd"] is True


def test_lines_survive_what_is_no_json(lines: Steps) -> None:
    """JR01."""
    (answer,) = lines["no JSON"]
    assert answer["id"] is None
    assert answer["error"]["code"] == -32700


def test_lines_cancel(lines: Steps) -> None:
    """S64."""
    assert lines["cancel"]["cancelled"]["error"]["code"] == -32044
    assert state(lines["cancel"]["task"]["result"]) == "WORKING"


def test_lines_end(lines: Steps) -> None:
    """An answer under way at the end of the input is still given; then the program ends by 0."""
    assert state(lines["last answer"][-1]["result"]["task"]) == "COMPLETED"
    assert lines["end"] == {"code": 0, "rest": None}

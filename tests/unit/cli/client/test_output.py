"""What is printed of an agent's events: each piece once, harmless on a terminal."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.client.output import Answers, Output, harmless
from gateway.pb import (
    Artifact,
    Message,
    Part,
    StreamResponse,
    Struct,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
    Value,
)


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


class Shown:
    """Events, and what they print."""

    def __init__(self, *, terminal: bool = False, save: Path | None = None, **options: Any):
        self.out = Terminal() if terminal else io.StringIO()
        self.err = io.StringIO()
        is_follow_up = options.pop("is_follow_up", False)
        output = Output(out=self.out, err=self.err, **options)
        self.answers = Answers(output, save=save, is_follow_up=is_follow_up)

    def chunk(self, *parts: Part | str, name: str = "a", append: bool = True) -> "Shown":
        made = [Part(text=part) if isinstance(part, str) else part for part in parts]
        artifact = Artifact(artifact_id=name, parts=made)
        update = TaskArtifactUpdateEvent(task_id="t", artifact=artifact, append=append)
        self.answers.event(0, StreamResponse(artifact_update=update))
        return self

    def task(self, state: str = "WORKING", **texts: str) -> "Shown":
        artifacts = [Artifact(artifact_id=n, parts=[Part(text=x)]) for n, x in texts.items()]
        status = TaskStatus(state=f"TASK_STATE_{state}")
        task = Task(id="t", context_id="c", status=status, artifacts=artifacts)
        self.answers.event(0, StreamResponse(task=task))
        return self

    def status(self, state: str, text: str = "") -> "Shown":
        status = TaskStatus(state=f"TASK_STATE_{state}")
        if text:
            status.message.parts.add(text=text)
        update = TaskStatusUpdateEvent(task_id="t", status=status)
        self.answers.event(0, StreamResponse(status_update=update))
        return self

    def end(self) -> tuple[str, list[str]]:
        """What stands on stdout, and the lines of stderr."""
        self.answers.end()
        return self.out.getvalue(), self.err.getvalue().splitlines()


def test_chunks_as_they_come() -> None:
    """Artifacts begin on lines of their own; the last line ends."""
    shown = Shown().task().chunk("a ", append=False).chunk("b").chunk("c", name="other").chunk("d")
    assert shown.end() == ("a b\nc\nd\n", ["task t", "working"])


def test_the_whole_task_again() -> None:
    """S162: as after a cut over a wire without numbers: what goes beyond what is shown."""
    shown = Shown().chunk("one ", append=False).chunk("two ")
    shown.task(a="one two three ").chunk("four").task(a="one two three four", b="more")
    assert shown.end()[0] == "one two three four\nmore\n"


def test_an_artifact_that_is_replaced() -> None:
    """Another text is shown whole, on a line of its own."""
    assert Shown().chunk("one", append=False).chunk("two", append=False).end()[0] == "one\ntwo\n"


def test_a_follow_up() -> None:
    """What the task held before is not shown again."""
    shown = Shown(is_follow_up=True).task("INPUT_REQUIRED", a="old").chunk("new", name="b")
    assert shown.end()[0] == "new\n"


def test_answers_in_states() -> None:
    """Questions are answers. So is what comes with the end, where there is no other; reasons and
    progress are not."""
    shown = Shown().task().status("WORKING", "thinking").status("INPUT_REQUIRED", "Which one?")
    assert shown.end() == (
        "Which one?\n",
        ["task t", "working", "working: thinking", "input required"],
    )
    assert Shown().status("COMPLETED", "the answer").end()[0] == "the answer\n"
    both = Shown().chunk("the answer").status("COMPLETED", "done")
    assert both.end() == ("the answer\n", ["task t", "completed: done"])
    failed = Shown(is_quiet=True).task().status("FAILED", "no\x1b[2J\nway")
    assert failed.end() == ("", ["failed: no\ufffd[2J way"])


def test_a_question_that_is_printed_already() -> None:
    """Programs print their question as the last line of what they say: it stands there once. One
    that stands elsewhere, or is the end of a line only, is printed."""
    for printed in ("Which one?\n", "one\nWhich one?\n", "Which one?"):
        shown = Shown().chunk(printed, append=False).status("INPUT_REQUIRED", "Which one?")
        out, err = shown.end()
        assert out == printed.removesuffix("\n") + "\n"
        assert err == ["task t", "input required"]
    for printed in ("Which one?\nor two\n", "So: Which one?\n"):
        shown = Shown().chunk(printed, append=False).status("INPUT_REQUIRED", "Which one?")
        assert shown.end()[0] == printed + "Which one?\n"
    again = Shown(is_follow_up=True).task("INPUT_REQUIRED", a="Which one?\n")
    assert again.status("INPUT_REQUIRED", "Which one?").end()[0] == "Which one?\n"


def test_both_outputs_in_one_file(tmp_path: Path) -> None:
    """States stand on lines of their own, as on a terminal."""
    with (tmp_path / "log").open("w+") as out, open(os.dup(out.fileno()), "w") as err:
        output = Output(out=out, err=err)
        output.text("no line end")
        output.hint("completed")
        out.seek(0)
        assert out.read() == "no line end\ncompleted\n"


@pytest.mark.parametrize(("as_json", "shown"), [(False, b"?\n"), (True, "☃\n".encode())])
def test_a_terminal_that_knows_few_letters(as_json: bool, shown: bytes) -> None:
    """What it cannot show is replaced; JSON is UTF-8 wherever it goes."""
    file = io.TextIOWrapper(io.BytesIO(), "ascii")
    Output(as_json=as_json, out=file).line("☃")
    assert file.buffer.getvalue() == shown


def test_data_and_links() -> None:
    """On lines of their own."""
    fields = Struct()
    fields.update({"b": [1, None]})
    data = Part(data=Value(struct_value=fields))
    shown = Shown().chunk("text", data, Part(url="https://x/y"), "more", append=False)
    out, _ = shown.end()
    assert out == 'text\n{"b":[1,null]}\nhttps://x/y\nmore\n'


def test_a_terminal_is_not_written_to_by_agents() -> None:
    """Control characters could rewrite what stands there; a pipe gets what was sent."""
    text = "a\x1b]0;title\x07\x9b31mb\u202ec\td\n"
    assert harmless(text) == "a\ufffd]0;title\ufffd\ufffd31mb\ufffdc\td\n"
    assert Shown(terminal=True).chunk(text).end()[0] == harmless(text)
    assert Shown().chunk(text).end()[0] == text


def test_for_machines() -> None:
    """Nothing but JSON on stdout, one event a line."""
    shown = Shown(as_json=True).task(a="x").chunk("y").status("INPUT_REQUIRED", "Which?")
    out, err = shown.end()
    assert [next(iter(json.loads(line))) for line in out.splitlines()] == [
        "task",
        "artifactUpdate",
        "statusUpdate",
    ]
    assert err == ["task t"]
    assert shown.answers.state


def test_files_under_harmless_names(tmp_path: Path) -> None:
    """S163: nothing is written outside the folder, hidden or over something, and no file twice."""
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "trap").symlink_to(tmp_path / "elsewhere")
    shown = Shown(save=folder)
    names = ["../../up", "/etc/passwd", "..", "", ".bashrc", "a\x1b\nb", "c:\\d\\e.txt", "trap"]
    for number, name in enumerate(names):
        shown.chunk(Part(raw=bytes([number]), filename=name), name=str(number))
        shown.chunk(Part(raw=bytes([number]), filename=name), name=str(number), append=False)
    assert sorted(path.name for path in folder.iterdir()) == [
        "a__b",
        "bashrc",
        "e.txt",
        "file",
        "file (2)",
        "passwd",
        "trap",
        "trap (2)",
        "up",
    ]
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Said, and the rest goes on."""
    (tmp_path / "file").write_text("")
    shown = Shown(save=tmp_path / "file").chunk(Part(raw=b"x", filename="n"), "text")
    out, (*_, line) = shown.end()
    assert out == "text\n"
    assert "cannot be saved" in line


def test_a_direct_message() -> None:
    """It has no task."""
    shown = Shown()
    shown.answers.event(0, StreamResponse(message=Message(context_id="c", parts=[Part(text="hi")])))
    assert shown.end() == ("hi\n", [])
    assert shown.answers.is_message
    assert shown.answers.context_id == "c"

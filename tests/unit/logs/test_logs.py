"""Lines of the log: their form, their ids, and what must not be in them."""

import contextvars
import json
import logging
from collections.abc import Iterator

import pytest

from gateway import logs


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Give the root logger back as it was."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before[0], before[1]


def written(capsys: pytest.CaptureFixture[str], form: str, text: str, *values: object) -> str:
    """One line, as the process `core` writes it."""
    logs.setup("info", form, "core")
    logging.getLogger("some.module").info(text, *values)
    return capsys.readouterr().err


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Time in UTC, level, process, logger, text, ids."""

    def inside() -> str:
        logs.task.set("t1")
        logs.call.set(7)
        return written(capsys, "text", "hello %s", "you")

    line = contextvars.copy_context().run(inside)
    assert line.endswith(" some.module: hello you call=7 task=t1\n")
    assert " INFO core[" in line
    assert line[10] == "T"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One object a line, whatever is in the text."""

    def inside() -> str:
        logs.call.set(7)
        logs.begin_turn("t1")
        return written(capsys, "json", 'first\nsecond "%s"', "ü")

    line = contextvars.copy_context().run(inside)
    entry = json.loads(line)
    assert line.count("\n") == 1
    assert entry["message"] == 'first\nsecond "ü"'
    assert entry["task"] == "t1"
    assert "call" not in entry
    assert entry["process"] == "core"


def test_where_a_loop_stands(capsys: pytest.CaptureFixture[str]) -> None:
    """A trace that goes along is set in under its line, and is a member of its own in JSON."""
    about = {"trace": "File a\n  call()"}
    logs.setup("info", "text", "core")
    logging.getLogger("x").warning("it stands at:", extra=about)
    assert capsys.readouterr().err.endswith(" x: it stands at:\n  File a\n    call()\n")
    logs.setup("info", "json", "core")
    logging.getLogger("x").warning("it stands at:", extra=about)
    assert json.loads(capsys.readouterr().err)["trace"] == about["trace"]


def test_no_forged_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """A line break in a value, from a client say, does not begin a line of its own."""
    line = written(capsys, "text", "value %s", "a\n2026-01-01 ERROR forged")
    assert line.count("\n") == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_taken_out(capsys: pytest.CaptureFixture[str], form: str) -> None:
    """R30: registered secrets, also in tracebacks, and whatever is sent as a credential."""
    logs.hide(["hunter2-token", "hunter2-token-longer", ""])
    logs.setup("info", form, "core")
    try:
        raise ValueError("cannot use hunter2-token-longer")
    except ValueError:
        logging.getLogger("x").exception("with hunter2-token and Bearer abcdef012345 and more")
    out = capsys.readouterr().err
    assert "hunter2" not in out
    assert "-longer" not in out
    assert "abcdef012345" not in out
    assert "Bearer ***" in out
    assert "and more" in out


def test_level(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines below the level are not written."""
    logs.setup("warning", "text", "core")
    logging.getLogger("x").info("no")
    logging.getLogger("x").warning("yes")
    out = capsys.readouterr().err
    assert "yes" in out
    assert "no" not in out.replace("warning", "")


def test_each_call_has_its_number() -> None:
    """Two contexts, two numbers."""

    def inside() -> int:
        logs.begin_call()
        return logs.call.get()

    first, second = (contextvars.copy_context().run(inside) for _ in range(2))
    assert 0 < first < second
    assert logs.call.get() == 0


def test_a_trace_cannot_pass_for_lines_or_command_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """R30: the text of an agent's exception may be a client's."""
    logs.setup("info", "text", "core")
    try:
        raise ValueError("first\n2026-01-31T10:00:00.123Z INFO core[1] forged\r\x1b[31m\x9b\u2028")
    except ValueError:
        logging.getLogger("some.module").exception("failed \x1b[2J")
    first, *others = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert first.endswith("some.module: failed \\x1b[2J")
    assert all(line.startswith("  ") for line in others)
    assert others[-1] == ("  2026-01-31T10:00:00.123Z INFO core[1] forged\\r\\x1b[31m\\x9b\\u2028")


def test_clients_that_leave_do_not_fill_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("info", "text", "core")
    grpc = logging.getLogger("grpc._cython.cygrpc")
    grpc.error("ExecuteBatchError raised in core by servicer method [%s]", b"/a/b")
    grpc.error("Unexpected [%s] raised", "ValueError")
    assert capsys.readouterr().err.count("\n") == 1

"""`--agent module:attribute`: what is taken, and what a wrong one is told."""

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.agents import Agent, AgentError
from gateway.agents.function import FunctionAgent
from gateway.agents.loader import load, proposed_card
from gateway.agents.sdk import SdkAgent
from gateway.agents.thread import ThreadAgent
from tests.conftest import run
from tests.doubles.recording import RecordingTurn, run_once

EXECUTOR = """
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.tasks import TaskUpdater

    class Echo(AgentExecutor):
        async def execute(self, context, event_queue):
            await TaskUpdater(event_queue, context.task_id, context.context_id).complete()
        async def cancel(self, context, event_queue): ...

    class Wants(Echo):
        def __init__(self, key, *, model, size=1): ...

    class Breaks(Echo):
        def __init__(self):
            raise ValueError("no key")

    class Half(AgentExecutor):
        async def execute(self, context, event_queue): ...

    class Holder:
        class inner:
            echo = Echo()

    instance = Echo()
    def make(): return Echo()
    def make_class(): return Echo
    def make_function():
        async def agent(input): yield "made"
        return agent
    def make_nothing(): return None
    def make_maker(): return make
    def make_broken(): raise KeyError("API_KEY")
"""

FUNCTIONS = """
    async def stream(input): yield "stream"
    async def coroutine(input): return "coroutine"
    def plain(input): return "plain"
    def plain_stream(input): yield "plain stream"
    async def no_argument(): yield "x"
    async def two_arguments(a, b): yield "x"

    class Own:
        name = ""
        async def start(self): ...
        async def stop(self): ...
        async def run(self, turn): ...
        async def cancel(self, turn): ...

    own = Own()

    class Partly:
        async def run(self, turn): ...
        async def cancel(self, turn): ...

    class Nothing: ...

    number = 5
"""

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules into the current directory; forgets them afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    known = set(sys.modules)

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    yield write
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def text_of(agent: Agent) -> str:
    return run(run_once(agent, RecordingTurn("x"))).text


def refusal(spec: str) -> str:
    with pytest.raises(AgentError) as caught:
        load(spec)
    return str(caught.value)


@pytest.mark.parametrize("name", ["Echo", "instance", "make", "make_class", "Holder.inner.echo"])
def test_executors(write: Write, name: str) -> None:
    write("mod_sdk.py", EXECUTOR)
    agent = load(f"mod_sdk:{name}")
    assert isinstance(agent, SdkAgent)
    assert run(run_once(agent, RecordingTurn("x"))).states == ["COMPLETED"]


@pytest.mark.parametrize("name", ["stream", "coroutine", "plain", "plain_stream"])
def test_functions(write: Write, name: str) -> None:
    write("mod_fun.py", FUNCTIONS)
    agent = load(f"mod_fun:{name}")
    assert isinstance(agent, FunctionAgent)
    assert text_of(agent) == name.replace("_", " ")


def test_a_factory_may_return_a_function(write: Write) -> None:
    write("mod_sdk.py", EXECUTOR)
    assert text_of(load("mod_sdk:make_function")) == "made"


@pytest.mark.parametrize("name", ["own", "Own"])
def test_agents_of_the_gateway_s_own_interface(write: Write, name: str) -> None:
    write("mod_fun.py", FUNCTIONS)
    agent = load(f"mod_fun:{name}", name="x")
    assert type(agent).__name__ == "Own"
    assert agent.name == "x"


def test_the_name_is_the_spec_unless_given(write: Write) -> None:
    write("mod_fun.py", FUNCTIONS)
    assert load("mod_fun:stream").name == "mod_fun:stream"
    assert load("mod_fun:stream", name="x").name == "x"


def test_the_demo_is_built_in() -> None:
    assert load("demo").name == "demo"


def test_isolation_thread(write: Write) -> None:
    write("mod_fun.py", FUNCTIONS)
    agent = load("mod_fun:stream", isolation="thread")
    assert isinstance(agent, ThreadAgent)
    assert text_of(agent) == "stream"


def test_secret_names_reach_the_executor() -> None:
    assert load("tests.doubles.agents:agent", secret_names=["x-token"])._secret_names > {  # type: ignore[attr-defined]
        "x-token"
    }


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("async def agent(input): yield 'x'", FunctionAgent),
        (EXECUTOR.replace("Wants", "_W").split("class _W")[0], SdkAgent),
        (EXECUTOR.split("class Wants")[0] + "\n    executor = Echo()", SdkAgent),
    ],
)
def test_a_module_alone(write: Write, text: str, kind: type) -> None:
    write("mod_alone.py", text)
    assert isinstance(load("mod_alone"), kind)


def test_modules_from_pythonpath(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("elsewhere/mod_path.py", "async def agent(input): yield 'path'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    assert text_of(load("mod_path:agent")) == "path"


def test_the_current_directory_comes_first(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("elsewhere/mod_twice.py", "async def agent(input): yield 'path'")
    write("mod_twice.py", "async def agent(input): yield 'here'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    assert text_of(load("mod_twice:agent")) == "here"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("mod_fum:stream", ["no module named 'mod_fum'", "did you mean mod_fun?", "PYTHONPATH"]),
        ("pack.inside", ["no module named 'pack.inside'", "did you mean pack.insight?"]),
        ("mod_fun:steam", ["has no 'steam'", "did you mean stream", "it has: stream"]),
        ("mod_fun:own.go", ["Own has no 'go'"]),
        ("mod_fun:number", ["type int", "AgentExecutor"]),
        ("mod_fun:Nothing", ["class Nothing", "execute"]),
        ("mod_fun:Partly", ["Partly has no start, stop"]),
        ("mod_fun:no_argument", ["must take one argument", "no_argument"]),
        ("mod_fun:two_arguments", ["must take one argument"]),
        ("mod_fun", ["no `agent`, no `executor`", "no AgentExecutor class", "mod_fun:NAME"]),
        ("mod_sdk", ["4 AgentExecutor classes", "Echo"]),
        ("mod_sdk:Wants", ["needs arguments (key, model)", "agent = Wants(...)"]),
        ("mod_sdk:Breaks", ["Breaks() failed", "ValueError: no key", "mod_sdk.py:"]),
        ("mod_sdk:Half", ["Half does not define cancel"]),
        ("mod_sdk:AgentExecutor", ["AgentExecutor does not define cancel, execute"]),
        ("mod_sdk:make_nothing", ["called without arguments", "is None"]),
        ("mod_sdk:make_maker", ["called without arguments", "must take one argument"]),
        ("mod_sdk:make_broken", ["calling mod_sdk:make_broken() failed", "API_KEY"]),
        ("mod_server:handler", ["a server (Handler)", "AgentExecutor behind it"]),
        ("mod_server:textwrap", ["the module textwrap", "textwrap:agent"]),
        ("needs", ["needs the module 'numpie'", "pip install numpie", "needs.py:1"]),
        ("old:agent", ["cannot import name 'TextPart'", "another version of a2a-sdk", "old.py:1"]),
        ("broken:agent", ["syntax error", "broken.py:1"]),
        ("raises:agent", ["importing raises failed", "ZeroDivisionError", "raises.py:2"]),
        ("exits:agent", ["ended the program", "__main__"]),
        ("mod_fun.py:agent", ["is a path", "mod_fun:agent"]),
        ("./pack/insight.py", ["is a path", "pack.insight:agent"]),
        ("mod_fun.stream", ["did you mean mod_fun:stream?"]),
        ("agent.sh", ["is a path", "command:./agent.sh for a program"]),
        ("/elsewhere/mod_fun.py", ["is a path", ": mod_fun:agent"]),
        ("./agent.sh --fast", ["is a path", "command:./agent.sh --fast for a program"]),
        ("", ["module:attribute"]),
        (":agent", ["module:attribute"]),
        ("mod fun:agent", ["module:attribute", "command:...", "demo"]),
        ("mod_fun:", ["no `agent`"]),
    ],
)
def test_a_wrong_spec_is_told_why(write: Write, spec: str, words: list[str]) -> None:
    write("mod_fun.py", FUNCTIONS)
    write("mod_sdk.py", EXECUTOR)
    write(
        "mod_server.py", "import textwrap\nclass Handler: agent_executor = 1\nhandler = Handler()"
    )
    write("pack/__init__.py", "")
    write("pack/insight.py", "")
    write("agent.sh", "tr a-z A-Z")
    write("needs.py", "import numpie")
    write("old.py", "from a2a.types import TextPart")
    write("broken.py", "def agent(:")
    write("raises.py", "x = 0\n1 / x")
    write("exits.py", "import sys\nsys.exit(2)")
    text = refusal(spec)
    for word in words:
        assert word in text


def test_a_wrong_isolation_is_told_why() -> None:
    with pytest.raises(AgentError, match="did you mean thread"):
        load("demo", isolation="threads")


def test_a_plain_function_does_not_import_the_sdk_s_server() -> None:
    """It costs 20 to 40 MB and half a second."""
    import subprocess

    script = (
        "import sys; from gateway.agents.loader import load; load('demo'); "
        "sys.exit(any(m.startswith('a2a.server') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        'agent_card = {"name": "Mine", "supportedInterfaces": [{"url": "http://x"}]}',
        "from a2a.types import AgentCard\nagent_card = AgentCard(name='Mine')",
    ],
)
def test_the_module_may_propose_its_card(write: Write, text: str) -> None:
    """S16, S24: what only the agent knows; addresses are the gateway's to say."""
    write("mod_card.py", f"async def agent(input):\n    return 'x'\n\n{text}\n")
    load("mod_card:agent")
    fields = proposed_card("mod_card:agent")
    assert fields["name"] == "Mine"
    assert "supportedInterfaces" not in fields


def test_a_card_with_an_unknown_field_is_refused_in_words(write: Write) -> None:
    text = "async def agent(input):\n    return 'x'\n\nagent_card = {'name': 'x', 'skillz': []}\n"
    write("mod_card.py", text)
    load("mod_card:agent")
    with pytest.raises(AgentError, match="skillz"):
        proposed_card("mod_card:agent")


def test_a_card_may_use_the_names_of_the_proto(write: Write) -> None:
    text = "agent_card = {'default_output_modes': ['text/plain']}"
    write("mod_card.py", f"async def agent(input):\n    return 'x'\n\n{text}\n")
    load("mod_card:agent")
    assert proposed_card("mod_card:agent") == {"defaultOutputModes": ["text/plain"]}


def test_a_card_of_another_kind_is_refused_in_words(write: Write) -> None:
    write("mod_card.py", "async def agent(input):\n    return 'x'\n\nagent_card = 5\n")
    load("mod_card:agent")
    with pytest.raises(AgentError, match="agent_card is a int"):
        proposed_card("mod_card:agent")

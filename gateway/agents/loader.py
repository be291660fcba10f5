"""From `--agent SPEC` to an `Agent`: `module:attribute`, or a kind of `gateway.agents.kinds`.
Layer: agents.

Everything that can be wrong with the name, the module or the object becomes an `AgentError` that
says what was found and what to write instead.
"""

import difflib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from gateway.agents import Agent, AgentError, kinds
from gateway.agents.function import FunctionAgent, is_async
from gateway.pb import AgentCard

BUILT_IN = {"demo": "gateway.agents.demo:agent"}
DEFAULT_NAMES = ("agent", "executor")
"""What `--agent module` looks for, before a lone AgentExecutor class."""
ISOLATIONS = ("loop", "thread", "process")

_AGENT_METHODS = ("start", "stop", "run", "cancel")
_KINDS = (
    "an AgentExecutor (class or instance), an async generator function or another function that "
    "takes one argument, or a function without arguments that returns one of these"
)


def load(
    spec: str,
    *,
    isolation: str = "loop",
    name: str | None = None,
    secret_names: Iterable[str] = (),
    settings: kinds.Settings | None = None,
) -> Agent:
    """The agent that `spec` names, not started. Raises `AgentError`.

    `name` is for logs, by default the spec. `secret_names` are lower-case metadata names that
    carry credentials, which executors do not get to see. `settings` are for agents that run in
    other processes; those that are not imported do so whatever the isolation.
    """
    if isolation not in ISOLATIONS:
        hint = _did_you_mean(isolation, ISOLATIONS)
        raise AgentError(f"isolation {isolation!r} is not one of: {', '.join(ISOLATIONS)}{hint}")
    spec = spec.strip()
    settings = replace(settings or kinds.Settings(), secret_names=frozenset(secret_names))
    kind, rest = kinds.find(spec)
    if kind is not None:
        return kind.make(rest, settings, name=name or kind.card_name(rest))
    module_name, attribute = _parse(BUILT_IN.get(spec, spec))
    if isolation == "process":
        from gateway.agents.process.agent import ProcessAgent

        return ProcessAgent(spec, settings, name=name or spec)
    _extend_path()
    module = _import(module_name, spec)
    found = _get(module, attribute, spec) if attribute else _pick(module, spec)
    agent = _Resolver(spec, name or spec, frozenset(secret_names)).resolve(found)
    if isolation == "thread":
        from gateway.agents.thread import ThreadAgent

        return ThreadAgent(agent)
    return agent


PROPOSED = (
    "name",
    "description",
    "version",
    "provider",
    "documentationUrl",
    "iconUrl",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
)
"""What of its card an agent decides itself; the rest is the gateway's to say truthfully."""


def proposed_card(spec: str) -> dict[str, Any]:
    """The card fields that the module of a loaded agent proposes by its variable `agent_card`: an
    `AgentCard`, or a mapping in ProtoJSON. Raises `AgentError` for anything else."""
    if kinds.find(spec)[0] is not None:
        return {}
    module_name, _ = _parse(BUILT_IN.get(spec.strip(), spec.strip()))
    card = getattr(sys.modules.get(module_name), "agent_card", None)
    if card is None:
        return {}
    if not isinstance(card, AgentCard):
        if not isinstance(card, Mapping):
            kind = type(card).__name__
            raise AgentError(
                f"agent {spec}: agent_card is a {kind}; give an AgentCard or a mapping"
            )
        try:
            card = ParseDict(dict(card), AgentCard())
        except ParseError as error:
            raise AgentError(f"agent {spec}: agent_card is no AgentCard in JSON: {error}") from None
    fields = MessageToDict(card)
    return {name: fields[name] for name in PROPOSED if name in fields}


def _parse(spec: str) -> tuple[str, str]:
    module, _, attribute = spec.partition(":")
    # a path is what people try first: show the name that it stands for
    if module.endswith(".py") or "/" in module or os.sep in module or Path(module).is_file():
        path = Path(module)
        if path.is_absolute():
            here = Path.cwd()
            path = path.relative_to(here) if path.is_relative_to(here) else Path(path.name)
        dotted = ".".join(path.with_suffix("").parts).lstrip("./")
        good = f"{dotted}:{attribute or 'agent'}"
        if not module.endswith(".py"):
            program = spec if "/" in module else f"./{spec}"
            good = f"command:{program} for a program, {good} for a Python module"
            raise AgentError(f"agent {spec!r} is a path; write {good}")
        raise AgentError(f"agent {spec!r} is a path; give the module's name instead: {good}")
    names = module.split(".") + (attribute.split(".") if attribute else [])
    if not all(name.isidentifier() for name in names):
        builtin = ", ".join(BUILT_IN)
        raise AgentError(
            f"agent {spec!r} is not of the form module:attribute, such as my_agent:agent, nor "
            f"{' or '.join(f'{kind}:...' for kind in kinds.KINDS)} (built in: {builtin})"
        )
    return module, attribute


def _extend_path() -> None:
    """Import like `python -m`: from the current directory and PYTHONPATH, however we started."""
    extra = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    for folder in reversed(extra):
        if folder not in sys.path:
            sys.path.insert(0, folder)


def _import(name: str, spec: str) -> ModuleType:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise AgentError(_missing(name, error, spec)) from error
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}"
        raise AgentError(f"agent {spec}: syntax error in {place}: {error.msg}") from error
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        raise AgentError(
            f"agent {spec}: importing {name} ended the program ({error!r}); put its start behind "
            '`if __name__ == "__main__":`'
        ) from error
    except BaseException as error:
        raise AgentError(
            f"agent {spec}: importing {name} failed: {type(error).__name__}: {error}"
            f"{_place(error)}{_version_hint(error)}"
        ) from error


def _missing(name: str, error: ModuleNotFoundError, spec: str) -> str:
    missing = error.name or ""
    if missing and (name == missing or name.startswith(missing + ".")):
        where = f"the current directory ({os.getcwd()}) and PYTHONPATH"
        hint = _did_you_mean(name, _module_names(missing))
        above, _, last = missing.rpartition(".")
        if hasattr(sys.modules.get(above), last):
            hint = f"; did you mean {above}:{last}?"
        return f"agent {spec}: no module named {missing!r} in {where}{hint}"
    package = missing.partition(".")[0]
    return (
        f"agent {spec}: {name} needs the module {missing!r}, which is not installed here; install "
        f"the package that has it (often: pip install {package}){_place(error)}"
    )


def _version_hint(error: BaseException) -> str:
    if not isinstance(error, ImportError) or (error.name or "").partition(".")[0] != "a2a":
        return ""
    return (
        f"; it was written for another version of a2a-sdk than the installed {version('a2a-sdk')}"
    )


def _module_names(missing: str) -> list[str]:
    """What stands beside a module that is not there, to guess the one that was meant."""
    parent, _, _ = missing.rpartition(".")
    folders = [Path.cwd()]
    if parent:
        folders = [Path(p) for p in getattr(sys.modules.get(parent), "__path__", [])]
    names = []
    for folder in filter(Path.is_dir, folders):
        for entry in folder.iterdir():
            is_module = entry.suffix == ".py" or entry.is_dir()
            if is_module and entry.stem.isidentifier() and not entry.stem.startswith("_"):
                names.append(f"{parent}.{entry.stem}" if parent else entry.stem)
    return names


def _place(error: BaseException) -> str:
    """Where the exception comes from: the last frame that is not the import system's."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")
    ]
    inner = [f for f in frames if f.filename not in (__file__, importlib.__file__)]
    return f" ({inner[-1].filename}:{inner[-1].lineno})" if inner else ""


def _get(module: ModuleType, attribute: str, spec: str) -> Any:
    found: Any = module
    for step in attribute.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            names = [n for n in dir(found) if not n.startswith("_")]
            where = f"module {module.__name__}" if found is module else type(found).__name__
            raise AgentError(
                f"agent {spec}: {where} has no {step!r}{_did_you_mean(step, names)}"
                f"{_candidates(module)}"
            ) from None
    return found


def _pick(module: ModuleType, spec: str) -> Any:
    for name in DEFAULT_NAMES:
        if hasattr(module, name) and not isinstance(getattr(module, name), ModuleType):
            return getattr(module, name)
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__ and _is_executor(value)
    ]
    if len(classes) == 1:
        return classes[0]
    raise AgentError(
        f"agent {spec}: module {module.__name__} has no `agent`, no `executor` and "
        f"{len(classes) or 'no'} AgentExecutor class{'es' if len(classes) > 1 else ''}; write "
        f"{module.__name__}:NAME{_candidates(module)}"
    )


def _candidates(module: ModuleType) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", module.__name__) == module.__name__
        and (_is_executor(value) or callable(value))
    ]
    return f"; it has: {', '.join(names[:10])}" if names else ""


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=2)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _is_executor(value: Any) -> bool:
    """Whether it is an SDK executor, or looks like one, class or instance."""
    sdk = sys.modules.get("a2a.server.agent_execution.agent_executor")
    # a module that never imported the SDK's server cannot hold its class: do not import it here
    base = getattr(sdk, "AgentExecutor", ())
    kind = value if inspect.isclass(value) else type(value)
    if kind is base:
        return False
    if base and issubclass(kind, base):
        return True
    return all(inspect.iscoroutinefunction(getattr(kind, m, None)) for m in ("execute", "cancel"))


def _is_own(value: Any) -> bool:
    return all(inspect.iscoroutinefunction(getattr(value, m, None)) for m in ("run", "cancel"))


class _Resolver:
    """Makes an agent of the object that a spec names."""

    def __init__(self, spec: str, name: str, secret_names: frozenset[str]):
        self._spec = spec
        self._name = name
        self._secret_names = secret_names

    def resolve(self, found: Any, *, may_call: bool = True) -> Agent:
        if inspect.isclass(found):
            return self._from_class(found)
        if _is_executor(found):
            return self._from_executor(found)
        if _is_own(found):
            return self._from_own(found)
        if callable(found) and not _is_server(found):
            return self._from_function(found, may_call)
        raise AgentError(f"agent {self._spec} is {_describe(found)}; it must be {_KINDS}")

    def _from_class(self, kind: type[Any]) -> Agent:
        if inspect.isabstract(kind):
            missing = ", ".join(sorted(kind.__abstractmethods__))
            raise AgentError(f"agent {self._spec}: {kind.__name__} does not define {missing}")
        if _is_executor(kind):
            return self._from_executor(self._make(kind))
        if _is_own(kind):
            return self._from_own(self._make(kind))
        raise AgentError(
            f"agent {self._spec} is the class {kind.__name__}, which has neither `execute` and "
            f"`cancel` (an AgentExecutor) nor `run` and `cancel`; it must be {_KINDS}"
        )

    def _from_executor(self, executor: Any) -> Agent:
        from gateway.agents.sdk import SdkAgent

        return SdkAgent(executor, name=self._name, secret_names=self._secret_names)

    def _from_own(self, found: Any) -> Agent:
        missing = [m for m in _AGENT_METHODS if not callable(getattr(found, m, None))]
        if missing:
            raise AgentError(
                f"agent {self._spec}: {type(found).__name__} has no {', '.join(missing)}; an agent "
                f"has the async methods {', '.join(_AGENT_METHODS)} (gateway.agents.Agent)"
            )
        if not getattr(found, "name", None):
            found.name = self._name
        return cast(Agent, found)

    def _from_function(self, function: Any, may_call: bool) -> Agent:
        if _wants_input(function):
            return FunctionAgent(function, name=self._name)
        if is_async(function) or inspect.isgeneratorfunction(function) or not may_call:
            # an agent that forgot its argument, or a factory too many: FunctionAgent says which
            return FunctionAgent(function, name=self._name)
        try:
            made = function()
        except Exception as error:
            raise AgentError(
                f"agent {self._spec}: calling {self._spec}() failed: {type(error).__name__}: "
                f"{error}{_place(error)}"
            ) from error
        try:
            return self.resolve(made, may_call=False)
        except AgentError as error:
            raise AgentError(
                f"agent {self._spec} was called without arguments, as it takes none, and what it "
                f"returned is no agent: {error}"
            ) from error

    def _make(self, kind: type[Any]) -> Any:
        needed = _required(kind)
        if needed:
            raise AgentError(
                f"agent {self._spec}: {kind.__name__} needs arguments ({', '.join(needed)}); name "
                f"an instance instead (agent = {kind.__name__}(...)), or a function without "
                "arguments that returns one"
            )
        try:
            return kind()
        except Exception as error:
            raise AgentError(
                f"agent {self._spec}: making {kind.__name__}() failed: {type(error).__name__}: "
                f"{error}{_place(error)}"
            ) from error


def _required(function: Any) -> list[str]:
    """The names of the arguments that a call must give."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def _wants_input(function: Any) -> bool:
    # a plain function is a factory only if it can be called with nothing
    if is_async(function) or inspect.isgeneratorfunction(function):
        return True
    return bool(_required(function))


def _describe(value: Any) -> str:
    if inspect.ismodule(value):
        return f"the module {value.__name__} (write {value.__name__}:agent)"
    if _is_server(value):
        return (
            f"a server ({type(value).__name__}), whose place the gateway takes: name the "
            "AgentExecutor behind it"
        )
    return "None" if value is None else f"of type {type(value).__name__}"


def _is_server(value: Any) -> bool:
    # the SDK's request handlers, and Starlette or FastAPI applications: what people start today
    return any(hasattr(value, name) for name in ("agent_executor", "on_message_send", "routes"))

"""Runs a program once for each message. Layer: agents. Guide: docs/agents.md."""

import asyncio
import contextlib
import logging
import os
import shlex
from pathlib import Path

from gateway.agents import SECRET_NAMES, AgentError, Turn
from gateway.agents.command import finding, given
from gateway.agents.command.errors import ErrorLog
from gateway.agents.command.keeper import Ending, Keeper, Program
from gateway.agents.command.options import CommandOptions
from gateway.agents.command.output import EventOutput, Output, TextOutput, describe
from gateway.agents.command.pipes import Pipes
from gateway.agents.kinds import Settings
from gateway.errors import InvalidAgentResponseError

logger = logging.getLogger(__name__)

MOST_STOP_SECONDS = 2.0
"""From SIGTERM to SIGKILL, or half of the cancel timeout where that is less."""
LOST = "The agent was killed in the middle of this turn"
INTERPRETERS = ("python", "node", "sh", "bash", "deno", "bun", "ruby", "perl", "php", "uv", "env")


def make(rest: str, settings: Settings, *, name: str) -> "CommandAgent":
    """The agent of `command:REST`. Raises `AgentError`."""
    return CommandAgent(split(rest), settings, name=name)


def card_name(rest: str) -> str:
    """The program's file name without its suffix, or that of the script which an interpreter is
    given."""
    try:
        program, *arguments = split(rest)
    except AgentError:
        return "agent"
    stem = Path(program).stem
    if stem.rstrip("0123456789.") in INTERPRETERS:
        scripts = [word for word in arguments if not word.startswith("-") and Path(word).suffix]
        stem = Path(scripts[0]).stem if scripts else stem
    return stem or "agent"


def split(rest: str) -> list[str]:
    """Program and arguments, as a shell would split them. Raises `AgentError`."""
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise AgentError(f"agent command:{rest}: {error}".rstrip(".") + "; close it") from None
    if not words or not words[0]:
        raise AgentError(
            "agent command: names no program; write command:PROGRAM [ARGUMENT...], such as "
            "command:./my-agent.sh"
        )
    if "\0" in rest:
        raise AgentError("agent command: has a NUL character in it")
    return words


class CommandAgent:
    """One program; each turn is one run of it."""

    def __init__(self, argv: list[str], settings: Settings, *, name: str) -> None:
        self.name = name
        self._argv = argv
        self._options = options = settings.command
        self._secret_names = SECRET_NAMES | settings.secret_names
        self._stop_seconds = min(MOST_STOP_SECONDS, settings.cancel_timeout / 2)
        self._environment = given.environment(os.environ, options.environment)
        directory = options.directory
        self._keeper = Keeper(argv, self._environment, str(directory) if directory else None)

    async def start(self) -> None:
        """Raises `AgentError` where there is no such program."""
        path = self._environment.get("PATH")
        await asyncio.to_thread(finding.check, self._argv, self._options.directory, path)
        await self._keeper.start()

    async def stop(self) -> None:
        await self._keeper.stop()

    async def run(self, turn: Turn) -> None:
        options = self._options
        output: Output
        if options.is_events:
            # to write a large one takes long: the loop goes on meanwhile
            data = await asyncio.to_thread(given.to_line, turn, self._secret_names)
            output = EventOutput(turn)
        else:
            output, data = TextOutput(turn, options.ask_code), given.to_text(turn)
        await output.begin()
        log = ErrorLog(self.name)
        program = await self._keeper.launch(given.variables(turn), lambda: Pipes(data, log.feed))
        with program.pipes:
            run = _Run(program, output, options, self._stop_seconds)
            try:
                ending = await run.to_its_end()
            except InvalidAgentResponseError as error:
                # what a line says is for nobody but the log
                logger.warning("agent %s: %s: %s", self.name, error, error.__cause__ or "")
                raise
            finally:
                program.release()
        log.end(run.what_went_wrong(ending))
        await run.conclude(ending)

    async def cancel(self, turn: Turn) -> None:
        """The program has been told by a signal."""


class _Run:
    """One run of the program, from its start to the end of its output."""

    def __init__(
        self,
        program: Program,
        output: Output,
        options: CommandOptions,
        stop_seconds: float,
    ) -> None:
        self._program = program
        self._pipes = program.pipes
        program.ended.add_done_callback(self._pipes.output.expect_end)
        self._output = output
        self._options = options
        self._stop_seconds = stop_seconds
        self._reason = ""
        """Why the program was ended before its time."""

    async def to_its_end(self) -> Ending:
        """Pass its output on; end it where it is cancelled or what it says does not fit."""
        timer = self._start_timer()
        try:
            await self._pass_on()
            return await asyncio.shield(self._program.ended)
        except BaseException:
            await self._end()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def what_went_wrong(self, ending: Ending) -> str:
        """For the log; empty where nothing did."""
        if ending.is_lost:
            return "the process that starts its programs was killed, and they with it"
        asks = not self._options.is_events and ending.code == self._options.ask_code
        return self._reason or ("" if ending.code == 0 or asks else describe(ending.code))

    async def conclude(self, ending: Ending) -> None:
        """Say how the turn ended."""
        if ending.fault:
            raise AgentError(f"the program did not run: {ending.fault}")
        if ending.is_lost:
            self._reason = self._reason or LOST
        if not self._reason:
            await self._output.finish(ending.code)
        elif not self._output.is_settled:
            await self._output.fail(self._reason)

    def _start_timer(self) -> asyncio.TimerHandle | None:
        timeout = self._options.timeout
        if timeout is None:
            return None
        reason = f"The agent ran for longer than {timeout:g} s and was ended"
        return asyncio.get_running_loop().call_later(timeout, self._break_off, reason)

    async def _pass_on(self) -> None:
        left = self._options.output_bytes
        while data := await self._pipes.output.read():
            if len(data) > left:
                self._break_off(f"The agent printed more than {self._options.output_bytes} bytes")
                self._pipes.output.drop()
                return
            left -= len(data)
            await self._output.feed(data)
            # other turns, too, where it prints faster than it is read
            await asyncio.sleep(0)

    def _break_off(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._program.end(self._stop_seconds)

    async def _end(self) -> None:
        """Give the program its time to end, and hear what it prints meanwhile no more."""
        self._program.end(self._stop_seconds)
        self._pipes.output.drop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._stop_seconds + 1.0):
                await asyncio.shield(self._program.ended)

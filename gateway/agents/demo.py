"""The agent that `make run` serves: one command for each thing that an agent can do.

It is also the longest example of a function agent. Layer: agents.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from gateway.agents.function import Input, ask, ask_auth, fail, file, link, reject, reply, status

PAUSE = 0.05
"""Seconds between two chunks."""
MAX_COUNT = 100_000

agent_card = {
    "name": "Demo",
    "description": "Shows each thing that an agent can do, one word for each; send `help`.",
    "defaultOutputModes": ["text/plain", "application/json", "text/csv", "text/html"],
    "skills": [
        {
            "id": "demo",
            "name": "Everything once",
            "description": "Text, data, files, streams, questions, direct messages, cancelling.",
            "tags": ["demo", "echo"],
            "examples": ["help", "stream", "ask"],
        }
    ],
}

HELP = """\
Send one of these words and see what comes back:
  hello        a direct message, without a task
  stream       a text in many chunks
  data         structured data
  file         a file by its bytes; `link`: by its address
  status       what the agent is doing, step by step
  ask          a question; your answer completes the task
  auth         a task that waits for an authorisation
  count N      one chunk a second, N times; good for cancelling and subscribing
  reject       a task that the agent refuses
  fail         a task that fails with a reason; `crash`: by an exception
Anything else comes back as an echo.
"""

STORY = (
    "A gateway has many doors and one room behind them. Whoever comes in, by whichever door, "
    "meets the same agent and gets the same answer."
)


async def stream(input: Input, rest: str) -> AsyncIterator[Any]:
    for word in (rest or STORY).split():
        yield word + " "
        await asyncio.sleep(PAUSE)


async def hello(input: Input, rest: str) -> AsyncIterator[Any]:
    yield reply(f"Hello, {input.caller}! Send `help` to see what I can do.")


async def data(input: Input, rest: str) -> AsyncIterator[Any]:
    yield {
        "caller": input.caller,
        "received": {"text": input.text, "data": input.data, "files": len(input.files)},
        "values": [1, 2.5, True, None, "text"],
    }


async def make_file(input: Input, rest: str) -> AsyncIterator[Any]:
    yield file(b"word,length\ngateway,7\nagent,5\n", "words.csv", "text/csv")


async def make_link(input: Input, rest: str) -> AsyncIterator[Any]:
    yield link("https://a2a-protocol.org/latest/specification/", "specification", "text/html")


async def steps(input: Input, rest: str) -> AsyncIterator[Any]:
    for step in ("reading the question", "thinking", "writing the answer"):
        yield status(step)
        await asyncio.sleep(PAUSE)
    yield "42"


async def question(input: Input, rest: str) -> AsyncIterator[Any]:
    yield ask("What is your favourite colour?")


async def authorise(input: Input, rest: str) -> AsyncIterator[Any]:
    yield ask_auth("Send any message once you have authorised me; this is only a demo.")


async def count(input: Input, rest: str) -> AsyncIterator[Any]:
    last = min(int(rest), MAX_COUNT) if rest.isascii() and rest.isdigit() else 100
    for number in range(1, last + 1):
        yield f"{number}\n"
        if number < last:
            await asyncio.sleep(1)


async def refuse(input: Input, rest: str) -> AsyncIterator[Any]:
    yield reject("I do not do that.")


async def break_down(input: Input, rest: str) -> AsyncIterator[Any]:
    yield "This is going well so far. "
    yield fail("It went wrong, as you asked.")


async def crash(input: Input, rest: str) -> AsyncIterator[Any]:
    yield "This is going well so far. "
    raise RuntimeError("the demo agent crashes when it is asked to")


async def echo(input: Input, rest: str) -> AsyncIterator[Any]:
    if input.text:
        yield input.text
    for value in input.data:
        yield value if isinstance(value, dict | list) else {"value": value}
    for part in input.files:
        yield part


async def show_help(input: Input, rest: str) -> AsyncIterator[Any]:
    yield HELP


COMMANDS: dict[str, Callable[[Input, str], AsyncIterator[Any]]] = {
    "help": show_help,
    "hello": hello,
    "stream": stream,
    "data": data,
    "file": make_file,
    "link": make_link,
    "status": steps,
    "ask": question,
    "auth": authorise,
    "count": count,
    "slow": count,
    "reject": refuse,
    "fail": break_down,
    "crash": crash,
}


async def agent(input: Input) -> AsyncIterator[Any]:
    """Answers by the first word of the message; a follow-up completes its task."""
    word, _, rest = input.text.strip().partition(" ")
    if input.task is not None and word != "ask":
        yield f"Thank you. You answered: {input.text}"
        return
    async for value in COMMANDS.get(word.lower(), echo)(input, rest.strip()):
        yield value

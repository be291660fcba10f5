"""The shortest agent: `a2a-gateway serve --agent examples.echo_function:agent`."""

from collections.abc import AsyncIterator

from gateway.agents.function import Input


async def agent(input: Input) -> AsyncIterator[str]:
    for word in input.text.split():
        yield f"{word} "

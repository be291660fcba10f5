"""`card`: an agent's card for people, or as it is, and what is wrong with it."""

import base64
import json
from typing import Any, NoReturn

from gateway.card import missing_fields
from gateway.cli.client import exits
from gateway.cli.client.calling import run
from gateway.cli.client.options import Settings
from gateway.cli.client.output import Output, one_line
from gateway.errors import FailureError
from gateway.pb import AgentCard, AgentInterface, GetExtendedAgentCardRequest
from transports.client import Connection

NO_CARD = (
    "a2a-gateway: there is no public card to read over this wire, and no extended one; where the "
    "agent has an HTTP door, read the card there"
)


def show(settings: Settings) -> NoReturn:
    """Print the card of an agent."""

    async def work(connection: Connection, output: Output) -> int:
        card = connection.card
        if card is None:
            card = await _extended(connection)
        if card is None:
            output.error(NO_CARD)
            return exits.ERROR
        if output.as_json:
            output.json(card)
        else:
            for line in describe(card):
                output.line(line)
            for reason in connection.passed_over:
                output.hint(f"not used here: {one_line(reason)}")
        problems = missing_fields(card)
        for path in problems:
            output.error(f"not valid: {path} is required by A2A, and empty")
        return exits.ERROR if problems else 0

    run(settings, work, asks_for_card=True)


async def _extended(connection: Connection) -> AgentCard | None:
    try:
        answer: Any = await connection.unary("GetExtendedAgentCard", GetExtendedAgentCardRequest())
    except FailureError as error:
        if error.failure.row.reason in (
            "UNSUPPORTED_OPERATION",
            "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
        ):
            return None
        raise
    assert isinstance(answer, AgentCard)
    return answer


def describe(card: AgentCard) -> list[str]:
    """The card, as lines for people."""
    lines = [f"{one_line(card.name)} {one_line(card.version)}".strip()]
    lines += [f"  {one_line(card.description)}"] if card.description else []
    if card.HasField("provider"):
        lines.append(
            f"  by {one_line(card.provider.organization)} {one_line(card.provider.url)}".rstrip()
        )
    for name, url in (
        ("documentation", card.documentation_url),
        ("icon", card.icon_url),
    ):
        lines += [f"  {name} {one_line(url)}"] if url else []
    lines += ["", "interfaces"]
    lines += [f"  {_interface(entry)}" for entry in card.supported_interfaces]
    lines += ["", f"can      {_capabilities(card)}"]
    lines += [f"takes    {', '.join(map(one_line, card.default_input_modes))}"]
    lines += [f"gives    {', '.join(map(one_line, card.default_output_modes))}"]
    lines += [f"access   {_access(card)}"]
    lines += [f"signed   {text}" for text in _signatures(card)]
    lines += ["", "skills"]
    for skill in card.skills:
        lines.append(f"  {one_line(skill.id)}: {one_line(skill.name)}")
        lines += [f"    {one_line(skill.description)}"] if skill.description else []
        lines += [f"    for example: {one_line(text)}" for text in skill.examples]
    return lines


def _interface(entry: AgentInterface) -> str:
    tenant = f" tenant {one_line(entry.tenant)}" if entry.tenant else ""
    binding = one_line(entry.protocol_binding)
    return f"{binding:<10} {one_line(entry.url)} ({one_line(entry.protocol_version)}){tenant}"


def _capabilities(card: AgentCard) -> str:
    can = card.capabilities
    names = [
        name
        for name, is_there in (
            ("stream", can.streaming),
            ("push notifications", can.push_notifications),
            ("show an extended card", can.extended_agent_card),
        )
        if is_there
    ]
    names += [
        f"extension {one_line(extension.uri)}{' (required)' if extension.required else ''}"
        for extension in can.extensions
    ]
    return ", ".join(names) or "answer messages"


def _access(card: AgentCard) -> str:
    """Which schemes together open the agent; alternatives by `or` (A2A 4.5)."""
    if not card.security_requirements:
        return "open to everybody"
    ways = [
        " and ".join(_scheme(card, name) for name in sorted(requirement.schemes))
        for requirement in card.security_requirements
    ]
    return " or ".join(way or "none" for way in ways)


def _scheme(card: AgentCard, name: str) -> str:
    scheme = card.security_schemes.get(name) if name in card.security_schemes else None
    match scheme.WhichOneof("scheme") if scheme is not None else None:
        case "http_auth_security_scheme":
            assert scheme is not None
            return f"{one_line(scheme.http_auth_security_scheme.scheme)} ({one_line(name)})"
        case "api_key_security_scheme":
            assert scheme is not None
            key = scheme.api_key_security_scheme
            return f"API key in {one_line(key.location)} {one_line(key.name)} ({one_line(name)})"
        case _:
            return one_line(name)


def _signatures(card: AgentCard) -> list[str]:
    """What the signatures say of themselves: nothing here has the keys to check them."""
    if not card.signatures:
        return ["no"]
    return [f"{_protected(signature.protected)}: not verified" for signature in card.signatures]


def _protected(text: str) -> str:
    try:
        header = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return one_line(f"by key {header.get('kid', 'unknown')} ({header.get('alg', 'unknown')})")
    except (ValueError, AttributeError):
        return "a signature that cannot be read"

"""From the configuration to a running program."""

from pathlib import Path

import pytest

from gateway.agents.command.options import CommandOptions
from gateway.config import Config, ConfigError, load
from gateway.config.model import Command
from gateway.core import agent_settings


def test_the_defaults_are_the_same() -> None:
    assert agent_settings(Config()).command == CommandOptions()


def test_every_key_arrives(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "agent:\n"
        "  spec: command:./agent.sh --fast\n"
        "  cancel_timeout: 3\n"
        "  command:\n"
        "    output: events\n"
        "    environment: [API_KEY, MODEL]\n"
        "    directory: /srv\n"
        "    timeout: 2m\n"
        "    output_bytes: 64KiB\n"
        "    ask_code: null\n"
    )
    settings = agent_settings(load(file))
    assert settings.cancel_timeout == 3
    assert settings.command == CommandOptions(
        is_events=True,
        environment=("API_KEY", "MODEL"),
        directory=Path("/srv"),
        timeout=120,
        output_bytes=65536,
        ask_code=None,
    )


def test_by_the_environment() -> None:
    variables = {
        "A2A_GATEWAY_AGENT__COMMAND__OUTPUT": "events",
        "A2A_GATEWAY_AGENT__COMMAND__ENVIRONMENT": "[API_KEY]",
    }
    assert load(environment=variables).agent.command == Command(
        output="events", environment=("API_KEY",)
    )


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("output", "json", "agent.command.output: 'json' is not one of 'text' or 'events'"),
        ("environment", "API_KEY", "agent.command.environment"),
        ("timeout", "0", "agent.command.timeout: '0' must be above 0"),
        ("ask_code", "0", "agent.command.ask_code"),
        ("outputs", "text", "there is no such key"),
    ],
)
def test_wrong_values_are_told_why(key: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environment={f"A2A_GATEWAY_AGENT__COMMAND__{key.upper()}": value})
    print(caught.value.problems)
    assert words in "\n".join(caught.value.problems)

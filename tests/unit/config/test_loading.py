"""File, environment and flags become one configuration, or errors that a user can act on."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import transports
from gateway.config import (
    Config,
    ConfigError,
    from_plain,
    from_wire,
    load,
    secrets_of,
    to_wire,
)
from transports.http import Options as HttpOptions

SECRET = "very-secret-value"


def problems(*args: Any, **kwargs: Any) -> list[str]:
    """The lines of the error that loading raises."""
    with pytest.raises(ConfigError) as raised:
        load(*args, **{"environment": {}, **kwargs})
    return list(raised.value.problems)


def test_defaults(tmp_path: Path) -> None:
    """Nothing given: the standard doors on loopback and no others (R56), a database in the state
    directory."""
    config = load(environment={"XDG_STATE_HOME": str(tmp_path)})
    assert config.transports.grpc is not None
    assert config.transports.grpc.address == ("127.0.0.1:50051",)
    assert list(config.transports.others) == ["http"]
    assert config.transports.others["http"].address == ("127.0.0.1:41242",)
    assert config.state_dir == tmp_path / "a2a-gateway"
    assert config.store == f"sqlite://{tmp_path}/a2a-gateway/tasks.db"
    assert config.limits.message_bytes == 16 * 2**20
    assert not config.access.is_configured


def test_state_home_that_is_not_absolute_is_ignored() -> None:
    """As the XDG base directory specification says."""
    config = load(environment={"XDG_STATE_HOME": "relative"})
    assert config.state_dir == Path.home() / ".local/state/a2a-gateway"


def test_precedence(tmp_path: Path) -> None:
    """Flags before the environment before the file."""
    file = tmp_path / "c.yaml"
    file.write_text("grace: 1\nlimits: {running: 1, waiting: 1}\nlogs: {level: debug}\n")
    config = load(
        file,
        environment={"A2A_GATEWAY_GRACE": "2", "A2A_GATEWAY_LIMITS__RUNNING": "2"},
        flags={"grace": ("--grace", "3")},
    )
    assert (config.grace, config.limits.running, config.limits.waiting) == (3, 2, 1)
    assert config.logs.level == "debug"


def test_file_named_by_the_environment(tmp_path: Path) -> None:
    """A2A_GATEWAY_CONFIG; JSON is YAML."""
    file = tmp_path / "c.json"
    file.write_text('{"agent": "my:agent", "grace": 4}')
    config = load(environment={"A2A_GATEWAY_CONFIG": str(file)})
    assert (config.agent.spec, config.grace) == ("my:agent", 4)


@pytest.mark.parametrize(
    ("store", "age", "count"), [("memory:", 3600, 10000), ("sqlite:////x", 2592000, None)]
)
def test_retention_depends_on_the_store(store: str, age: float, count: int | None) -> None:
    """Memory is bounded by default, a database only by time."""
    config = load(environment={"A2A_GATEWAY_STORE": store})
    assert (config.retention.finished_age, config.retention.finished_count) == (age, count)


def test_retention_can_be_without_end() -> None:
    """null is not the default, but none."""
    config = load(environment={"A2A_GATEWAY_RETENTION__FINISHED_AGE": "null"})
    assert config.retention.finished_age is None


class TestDoors:
    """Which doors open."""

    def test_those_that_are_named(self, tmp_path: Path) -> None:
        """A file that names one opens that one; shorthands."""
        file = tmp_path / "c.yaml"
        file.write_text("transports: {http: '127.0.0.1:8080', grpc: false}\n")
        config = load(file, environment={})
        assert config.transports.grpc is None
        assert config.transports.others["http"].address == ("127.0.0.1:8080",)

    def test_flags_choose_and_files_configure(self, tmp_path: Path) -> None:
        """--transport http takes the options of the file, not its other doors."""
        file = tmp_path / "c.yaml"
        file.write_text("transports: {http: {path: /a2a}, grpc: true}\n")
        config = load(file, environment={}, transports=["http=127.0.0.1:1"])
        assert config.transports.grpc is None
        assert config.transports.others["http"].path == "/a2a"
        assert config.transports.others["http"].address == ("127.0.0.1:1",)

    def test_variables_inside_shorthands(self) -> None:
        """One variable names the door, another sets one of its keys."""
        config = load(
            environment={
                "A2A_GATEWAY_TRANSPORTS": "[http]",
                "A2A_GATEWAY_TRANSPORTS__HTTP": "127.0.0.1:1",
                "A2A_GATEWAY_TRANSPORTS__HTTP__PATH": "/a2a",
            }
        )
        assert config.transports.grpc is None
        assert config.transports.others["http"].address == ("127.0.0.1:1",)
        assert config.transports.others["http"].path == "/a2a"

    def test_one_door_twice(self) -> None:
        """Two addresses of one door."""
        config = load(environment={}, transports=["grpc=127.0.0.1:1", "grpc=unix:/run/x"])
        assert config.transports.grpc is not None
        assert config.transports.grpc.address == ("127.0.0.1:1", "unix:/run/x")

    def test_none(self) -> None:
        """Every door off is a mistake."""
        off = {"A2A_GATEWAY_TRANSPORTS__GRPC": "false", "A2A_GATEWAY_TRANSPORTS__HTTP": "null"}
        assert problems(environment=off)[0].startswith("transports: every door is off")

    def test_unknown(self) -> None:
        """A misspelt door gets the right name."""
        assert problems(transports=["htp"]) == [
            "transports.htp: there is no door 'htp'; did you mean http? Installed are grpc, http "
            "(--transport)"
        ]

    @pytest.mark.parametrize("address", ["0.0.0.0:80", "[::]:80", "example.org:80"])
    def test_no_open_door_without_access(self, address: str) -> None:
        """A listener that others can reach needs credentials, or a word that it needs none."""
        (problem,) = problems(transports=[f"http={address}"])
        assert address in problem
        assert "access.allow_anonymous: true" in problem
        allowed = {"A2A_GATEWAY_ACCESS__ALLOW_ANONYMOUS": "true"}
        assert load(environment=allowed, transports=[f"http={address}"]).transports.others
        token = {"A2A_GATEWAY_ACCESS__TOKENS": "[{caller: a, token: t0ken}]"}
        assert load(environment=token, transports=[f"http={address}"]).access.is_configured


class TestSeveralAdapters:
    """What one address for all of them can mean."""

    @pytest.fixture(autouse=True)
    def _another_door(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(transports.TRANSPORTS, "other", "transports.http.server:HttpTransport")

    def of(self, address: str, adapters: str) -> dict[str, str]:
        """Variables."""
        return {"A2A_GATEWAY_METRICS__ADAPTER": address, "A2A_GATEWAY_ADAPTERS": adapters}

    def test_metrics_at_one_socket(self) -> None:
        """A socket has no next one."""
        names = ["http", "other"]
        (problem,) = problems(environment=self.of("unix:/run/m", "apart"), transports=names)
        assert "metrics.adapter: unix:/run/m is one socket for 2 adapter processes" in problem
        load(environment=self.of("unix:/run/m", "together"), transports=names)

    def test_metrics_beyond_the_last_port(self) -> None:
        """The ports end somewhere."""
        names = ["http", "other"]
        (problem,) = problems(environment=self.of("127.0.0.1:65535", "apart"), transports=names)
        assert problem.startswith("metrics.adapter: 127.0.0.1:65535")
        load(environment=self.of("127.0.0.1:65534", "apart"), transports=names)


class TestErrors:
    """Each names the key, the value and the fix."""

    def test_all_at_once(self) -> None:
        """Not one by one."""
        found = problems(
            environment={"A2A_GATEWAY_LIMITS__RUNNING": "many", "A2A_GATEWAY_STOER": "memory:"}
        )
        assert found == [
            "limits.running: 'many' is not a whole number (A2A_GATEWAY_LIMITS__RUNNING)",
            "A2A_GATEWAY_STOER: there is no such key; did you mean A2A_GATEWAY_STORE?",
        ]

    def test_of_a_file(self, tmp_path: Path) -> None:
        """The file is named."""
        file = tmp_path / "c.yaml"
        file.write_text("limits: {runing: 3}\nagent: {isolation: fork}\n")
        assert problems(file) == [
            f"agent.isolation: 'fork' is not one of 'loop', 'thread' or 'process' ({file})",
            f"limits.runing: there is no such key; did you mean limits.running? ({file})",
        ]

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("grace: 1\ngrace: 2\n", "line 2: is not valid YAML: the key 'grace' is given twice"),
            ("a: [", "is not valid YAML"),
            ("- a\n", "must hold sections and keys"),
            ("limits: 3\n", "limits: 3 is not a section with keys"),
            (
                "transports: {http: 8080}\n",
                "transports.http: 8080 is neither an address, such as 127.0.0.1:8080, nor",
            ),
            ("access: {tokens: {a: b}}\n", "access.tokens: is not a list"),
            ("access: {tokens: [{caller: a}]}\n", "access.tokens.0.token: is missing; add it"),
        ],
    )
    def test_of_its_form(self, tmp_path: Path, text: str, reason: str) -> None:
        """Broken files never end in a traceback."""
        file = tmp_path / "c.yaml"
        file.write_text(text)
        assert reason in "\n".join(problems(file))

    def test_of_reading(self, tmp_path: Path) -> None:
        """No file, a folder, bytes."""
        (tmp_path / "bytes").write_bytes(b"\xff\xfe")
        assert "No such file" in problems(tmp_path / "none.yaml")[0]
        assert "Is a directory" in problems(tmp_path)[0]
        assert "not UTF-8" in problems(tmp_path / "bytes")[0]

    def test_never_shows_a_secret(self, tmp_path: Path) -> None:
        """Whatever is wrong about it."""
        file = tmp_path / "c.yaml"
        for text in (
            f"access: {{tokens: {SECRET}}}",
            f"access: {{tokens: [{SECRET}]}}",
            f"access: {{tokens: [{{caller: [{SECRET}], token: {{x: {SECRET}}}}}]}}",
            f"access: {{basic: [{{username: a, password: [{SECRET}]}}]}}",
            f"link: {{secret: [{SECRET}]}}",
            f"access: {{tokens: [{{token: '{SECRET}",
        ):
            file.write_text(text)
            assert SECRET not in "\n".join(problems(file)), text


def test_variables_of_kubernetes_are_not_ours() -> None:
    """A Service called a2a-gateway sets these in every pod of its namespace."""
    config = load(
        environment={
            "A2A_GATEWAY_SERVICE_HOST": "10.0.0.1",
            "A2A_GATEWAY_SERVICE_PORT": "80",
            "A2A_GATEWAY_SERVICE_PORT_GRPC": "80",
            "A2A_GATEWAY_PORT": "tcp://10.0.0.1:80",
            "A2A_GATEWAY_PORT_80_TCP_ADDR": "10.0.0.1",
        }
    )
    assert config == load(environment={})


def test_card_from_a_file(tmp_path: Path) -> None:
    """A path is relative to the file that names it."""
    (tmp_path / "card.json").write_text('{"name": "My agent"}')
    (tmp_path / "c.yaml").write_text("card: card.json\n")
    assert load(tmp_path / "c.yaml", environment={}).card == {"name": "My agent"}
    (tmp_path / "card.json").unlink()
    (problem,) = problems(tmp_path / "c.yaml", environment={})
    assert problem.startswith("card: ")
    assert "No such file" in problem


def test_where_the_key_of_a_door_came_from() -> None:
    """--transport sets the address alone; all else is somebody else's."""
    name = "A2A_GATEWAY_TRANSPORTS__HTTP__KEEP_ALIVE"
    (problem,) = problems(environment={name: "x"}, transports=["http=127.0.0.1:0"])
    assert problem.endswith(f"({name})")
    address = "A2A_GATEWAY_TRANSPORTS__HTTP__ADDRESS"
    (problem,) = problems(environment={address: "x"}, transports=["http"])
    assert problem.endswith(f"({address})")
    (problem,) = problems(environment={address: "127.0.0.1:1"}, transports=["http=x"])
    assert problem.endswith("(--transport)")


def test_one_underscore() -> None:
    """Two stand between a section and its key: the words say which variable is meant."""
    (problem,) = problems(environment={"A2A_GATEWAY_AGENT_ISOLATION": "process"})
    assert problem.endswith(": A2A_GATEWAY_AGENT__ISOLATION")


class TestWire:
    """The way to child processes."""

    def test_round_trip(self) -> None:
        """Everything arrives, secrets as well."""
        config = load(
            environment={
                "A2A_GATEWAY_ACCESS__TOKENS": f"[{{caller: a, token: {SECRET}}}]",
                "A2A_GATEWAY_ACCESS__BASIC": "[{username: u, password: p4ss}]",
                "A2A_GATEWAY_TRANSPORTS__GRPC__TLS": "{certificate: /c, key: /k}",
                "A2A_GATEWAY_TRANSPORTS__HTTP__TLS": "{certificate: /c, key: /k}",
                "A2A_GATEWAY_CARD": "{name: x}",
            }
        )
        copy = from_wire(to_wire(config))
        assert replace(copy, transports=config.transports) == config
        assert copy.transports.grpc == config.transports.grpc
        http = from_plain(HttpOptions, copy.transports.others["http"])
        assert http == config.transports.others["http"]
        assert copy.access.tokens[0].token.reveal() == SECRET
        assert SECRET not in repr(config)

    def test_children_do_not_load_pydantic(self) -> None:
        """It would cost each of them 8 MB."""
        wire = to_wire(load(environment={}))
        code = (
            "import sys; from gateway.config import from_wire; from_wire(sys.argv[1]);"
            "sys.exit(any(m in sys.modules for m in ('pydantic', 'yaml', 'click', 'asyncio')))"
        )
        assert subprocess.run([sys.executable, "-c", code, wire], check=False).returncode == 0


def test_type_is_what_it_says() -> None:
    """The values are of the declared types, whatever the source wrote."""
    config: Config = load(environment={"A2A_GATEWAY_LIMITS__CALLS": "5"})
    assert type(config.limits.calls) is int
    assert isinstance(config.state_dir, Path)


def test_a_process_without_doors(tmp_path: Path) -> None:
    """`a2a-gateway stdio` opens none, whatever the sources say; it is told where the state is
    before anything is checked."""
    told: list[Path] = []
    file = tmp_path / "gateway.yaml"
    file.write_text("state_dir: state\ntransports: {http: 0.0.0.0:80, nonsense: {}}\n")
    config = load(file, environment={}, has_doors=False, told=told.append)
    assert told == [config.state_dir] == [tmp_path / "state"]
    assert config.transports.grpc is None
    assert config.transports.others == {}
    file.write_text("state_dir: state\nlimits: {calls: many}\n")
    with pytest.raises(ConfigError, match=r"limits\.calls"):
        load(file, environment={}, has_doors=False, told=told.append)
    assert len(told) == 2
    with pytest.raises(ConfigError, match=r"link\.address"):
        load(environment={"A2A_GATEWAY_LINK__ADDRESS": "192.0.2.1:7"}, has_doors=False)


def test_secrets() -> None:
    """All of them, for the logs to leave out."""
    config = load(
        environment={
            "A2A_GATEWAY_ACCESS__TOKENS": f"[{{caller: a, token: {SECRET}}}]",
            "A2A_GATEWAY_LINK__SECRET": "of the link",
        }
    )
    assert sorted(secrets_of(config)) == sorted([SECRET, "of the link"])

"""Makes one validated `Config` of all sources; its errors name the key, the value and the fix."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.config.checking import Origin, check
from gateway.config.doors import (
    CORES_OWN,
    DEFAULTS,
    addresses,
    check_doors,
    choose,
    split,
    with_public_names,
)
from gateway.config.model import Config
from gateway.config.sources import (
    FILE_VARIABLE,
    SourceError,
    Tree,
    from_environment,
    from_file,
    from_flags,
    merge,
)
from gateway.config.values import Address

DAY = 86400.0
LONGEST_SOCKET_PATH = 100
"""Bytes; the system allows 107."""

NO_DOORS: Tree = {CORES_OWN: None}


class ConfigError(Exception):
    """The configuration is wrong; one line for each problem."""

    def __init__(self, problems: Sequence[str]):
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def load(
    file: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, tuple[str, Any]] | None = None,
    transports: Sequence[str] = (),
    has_doors: bool = True,
    told: Callable[[Path], None] = lambda state_dir: None,
) -> Config:
    """Read and validate. `transports` are the values of --transport, `NAME` or `NAME=ADDRESS`:
    where there are any, those doors open and no other; without `has_doors` none opens, whatever
    the sources say. `told` gets the state directory as soon as it is known, which is well before
    all is checked. Raises `ConfigError`."""
    environment = os.environ if environment is None else environment
    try:
        if file is None and environment.get(FILE_VARIABLE):
            file = Path(environment[FILE_VARIABLE])
        sources = [from_file(file)] if file is not None else []
        sources += [from_environment(environment), from_flags(flags or {})]
        sources = [with_public_names(source) for source in sources]
        tree: Tree = {}
        for source in sources:
            tree = merge(tree, source.tree)
        tree = choose(tree, transports) if has_doors else {**tree, "transports": NO_DOORS}
        _read_card(tree)
    except SourceError as error:
        raise ConfigError([str(error)]) from None
    _fill_defaults(tree, environment)
    told(Path(tree["state_dir"]))
    config = _validate(tree, Origin(sources, transports))
    problems = [*_refuse_open_link(config)]
    if has_doors:
        problems += [*_refuse_open_doors(config), *_refuse_metrics(config)]
    if problems:
        raise ConfigError(problems)
    return config


def _read_card(tree: Tree) -> None:
    path = tree.get("card")
    if isinstance(path, str):
        try:
            tree["card"] = from_file(Path(path)).tree
        except SourceError as error:
            raise SourceError(f"card: {error}") from None


def _fill_defaults(tree: Tree, environment: Mapping[str, str]) -> None:
    if not tree.get("transports"):
        tree["transports"] = {name: {} for name in DEFAULTS}
    if not tree.get("state_dir"):
        tree["state_dir"] = str(default_state_dir(environment))
    else:
        tree["state_dir"] = str(Path(str(tree["state_dir"])).expanduser().absolute())
    link = tree.setdefault("link", {})
    if isinstance(link, dict) and not link.get("address"):
        link["address"] = default_link(Path(tree["state_dir"]), environment)
    if not tree.get("store"):
        tree["store"] = f"sqlite://{Path(tree['state_dir']) / 'tasks.db'}"
    in_memory = tree["store"] == "memory:"
    retention = tree.setdefault("retention", {})
    if isinstance(retention, dict):
        retention.setdefault("finished_age", 3600.0 if in_memory else 30 * DAY)
        retention.setdefault("finished_count", 10000 if in_memory else None)


def default_state_dir(environment: Mapping[str, str]) -> Path:
    """The XDG state home's `a2a-gateway`."""
    home = environment.get("XDG_STATE_HOME") or ""
    # the XDG specification has relative paths ignored
    base = Path(home) if home.startswith("/") else Path.home() / ".local" / "state"
    return base / "a2a-gateway"


def default_link(state_dir: Path, environment: Mapping[str, str]) -> str:
    """A socket in the state directory, which adapters find by the same rule. A path that is too
    long for a socket gives way to one in the user's runtime directory, or in the temporary one."""
    path = state_dir / "link" / "core.sock"
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        name = hashlib.blake2b(os.fsencode(state_dir), digest_size=8).hexdigest()
        runtime = environment.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        path = Path(runtime) / f"a2a-gateway-{os.getuid()}-{name}" / "core.sock"
    return f"unix:{path}"


def _validate(tree: Tree, origin: Origin) -> Config:
    tree, doors = split(tree)
    sections, problems = check_doors(doors, origin)
    config, others = check(Config, tree, origin)
    if problems or others:
        raise ConfigError([*problems, *others])
    assert isinstance(config, Config)
    return replace(config, transports=replace(config.transports, others=sections))


def _refuse_open_link(config: Config) -> Iterator[str]:
    if not Address.parse(config.link.address).is_local:
        yield (
            f"link.address: {config.link.address} can be reached from other machines, and the link "
            "is not encrypted; use a Unix socket, or 127.0.0.1"
        )


def _refuse_open_doors(config: Config) -> Iterator[str]:
    doors = {CORES_OWN: config.transports.grpc, **config.transports.others}
    if not any(door is not None for door in doors.values()):
        yield "transports: every door is off; name one, such as --transport http=127.0.0.1:41242"
    if config.access.is_configured or config.access.allow_anonymous:
        return
    for name, door in doors.items():
        for address in addresses(door):
            if not _is_local(address):
                yield (
                    f"transports.{name}.address: {address} can be reached from other machines, and "
                    "no access is configured, so anybody there could use the agent; configure "
                    "access.tokens, access.api_keys or access.basic, or listen on 127.0.0.1, or "
                    "say access.allow_anonymous: true"
                )


def _is_local(address: str) -> bool:
    try:
        return Address.parse(address).is_local
    except ValueError:
        return True  # no address of ours: the door of somebody else judges it


def _refuse_metrics(config: Config) -> Iterator[str]:
    """Each adapter process has an address of its own (`gateway.supervisor.metrics_addresses`)."""
    address = config.metrics.adapter
    processes = len(config.transports.others) if config.adapters == "apart" else 1
    if address is None or processes < 2:
        return
    parsed = Address.parse(address)
    if parsed.is_unix:
        yield (
            f"metrics.adapter: {address} is one socket for {processes} adapter processes; give "
            "HOST:PORT, of which each takes the next port, or say adapters: together"
        )
    elif parsed.port and parsed.port + processes - 1 > 65535:
        yield f"metrics.adapter: {address} and the next {processes - 1} ports are not all ports"

"""The core process: puts store, agent, runtime, service and servers together.

Nothing is decided here but the order of starting and stopping. Parts get plain options, so that
none of them needs to know the configuration.
"""

import asyncio
import contextlib
import gc
import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.access import Access, AccessError, from_config
from gateway.agents import Agent, AgentError, DistantAgent, ProposingAgent
from gateway.agents.command.options import CommandOptions
from gateway.agents.home import home_of
from gateway.agents.kinds import Settings, card_name
from gateway.agents.loader import load as load_agent
from gateway.agents.loader import proposed_card
from gateway.agents.watchdog import Watchdog, install
from gateway.card import Card, CardError, CardOptions
from gateway.config import Address, Config
from gateway.example import Example
from gateway.family import EXIT_ADDRESS, EXIT_AGENT, EXIT_FAILED, EXIT_STATE, EXIT_USAGE
from gateway.link.server import LinkLimits, LinkServer
from gateway.link.stream import StreamListener
from gateway.metrics import Metrics
from gateway.pb import AgentInterface, TaskState
from gateway.process import Channel, StartError, cannot_listen
from gateway.process import run as run_process
from gateway.runtime import Runtime, RuntimeOptions
from gateway.server import (
    GrpcServer,
    Listener,
    Monitor,
    PublicServer,
    ServerOptions,
    UnreadyError,
)
from gateway.service import Service, ServiceOptions
from gateway.sockets import claim_path
from gateway.state_dir import Invitation, StateDir, StateDirError, claim_folder
from gateway.store import Store, StoreError, open_store

logger = logging.getLogger(__name__)

GC_THRESHOLD = 20_000
"""Allocations between two looks for garbage; Python's 700 would look hundreds of times a second
for cycles that this code does not make."""
LEAVING_PAUSE = 0.1
LEAVING_LIMIT = 45.0
"""Seconds to wait for a state directory whose core is stopping; less than the supervisor waits
for this process."""
HAND_OVER = 0.5
"""Seconds after the doors' last request at which it has arrived here."""


class Core:
    """All parts of the core, started and stopped in order."""

    def __init__(self, config: Config, metrics: Metrics):
        self._config = config
        self._metrics = metrics
        self._state_dir = StateDir.inherit(config.state_dir)
        self._access: Access | None = None
        self._runtime: Runtime | None = None
        self._service: Service | None = None
        self._link: LinkServer | None = None
        self._link_server: GrpcServer | StreamListener | None = None
        self._public: PublicServer | None = None
        self._monitor: Monitor | None = None
        self._watchdog: Watchdog | None = None
        self._draining: asyncio.Task[None] | None = None
        self._places: dict[str, list[str]] = {}
        """Where it can be reached, for those who find the state directory held."""
        self._is_leaving = False

    async def start(self) -> Mapping[str, Any]:
        """Open the store, start the agent, listen. Raises `StartError`."""
        gc.set_threshold(GC_THRESHOLD, 10, 10)
        try:
            return await self._start()
        except StartError:
            raise
        except (AccessError, CardError) as error:
            raise StartError(str(error), EXIT_USAGE) from None
        except AgentError as error:
            if error.__cause__:
                logger.debug("the agent cannot be loaded", exc_info=error.__cause__)
            raise StartError(str(error), EXIT_AGENT) from None
        except (StateDirError, StoreError) as error:
            raise StartError(str(error), EXIT_STATE) from None

    async def _start(self) -> Mapping[str, Any]:
        config = self._config
        await self._claim_state_dir()
        self._access = from_config(config.access)
        agent = self._load_agent()
        card = Card(
            CardOptions(
                source=config.card,
                defaults=await self._proposed_card(agent),
                name=card_name(config.agent.spec),
            ),
            self._access,
        )
        self._runtime = Runtime(
            agent, self._open_store(), runtime_options(config), Observer(self._metrics)
        )
        self._metrics.watch_tasks(self._count_tasks)
        self._watchdog = install(
            asyncio.get_running_loop(),
            agent.name,
            config.agent.watchdog,
            lambda seconds: self._metrics.loop_blocked(agent.name),
        )
        await self._runtime.start()
        self._service = Service(
            self._runtime,
            card,
            self._access,
            ServiceOptions(message_bytes=config.limits.message_bytes),
            observe=self._metrics.call_ended,
            stream_opened=self._metrics.stream_opened,
            stream_closed=self._metrics.stream_closed,
        )
        await self._serve_link(card)
        addresses = await self._serve_public(card)
        self._monitor = Monitor(self._check, self._tell_ready)
        await self._monitor.start()
        self._places["grpc"] = [f"grpc {address}" for address in addresses]
        self._describe()
        self._invite()
        if self._public is None:
            return {}
        reach = self._public.reach(Example.of(config))
        return {"doors": {"grpc": addresses}, "reach": {"grpc": reach}}

    async def _claim_state_dir(self) -> None:
        """Wait for a core that is on its way out, such as one whose supervisor was killed."""
        end = time.monotonic() + LEAVING_LIMIT
        is_told = False
        while True:
            try:
                self._state_dir.acquire()
                return
            except StateDirError as error:
                if not error.is_passing or time.monotonic() > end:
                    raise
                if not is_told:
                    logger.info("waiting: %s", error)
                    is_told = True
            await asyncio.sleep(LEAVING_PAUSE)

    def _load_agent(self) -> Agent:
        config = self._config
        names = ("authorization", *(self._access.credential_names if self._access else ()))
        return load_agent(
            config.agent.spec,
            isolation=config.agent.isolation,
            secret_names=names,
            settings=agent_settings(config),
        )

    async def _proposed_card(self, agent: Agent) -> Mapping[str, Any]:
        if isinstance(agent, ProposingAgent):
            # only the process in which the agent is loaded knows
            await agent.start()
            return agent.card
        return proposed_card(self._config.agent.spec)

    def _open_store(self) -> Store:
        try:
            return open_store(self._config.store)
        except ValueError as error:
            raise StartError(str(error), EXIT_USAGE) from None

    def _count_tasks(self) -> Mapping[str, int]:
        assert self._runtime
        return {state_name(s): n for s, n in self._runtime.tasks_by_state().items()}

    # listeners

    async def _serve_link(self, card: Card) -> None:
        config = self._config
        assert self._service
        address = Address.parse(config.link.address)
        if address.is_unix:
            claim_folder(Path(address.path).parent)
        limits = config.limits
        secret = config.link.secret
        self._link = LinkServer(
            self._service,
            card,
            secret=secret.reveal().encode() if secret else b"",
            limits=LinkLimits(
                message_bytes=limits.message_bytes,
                calls_per_link=limits.calls_per_link,
                calls=limits.calls,
            ),
            on_interfaces=lambda link, found: self._set_interfaces(card, link, found),
            on_ping=self._metrics.link_answered,
        )
        if address.is_unix:
            self._link_server = StreamListener(address.path, self._link.serve, claim_path)
        else:
            options = ServerOptions(message_bytes=limits.message_bytes)
            self._link_server = GrpcServer((self._link.add_to,), (Listener(address),), options)
        await self._listen("link", self._link_server)

    async def _serve_public(self, card: Card) -> list[str]:
        door = self._config.transports.grpc
        if door is None:
            return []
        assert self._service
        listeners = [Listener(Address.parse(address), door.tls) for address in door.address]
        limits = self._config.limits
        options = ServerOptions(message_bytes=limits.message_bytes, calls=limits.calls)
        self._public = PublicServer(self._service, listeners, options, door.public_url)
        addresses = await self._listen("grpc", self._public)
        card.set_interfaces("grpc", self._public.interfaces())
        return addresses

    async def _listen(
        self, door: str, server: GrpcServer | PublicServer | StreamListener
    ) -> list[str]:
        try:
            return [str(address) for address in await server.start()]
        except OSError as error:
            text = cannot_listen(door, str(error.filename or ""), error)
            raise StartError(text, EXIT_ADDRESS) from None

    def _set_interfaces(self, card: Card, link: str, interfaces: list[AgentInterface]) -> None:
        """A link tells where its doors listen."""
        card.set_interfaces(link, interfaces)
        self._places.pop(link, None)
        if interfaces:
            self._places[link] = sorted({interface.url.rstrip("/") for interface in interfaces})
        self._describe()

    def _describe(self) -> None:
        places = [place for found in self._places.values() for place in found]
        self._state_dir.describe(places, is_leaving=self._is_leaving)

    def _invite(self) -> None:
        """Let `a2a-gateway stdio` find this core; where it cannot, all else works."""
        config = self._config
        secret = config.link.secret
        try:
            self._state_dir.invite(
                Invitation(
                    pid=os.getpid(),
                    address=config.link.address,
                    secret=secret.reveal() if secret else "",
                    agent=config.agent.spec,
                    home=home_of(config.agent.spec),
                )
            )
        except StateDirError as error:
            logger.warning("a2a-gateway stdio cannot join this core: %s", error)

    async def _check(self) -> None:
        """Raises where the core could not run a turn."""
        assert self._runtime
        await self._runtime.store.ping()
        if isinstance(self._runtime.agent, DistantAgent) and (fault := self._runtime.agent.fault):
            raise UnreadyError(fault)

    async def _tell_ready(self, is_ready: bool, reason: str) -> None:
        assert self._link
        self._link.set_ready(is_ready, reason)
        if self._public:
            await self._public.set_ready(is_ready)

    # the end

    async def drain(self, grace: float) -> None:
        """Close the native listener, and let calls end: those on links, too, once adapters have
        handed over what they had taken."""
        self._is_leaving = True
        self._describe()
        if self._public:
            await self._public.drain()
        if self._service and self._draining is None:
            self._draining = asyncio.create_task(self._drain_calls(self._service, grace))

    async def _drain_calls(self, service: Service, grace: float) -> None:
        await asyncio.sleep(min(HAND_OVER, grace))
        await service.drain(max(0.0, grace - HAND_OVER))

    async def stop(self, grace: float) -> None:
        """Let calls end, then turns that nobody waits for, then close the store."""
        end = time.monotonic() + grace
        self._is_leaving = True
        self._describe()

        def left() -> float:
            return max(0.0, end - time.monotonic())

        if self._monitor:
            await self._monitor.stop()
        if self._public:
            await self._public.drain()
        if self._draining:
            self._draining.cancel()
            await asyncio.wait((self._draining,))
        await asyncio.gather(
            *([self._service.drain(grace)] if self._service else []),
            *([self._link.stop(grace)] if self._link else []),
        )
        for server in (self._public, self._link_server):
            if server:
                await server.stop(left())
        if self._runtime:
            await self._runtime.stop(left())
        if self._watchdog:
            self._watchdog.stop()
        self._state_dir.release()


class Observer:
    """What the runtime tells, as figures."""

    def __init__(self, metrics: Metrics):
        self.event_dropped = metrics.late_event_dropped
        self.committed = metrics.store_committed
        self._metrics = metrics

    def state_entered(self, state: int) -> None:
        """Counted by the state's name."""
        self._metrics.state_entered(state_name(state))


def state_name(state: int) -> str:
    """As the protocol spells it."""
    return TaskState.Name(state)


def agent_settings(config: Config) -> Settings:
    """How agents are run, as `gateway.agents` wants it."""
    command = config.agent.command
    return Settings(
        cancel_timeout=config.agent.cancel_timeout,
        message_bytes=config.limits.message_bytes,
        context_idle=config.contexts.idle_timeout,
        watchdog=config.agent.watchdog,
        command=CommandOptions(
            is_events=command.output == "events",
            ask_code=command.ask_code,
            environment=command.environment,
            directory=command.directory,
            timeout=command.timeout,
            output_bytes=command.output_bytes,
        ),
    )


def runtime_options(config: Config) -> RuntimeOptions:
    """Limits and times as `gateway.runtime` wants them."""
    limits = config.limits
    return RuntimeOptions(
        running=limits.running,
        waiting=limits.waiting,
        waiting_per_task=limits.waiting_per_task,
        unsaved_events=limits.unsaved_events,
        unsaved_bytes=limits.unsaved_bytes,
        event_bytes=limits.message_bytes,
        exclusive=config.contexts.exclusive,
        context_idle=config.contexts.idle_timeout,
        cancel_timeout=config.agent.cancel_timeout,
        finished_age=config.retention.finished_age,
        finished_count=config.retention.finished_count,
    )


def run(config: Config, channel: Channel | None = None) -> int:
    """Run the core to its end; gives the exit code."""
    return run_process("core", Core, channel=channel, config=config)


def main() -> None:
    """As a child of the supervisor."""
    channel = Channel.inherit()
    if channel is None:
        sys.exit("a2a-gateway: this is for the supervisor to start; use: a2a-gateway core")
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(run(channel.read_config(), channel))
    sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()

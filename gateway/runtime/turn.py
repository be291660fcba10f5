"""One turn as the runtime sees it: the agent's side (`emit`) and its marks in the task's life."""

import asyncio
from threading import get_ident
from typing import TYPE_CHECKING, Any

from gateway.agents import Turn
from gateway.agents.loops import run_on
from gateway.call import Call
from gateway.pb import Event, SendMessageRequest, SendMessageResponse, Task
from gateway.store import LogEvent, TurnRow

if TYPE_CHECKING:
    from gateway.runtime.live import LiveTask


class LiveTurn(Turn):
    """A turn that waits, runs or has just ended. Versions count the changes of its task (see
    `LiveTask`); a mark of 0 is not reached yet."""

    __slots__ = (
        "begin_version",
        "end_seq",
        "ended_version",
        "failure",
        "is_cancelling",
        "is_closed",
        "is_late",
        "is_queued",
        "is_running",
        "live",
        "opening",
        "reply",
        "row",
        "run_task",
        "settled_version",
    )

    def __init__(
        self,
        call: Call,
        request: SendMessageRequest,
        live: "LiveTask",
        row: TurnRow,
        related: list[Task],
    ) -> None:
        Turn.__init__(self, call, request, live.id, live.context_id, None, related)
        self.live = live
        self.row = row
        self.opening: LogEvent | None = None
        """The task as a follow-up found it, its message included: its stream begins with that
        and brings all that the turn does, however late the reader comes."""
        self.begin_version = 0
        """The change that must be stored before the agent starts."""
        self.settled_version = 0
        """The change by which the task became terminal or interrupted in this turn."""
        self.ended_version = 0
        """The change by which the turn ended."""
        self.end_seq = 0
        """The last event of the turn, once it has ended."""
        self.reply: SendMessageResponse | None = None
        """The direct answer, where the agent gave one instead of a task."""
        self.failure: BaseException | None = None
        """Why there is no answer at all."""
        self.is_queued = False
        """Its record is stored; it waits behind another turn of the task."""
        self.is_running = False
        """Handed to the runner, which may let it wait for a place."""
        self.is_closed = False
        """Events are dropped from now on."""
        self.is_late = False
        """Events were dropped."""
        self.is_cancelling = False
        self.run_task: asyncio.Task[None] | None = None

    async def emit(self, event: Event) -> None:
        live = self.live
        # the thread tells as much as its running loop would, which costs a system call
        if get_ident() != live.runtime.thread:
            await run_on(live.runtime.loop, lambda: self.emit(event))
        elif live.accept(self, event):
            await live.drained(self)

    @property
    def session(self) -> dict[str, Any]:
        """The context's own memory, shared by its turns until it has been idle for long."""
        return self.live.runtime.contexts.session(self.live.scope, self.context_id)

    @property
    def has_answer(self) -> bool:
        """Whether a blocking send may return: settled, ended or failed, and that stored."""
        if self.failure is not None:
            return True
        saved = self.live.saved_version
        return 0 < self.settled_version <= saved or 0 < self.ended_version <= saved

    @property
    def has_begun(self) -> bool:
        """Whether the stream of the turn has something to show: its task exists and holds the
        message, or there is an answer already."""
        return self.has_answer or (
            self.live.is_stored and 0 < self.begin_version <= self.live.saved_version
        )

    @property
    def is_accepted(self) -> bool:
        """Whether `returnImmediately` may return: the task exists and the message is stored."""
        return self.is_queued or self.has_begun

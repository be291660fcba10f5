"""Where tasks, their event logs and turns are kept: one interface, several stores.

Every row and every index starts with the scope (agent, tenant, caller). The runtime is the only
writer; it groups what is ready into one `commit`. Stores keep bytes and never look into them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

from gateway.call import Scope


class LogEvent(NamedTuple):
    """One event of a task's log: its place (1, 2, ... without a gap) and a serialized
    `StreamResponse`."""

    seq: int
    payload: bytes


@dataclass(slots=True)
class TaskRow:
    """A task as stored. `snapshot` is a serialized `Task` that includes all events up to
    `snapshot_seq`; the log holds the rest. A task without an open turn has `snapshot_seq == seq`.
    """

    scope: Scope
    id: str
    context_id: str
    state: int
    """TaskState number."""
    status_us: int
    """Timestamp of the status, microseconds since the epoch."""
    created_us: int
    seq: int
    """Sequence number of the last event; 0 where there is none."""
    snapshot: bytes | None
    """None in a write: the stored snapshot stays. Never None in a read."""
    snapshot_seq: int


@dataclass(slots=True)
class TurnRow:
    """One run of the agent for one message; committed before the agent starts. A turn without
    an idempotency key is dropped when it ends; one with a key stays until retention takes it."""

    scope: Scope
    id: str
    task_id: str
    context_id: str
    key: str
    """Idempotency key, unique in the scope; empty: none."""
    digest: bytes
    """Hash of the request, to tell a repeat from another request under the same key."""
    request: bytes
    """Serialized `SendMessageRequest` as the agent gets it."""
    created_us: int
    is_open: bool = True
    outcome: bytes = b""
    """Of an ended turn that answered with a Message: serialized `SendMessageResponse`."""


@dataclass(slots=True)
class Write:
    """What one task wants stored together, applied in the order of the fields. `events` belong
    to (`scope`, `task_id`) and follow the stored log without a gap; all of them may share one row
    of the store. Events, and a row without a snapshot, of a task that is not stored are refused:
    a task that retention took does not come back."""

    scope: Scope
    task_id: str
    task: TaskRow | None = None
    """Inserted, or replaces the row of the same scope and id."""
    events: Sequence[LogEvent] = ()
    turn: TurnRow | None = None
    """Inserted, or replaces the row of the same id."""
    ended_turn: str = ""
    """Id of a turn to drop."""


class Query(NamedTuple):
    """Filters and place of one ListTasks page. Order: status_us descending, then id descending."""

    context_id: str = ""
    state: int = 0
    """TaskState number; 0: any."""
    status_from_us: int | None = None
    """Only tasks whose status is at or after it."""
    before: tuple[int, str] | None = None
    """(status_us, id) of the last task of the page before."""
    limit: int = 50
    limit_bytes: int = 16 << 20
    """Of snapshots on the page; the first task is on it whatever its size."""

    def fitting(self, sizes: Iterable[int]) -> int:
        """How many tasks are on the page, given the sizes of the snapshots that it might hold."""
        left = self.limit_bytes
        count = 0
        for size in islice(sizes, self.limit):
            left -= size
            if left < 0 and count:
                break
            count += 1
        return count


class Page(NamedTuple):
    """One page of tasks: at most `limit` rows and `limit_bytes`, whether more follow, and how many
    match in all (without `before` and the limits)."""

    rows: list[TaskRow]
    has_more: bool
    total: int


class StoreError(Exception):
    """The store did not do what was asked; nothing of the commit was stored. The text is for
    operators and holds no content of a task."""


class KeyConflictError(StoreError):
    """A turn with the same scope and idempotency key exists under another id."""

    def __init__(self, writes: tuple[int, ...]) -> None:
        super().__init__("Another turn holds this idempotency key")
        self.writes = writes
        """Places in the commit of the writes in conflict; the others can be committed again."""


class StateInUseError(StoreError):
    """Another core holds the store; the text names it."""


class Store(Protocol):
    """Methods raise `StoreError`, and nothing else, for what the store cannot do.

    `commit` is never called while another one is under way; reads may run beside it and see
    either all or nothing of it. Reads of absent rows give None or nothing.
    """

    is_durable: bool
    """False: nothing outlives the process, so records made for the next start are pointless."""

    async def open(self) -> None:
        """Take the store (raises `StateInUseError`), create or migrate its tables."""

    async def close(self) -> None:
        """Give it back; a second call does nothing."""

    def commit_now(self, writes: Sequence[Write]) -> bool:
        """`commit` for a store that never waits: True once it is done. False where `commit` has
        to be awaited; nothing was done then."""
        return False

    async def commit(self, writes: Sequence[Write]) -> None:
        """Store all of them or none; durable when it returns. One write that is refused refuses
        them all: commit them one by one to find it."""

    async def task(self, scope: Scope, task_id: str) -> TaskRow | None:
        """One task."""

    async def tasks(self, scope: Scope, query: Query) -> Page:
        """One page of the tasks of a scope."""

    async def events(
        self, scope: Scope, task_id: str, after: int, limit: int = 256
    ) -> list[LogEvent]:
        """Events with a sequence number above `after`, in order; more than `limit` may come
        where they share a row, fewer only at the end of the log."""

    async def turn_by_key(self, scope: Scope, key: str) -> TurnRow | None:
        """The turn with this idempotency key."""

    async def turns_of_task(self, scope: Scope, task_id: str) -> list[TurnRow]:
        """Stored turns of one task, oldest first."""

    async def open_turns(self) -> list[TurnRow]:
        """All turns that have not ended, of all scopes, oldest first: read once at start."""

    async def expire(
        self, *, before_us: int | None, keep: int | None, limit: int = 1000
    ) -> list[tuple[Scope, str]]:
        """Delete up to `limit` tasks in a terminal state with their events and ended turns:
        those whose status is older than `before_us`, and the oldest beyond `keep` finished tasks
        in all. Tasks with an open turn are spared. Also ended turns older than `before_us` that
        have no task. Returns the tasks; commits may run in between."""

    async def ping(self) -> None:
        """Raise `StoreError` where the store does not answer."""


def open_store(url: str, *, owner: str = "") -> Store:
    """The store for a URL: `memory:` or `sqlite:///ABSOLUTE/PATH`. `owner` is what a second process
    is told of the one that holds the store, such as its address. Raises `ValueError` that says
    which forms there are."""
    if url == "memory:":
        from gateway.store.memory import MemoryStore

        return MemoryStore()
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        from gateway.store.sqlite import SqliteStore

        return SqliteStore(url.removeprefix("sqlite://"), owner=owner)
    raise ValueError(f"store {url!r} is not known; use memory: or sqlite:///ABSOLUTE/PATH")

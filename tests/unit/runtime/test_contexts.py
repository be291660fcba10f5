"""Sessions of contexts (S90, S94)."""

from gateway.call import Scope
from gateway.runtime.contexts import Contexts

A = Scope("default", "", "a")
B = Scope("default", "", "b")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_context_keeps_its_session_and_scopes_never_share_one() -> None:
    """S90, S102."""
    contexts = Contexts()
    contexts.session(A, "c")["x"] = 1
    assert contexts.session(A, "c") == {"x": 1}
    assert contexts.session(B, "c") == {}


def test_idle_contexts_leave_memory() -> None:
    """S94."""
    clock = Clock()
    contexts = Contexts(idle_timeout=10, clock=clock)
    contexts.session(A, "old")["x"] = 1
    clock.now = 6
    contexts.session(A, "young")
    clock.now = 11
    contexts.evict()
    assert len(contexts) == 1
    assert contexts.session(A, "old") == {}


def test_a_context_with_a_running_turn_stays() -> None:
    clock = Clock()
    contexts = Contexts(idle_timeout=10, clock=clock)
    contexts.session(A, "c")["x"] = 1
    contexts.enter(A, "c")
    clock.now = 100
    contexts.evict()
    assert contexts.session(A, "c") == {"x": 1}
    contexts.leave(A, "c")
    assert not contexts.is_busy(A, "c")

"""The agent runtime: tasks, turns, contexts, event log and readers."""

from gateway.runtime.engine import Runtime
from gateway.runtime.options import RuntimeObserver, RuntimeOptions, SilentObserver
from gateway.runtime.reading import Repeated, Sent

__all__ = ["Repeated", "Runtime", "RuntimeObserver", "RuntimeOptions", "Sent", "SilentObserver"]

"""The lock file of a state directory, by the standard library alone: the supervisor uses it.

The lock belongs to the open file, not to a process: whoever keeps a core going opens the file and
lends it to each core that it starts (`LOCK_VARIABLE`). So the directory stays theirs between the
death of one core and the start of the next, and is free as soon as both are gone.
"""

import fcntl
import os

LOCK_VARIABLE = "A2A_GATEWAY_LOCK"
"""Names the descriptor of the lock file that a core inherits."""
LOCK_FILE = "core.lock"


def open_lock(state_dir: str) -> int:
    """The lock file's descriptor, the directory made where it is missing; nothing is locked yet.
    Raises `OSError`."""
    os.makedirs(state_dir, mode=0o700, exist_ok=True)
    path = os.path.join(state_dir, LOCK_FILE)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def try_lock(descriptor: int) -> bool:
    """Take the lock, unless another open file has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def inherited_lock() -> int | None:
    """The descriptor that this process was lent; taken out of the environment, so that no child
    of ours has it."""
    number = os.environ.pop(LOCK_VARIABLE, "")
    if not number:
        return None
    os.set_inheritable(int(number), False)
    return int(number)

"""Which agents depend on the directory that the gateway was started in.

The same spec in two directories may mean two agents; whoever joins a running core has to know.
Imports nothing that is not loaded anyway.
"""

import os
import shlex


def home_of(spec: str) -> str:
    """The current directory, where the agent `spec` is found there; else empty."""
    kind, _, rest = spec.partition(":")
    if kind == "command":
        return os.getcwd() if _is_relative_program(rest) else ""
    top = kind.partition(".")[0]
    found = os.path.exists(f"{top}.py") or os.path.isdir(top)
    return os.getcwd() if top and found else ""


def _is_relative_program(command: str) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return bool(words) and "/" in words[0] and not words[0].startswith("/")

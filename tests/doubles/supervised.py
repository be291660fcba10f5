"""A supervisor with two children of `tests.doubles.child`; the configuration is its argument.

`FAKE_ORPHAN` names a file for the id of a third child, of which the supervisor knows nothing.
"""

import json
import os
import sys
from pathlib import Path

from gateway.child import Child
from gateway.supervisor import Supervisor


def main() -> int:
    """Run it; prints `ready` and what the children reported."""
    config = json.loads(sys.argv[1])
    children = [Child(name, ["tests.doubles.child", name]) for name in ("core", "adapter")]
    supervisor = Supervisor(
        config, children[0], children[1:], lambda reports, _: print("ready", json.dumps(reports))
    )
    if orphan := os.environ.get("FAKE_ORPHAN"):
        Path(orphan).write_text(str(os.posix_spawn("/bin/sleep", ["sleep", "60"], {})))
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())

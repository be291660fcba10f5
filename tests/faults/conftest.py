"""Short as in `make test` and CI, or long as in `make faults`."""

import os
import random

IS_LONG = os.environ.get("FAULTS") == "long"


def seed() -> int:
    """Of a run's chances: as asked for, always the same in the short form, new in the long one."""
    chosen = os.environ.get("FAULTS_SEED") or (random.randrange(10**6) if IS_LONG else 1)
    print(f"FAULTS_SEED={chosen}")
    return int(chosen)

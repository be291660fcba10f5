"""Short as in `make test` and CI, or long as in `make faults`."""

import os

IS_LONG = os.environ.get("FAULTS") == "long"

"""How a person calls `a2a-gateway` in a shell, for lines that are printed to be copied."""

import os
import shutil
import sys
from functools import cache
from pathlib import Path
from shlex import quote

NAME = "a2a-gateway"


@cache
def program() -> str:
    """Its name, where PATH leads to the one that runs; else its path."""
    own = Path(sys.executable).with_name(NAME)
    found = shutil.which(NAME)
    if not own.exists() or (found is not None and os.path.samefile(found, own)):
        return NAME
    here = Path.cwd()
    return quote(str(own.relative_to(here) if own.is_relative_to(here) else own))

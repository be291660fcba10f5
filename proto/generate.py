"""Compile proto/*.proto into gateway/pb; with --check, say whether what is there is up to date."""

import argparse
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

PROTO = Path(__file__).parent


def generate(target: Path) -> None:
    """Write the modules of all our .proto files, and their stubs, to `target`."""
    for source in sorted(PROTO.glob("*.proto")):
        status = protoc.main(
            [
                "protoc",
                f"--proto_path={PROTO}",
                f"--python_out={target}",
                f"--pyi_out={target}",
                str(source),
            ]
        )
        if status:
            sys.exit(f"{source} cannot be compiled; protoc's messages are above")


def check(target: Path) -> None:
    """Exit with words where `target` does not hold what `generate` would write."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        stale = [
            made.name
            for made in sorted(Path(folder).iterdir())
            if not (target / made.name).is_file()
            or (target / made.name).read_bytes() != made.read_bytes()
        ]
    if stale:
        sys.exit(f"{target}: {', '.join(stale)} not up to date; run: make generate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    (check if arguments.check else generate)(arguments.target)


if __name__ == "__main__":
    main()

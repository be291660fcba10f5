"""Compile proto/*.proto into gateway/pb, and agent.proto with all that it imports into
proto/agent.binpb; with --check, say whether what is there is up to date."""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from a2a.types import a2a_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

PROTO = Path(__file__).parent
CONTRACT = "agent.binpb"
PACKAGE = "a2a_gateway"
"""Put before the files' names in our own modules: an agent in the same process may have an
`agent.proto` of its own, and names of files are global."""

# stubs compiled from a2a.proto cannot be loaded beside the SDK, which has them already
OWN_IMPORT = "import a2a_pb2 as"
SDK_IMPORT = "from a2a.types import a2a_pb2 as"


def generate(target: Path, contract: Path) -> None:
    """Write the modules of all our .proto files, and their stubs, to `target`, and the compiled
    contract of agents to the file `contract`."""
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder, "known.binpb")
        known.write_bytes(_with_imports(a2a_pb2.DESCRIPTOR).SerializeToString(deterministic=True))
        known_too = f"--descriptor_set_in={known}"
        made = f"--descriptor_set_out={contract}"
        _compile(f"--proto_path={PROTO}", known_too, "--include_imports", made, "agent.proto")
        outputs = [f"--python_out={folder}", f"--pyi_out={folder}"]
        for source in PROTO.glob("*.proto"):
            named = f"{PACKAGE}/{source.name}"
            _compile(f"--proto_path={PACKAGE}={PROTO}", known_too, *outputs, named)
        for module in Path(folder, PACKAGE).glob("*_pb2.py*"):
            text = module.read_text().replace(OWN_IMPORT, SDK_IMPORT)
            (target / module.name).write_text(text)


def _compile(*arguments: str) -> None:
    if protoc.main(["protoc", *arguments]):
        sys.exit(f"{arguments[-1]} cannot be compiled; protoc's messages are above")


def _with_imports(file: Any) -> FileDescriptorSet:
    """A file's descriptor behind those of all that it imports."""
    found: dict[str, bytes] = {}

    def visit(descriptor: Any) -> None:
        for dependency in descriptor.dependencies:
            visit(dependency)
        found.setdefault(descriptor.name, descriptor.serialized_pb)

    visit(file)
    files = FileDescriptorSet()
    for serialized in found.values():
        files.file.add().ParseFromString(serialized)
    return files


def check(target: Path) -> None:
    """Exit with words where `target` does not hold what `generate` would write."""
    with tempfile.TemporaryDirectory() as folder:
        contract = Path(folder, CONTRACT)
        generate(Path(folder), contract)
        places = {made: (PROTO if made == contract else target) for made in Path(folder).iterdir()}
        stale = [
            made.name
            for made, place in sorted(places.items())
            if not (place / made.name).is_file()
            or (place / made.name).read_bytes() != made.read_bytes()
        ]
    if stale:
        sys.exit(f"{', '.join(stale)}: not up to date; run: make generate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    if arguments.check:
        check(arguments.target)
    else:
        generate(arguments.target, PROTO / CONTRACT)


if __name__ == "__main__":
    main()

"""A door of another package: one line of text in, one line out, over TCP.

`install` puts it and its distribution's entry point into a folder for PYTHONPATH, as pip would. Two
doors: `carrier-pigeon` states its section, `homing_pigeon` takes any mapping and checks it.
"""

import shutil
from pathlib import Path

ENTRY_POINTS = """[a2a_gateway.transports]
carrier-pigeon = pigeon_post:CarrierPigeon
homing_pigeon = pigeon_post:HomingPigeon
lame-pigeon = pigeon_post_lame:LamePigeon
"""
LAME = "import no_such_wing\n"


def install(folder: Path) -> Path:
    """Put the distribution into a folder; gives the folder."""
    about = folder / "pigeon_post-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeon-post\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    shutil.copy(Path(__file__).with_name("pigeon_post.py"), folder)
    (folder / "pigeon_post_lame.py").write_text(LAME)
    return folder

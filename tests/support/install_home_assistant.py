"""Install a Home Assistant server into an environment of its own: python -m tests.support.install_home_assistant FOLDER

By its own constraints, without which pip tries versions for ten minutes; with what its `demo` home needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

VERSION = os.environ.get("HASS_VERSION", "2024.3.3")  # the last one for Python 3.11
# What the integrations of the demo home ask for: the server would install it itself, which needs a network each time.
NEEDED = (
    "Pillow janus psutil-home-assistant SQLAlchemy fnv-hash-fast home-assistant-frontend josepy<2 hassil "
    "home-assistant-intents mutagen ha-ffmpeg PyTurboJPEG"
)


def main(folder: Path) -> None:
    """Nothing if the server is there already."""
    if (folder / "bin" / "hass").exists():
        return
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip"]
    with tempfile.TemporaryDirectory() as place:
        package = f"homeassistant=={VERSION}"
        subprocess.run([*pip, "download", "--no-deps", "-d", place, package], check=True)
        wheel = next(Path(place).glob("homeassistant-*.whl"))
        constraints = Path(place) / "constraints.txt"
        constraints.write_bytes(zipfile.ZipFile(wheel).read("homeassistant/package_constraints.txt"))
        subprocess.run([*pip, "install", "-c", str(constraints), package, *NEEDED.split()], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Bring the Hudi bundle for Spark 3.5 into `.interop/jars/` with the ordinary Maven client.

Where there is no Maven client nothing is done: the Spark session of the interop tests then names
the same coordinates in `spark.jars.packages` and Spark fetches the bundle itself.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COORDINATES = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.7.1:copy"
JAR_FOLDER = Path(__file__).resolve().parent.parent / ".interop" / "jars"


def jar_path(coordinates: str = COORDINATES, folder: Path = JAR_FOLDER) -> Path:
    """The place of the jar with those Maven coordinates."""
    _, artifact, version = coordinates.split(":")
    return folder / f"{artifact}-{version}.jar"


def fetch(maven: str, jar: Path) -> None:
    """Let Maven copy the bundle to `jar`, which is there in full or not at all."""
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent) as incoming:
        command = [maven, "-q", "-B", COPY_GOAL]
        options = [f"-Dartifact={COORDINATES}", f"-DoutputDirectory={incoming}"]
        subprocess.run([*command, *options], check=True, cwd=incoming)
        (Path(incoming) / jar.name).replace(jar)


def main() -> int:
    """Fetch the jar unless it is there; the exit code is Maven's success."""
    jar = jar_path()
    maven = shutil.which("mvn")
    if jar.exists():
        print(f"{jar.name} is in place")
    elif maven is None:
        print("no mvn on PATH: Spark itself will fetch the Hudi bundle")
    else:
        print(f"fetching {COORDINATES} with {maven}")
        try:
            fetch(maven, jar)
        except (subprocess.CalledProcessError, OSError) as error:
            print(f"error: Maven could not bring {COORDINATES}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Bring jars into `.interop/jars/` with the ordinary Maven client.

    python scripts/fetch_jars.py [peers]

The Hudi bundle for Spark 3.5 is the second judge; with `peers` the table formats come too that
`make bench` measures against. Where there is no Maven client nothing is done: the Spark session of
the interop tests then names the same coordinates in `spark.jars.packages` and Spark fetches them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COORDINATES = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
PEERS = (
    "io.delta:delta-spark_2.12:3.3.2",
    "io.delta:delta-storage:3.3.2",
    "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0",
)
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.7.1:copy"
JAR_FOLDER = Path(__file__).resolve().parent.parent / ".interop" / "jars"


def jar_path(coordinates: str = COORDINATES, folder: Path = JAR_FOLDER) -> Path:
    """The place of the jar with those Maven coordinates."""
    _, artifact, version = coordinates.split(":")
    return folder / f"{artifact}-{version}.jar"


def fetch(maven: str, coordinates: str, jar: Path) -> None:
    """Let Maven copy a jar to `jar`, which is there in full or not at all."""
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent) as incoming:
        command = [maven, "-q", "-B", COPY_GOAL]
        options = [f"-Dartifact={coordinates}", f"-DoutputDirectory={incoming}"]
        subprocess.run([*command, *options], check=True, cwd=incoming)
        (Path(incoming) / jar.name).replace(jar)


def main(arguments: list[str]) -> int:
    """Fetch the jars that are not there; the exit code is Maven's success."""
    maven = shutil.which("mvn")
    for coordinates in (COORDINATES, *(PEERS if "peers" in arguments else ())):
        jar = jar_path(coordinates)
        if jar.exists():
            print(f"{jar.name} is in place")
        elif maven is None:
            print(f"no mvn on PATH: Spark itself will fetch {coordinates}")
        else:
            print(f"fetching {coordinates} with {maven}")
            try:
                fetch(maven, coordinates, jar)
            except (subprocess.CalledProcessError, OSError) as error:
                print(f"error: Maven could not bring {coordinates}: {error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

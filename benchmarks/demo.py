"""CPU seconds of `surefind demo`, in a new folder.

python benchmarks/demo.py [--folder FOLDER]      a JSON file; the demo's models stay in the folder
"""

import argparse
import resource
import shutil
import subprocess
import sys
from pathlib import Path

from measure import write

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=RESULTS / "demo", help="is removed first")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "demo.json")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "surefind", "demo", "-o", str(arguments.folder)], check=True)  # noqa: S603
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    write({"cpu_seconds": used.ru_utime + used.ru_stime}, arguments.output)


if __name__ == "__main__":
    main()

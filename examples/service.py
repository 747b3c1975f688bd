"""Ask a service: start `surefind serve`, send it photos, print its verdicts, end it.

python examples/service.py INDEX PHOTOS
"""

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

PATIENCE = 60  # seconds


def search(server: str, photo: Path, k: int = 3) -> dict[str, Any]:
    """All of the client that is needed."""
    question = urllib.request.Request(f"{server}/v1/search?k={k}", data=photo.read_bytes())
    question.add_header("Content-Type", "application/octet-stream")
    with urllib.request.urlopen(question, timeout=PATIENCE) as answer:
        return json.load(answer)


def main(index: str, photos: Path) -> None:
    command = [sys.executable, "-m", "surefind", "serve", index, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as service:
        line = service.stdout.readline().strip()
        print(line)
        server = re.search(r"http://\S+", line)
        if server is None:
            sys.exit(f"{' '.join(command)} did not start")
        for photo in sorted(photos.glob("*.png")):
            found = search(server[0], photo)
            sure = "" if found["confidence"] is None else f" ({found['confidence']:.3f})"
            milliseconds = 1000 * found["seconds"]["total"]
            first = found["hits"][0]["id"]
            print(f"{photo.name}: {found['verdict']}{sure}, first {first}, {milliseconds:.0f} ms")
        with urllib.request.urlopen(f"{server[0]}/metrics", timeout=PATIENCE) as answer:
            told = answer.read().decode()
        print(*re.findall(r"^surefind_verdicts_total.*$", told, flags=re.MULTILINE), sep="\n")
        service.terminate()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

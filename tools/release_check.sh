#!/usr/bin/env bash
# Is what would be released whole? Builds wheel and sdist, installs the wheel into an empty
# environment, runs the demo there from an empty folder, and checks types against it.
# Takes some minutes and about 2 GB of disk, which are freed at the end. `make release-check`
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
python=${PYTHON:-$root/.venv/bin/python} # with build, hatchling and mypy
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "== building"
"$python" -m build --no-isolation --outdir "$work/dist" "$root" >"$work/build.log" 2>&1 ||
    { cat "$work/build.log"; exit 1; }
ls -l "$work/dist"

echo "== installing into an empty environment"
"$python" -m venv "$work/venv"
new=$work/venv/bin
"$new/pip" install --quiet --disable-pip-version-check -c constraints.txt "$work"/dist/*.whl
du -sh "$work/venv"

echo "== running it from an empty folder"
mkdir "$work/empty"
cd "$work/empty"
unset PYTHONPATH
"$new/surefind" --version
"$new/python" -c 'import sys, surefind; assert surefind.__file__.startswith(sys.prefix), surefind.__file__'
"$new/surefind" doctor
time "$new/surefind" demo

echo "== types"
cat >typed.py <<'PROGRAM'
import surefind as sf

encoder: sf.Encoder = sf.Encoder.load("model")
spread = encoder.encode(["image.jpg"]).spread
where: str = encoder.push_to_hub("owner/name", private=True)
PROGRAM
cat >mistyped.py <<'PROGRAM'
import surefind as sf

wrong: int = sf.Encoder.load("model").fingerprint
PROGRAM
checked() { "$python" -m mypy --strict --python-executable "$new/python" --cache-dir "$work/mypy" "$1"; }
checked typed.py
if checked mistyped.py >mistyped.log; then
    echo "types of the installed package are not seen"
    exit 1
fi
grep -q 'incompatible type\|Incompatible types' mistyped.log || { cat mistyped.log; exit 1; }
echo "== all is well"

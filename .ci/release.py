"""A release in dist/: sdist and wheel built, checked and tried, and notes from the changelog.

    python .ci/release.py [--tests PATH ...]

On Linux the wheel is made to run wherever its C library is as old as the newest symbol it uses
(auditwheel). It is installed into an environment of its own, in which no compiler is found, and the
fast tests run by it there. Nothing is uploaded.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST, PLACE = ROOT / "dist", ROOT / "build" / "release"
LARGEST = 10 << 20
EXTENSIONS = ("_minnorm", "_native_loops", "_count", "_dual", "_ngrams")
USED = "from labelset.extensions import *; import sys; sys.exit(not all(map(is_built, EXTENSIONS)))"


def ran(*command: object, **more: object) -> None:
    """Show a command and run it; what fails ends the release."""
    print("$", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, cwd=ROOT, **more)


def fails(why: str) -> None:
    """End the release."""
    sys.exit(f"no release: {why}")


def notes(version: str) -> str:
    """What the changelog says of a version."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", text, re.S | re.M)
    if found is None or not found[1].strip():
        fails(f"CHANGELOG.md has nothing under '## {version}'")
    return found[1].strip() + "\n"


def built() -> Path:
    """The wheel, and beside it the sdist that it was made from."""
    shutil.rmtree(DIST, ignore_errors=True)
    ran(sys.executable, "-m", "build", "--no-isolation")
    (wheel,) = DIST.glob("*.whl")
    if sys.platform == "linux":
        beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = os.environ | {"PATH": beside}
        ran(sys.executable, "-m", "auditwheel", "repair", wheel, "--wheel-dir", DIST, env=env)
        (repaired,) = (path for path in DIST.glob("*.whl") if path != wheel)
        wheel.unlink()
        wheel = repaired
    return wheel


def checked(wheel: Path) -> None:
    """What an index and its users look at."""
    ran(sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
    ran(Path(sys.executable).with_name("check-wheel-contents"), wheel)
    for path in DIST.iterdir():
        if path.stat().st_size > LARGEST:
            fails(f"{path.name} has {path.stat().st_size / 1e6:.1f} MB")
    inside = " ".join(zipfile.ZipFile(wheel).namelist())
    if absent := [name for name in EXTENSIONS if f"/{name}." not in inside]:
        fails(f"{wheel.name} has no {', '.join(absent)}: is there a compiler?")


def tried(wheel: Path, tests: list[str]) -> None:
    """The fast tests by the wheel, where no compiler is found."""
    shutil.rmtree(PLACE, ignore_errors=True)
    ran(sys.executable, "-m", "venv", PLACE)
    python = PLACE / ("Scripts" if os.name == "nt" else "bin") / "python"
    wanted = f"{wheel}[test]"
    ran(python, "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt", wanted)
    ran(python, "-m", "pip", "install", "--quiet", "--no-deps", "./studies")
    bare = os.environ | {"PATH": str(python.parent), "CC": "false", "CXX": "false"}
    ran(python, "-P", "-c", USED, env=bare)
    by = "import labelset, sys; sys.exit('site-packages' not in labelset.__file__)"
    ran(python, "-P", "-c", by, env=bare)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"  # tests call other programs
    bare |= {"PATH": path}
    spread = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
    ran(python, "-m", "pytest", *tests, *spread, "-m", "not slow", env=bare)


def main() -> None:
    """Build, check, try, and write the notes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", nargs="+", default=["tests"], metavar="PATH")
    tests = parser.parse_args().tests
    about = (ROOT / "src" / "labelset" / "__init__.py").read_text(encoding="utf-8")
    text = notes(re.findall(r'^__version__ = "(.*)"$', about, re.M)[0])
    wheel = built()
    checked(wheel)
    tried(wheel, tests)
    (DIST / "NOTES.md").write_text(text, encoding="utf-8")
    print(f"dist/ holds {', '.join(sorted(path.name for path in DIST.iterdir()))}")


if __name__ == "__main__":
    main()

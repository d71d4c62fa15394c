"""The sdist and the wheel: what is in them, and that the wheel works away from its source."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "labelset"
NOT_KEPT = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "*.pyd")
pytest.importorskip("build")
pytestmark = pytest.mark.slow
if sys.platform != "linux":
    pytest.skip("one system is enough for what is in the files", allow_module_level=True)


def ran(*command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """`python -m build`: the sdist of a copy of the tree, and the wheel made from that sdist."""
    folder = tmp_path_factory.mktemp("build") / "labelset"
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "csrc", folder / "csrc")
    shutil.copytree(ROOT / "src", folder / "src", ignore=NOT_KEPT)
    (folder / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "test_labels.py", folder / "tests")
    ran(sys.executable, "-m", "build", "--no-isolation", folder)
    return folder / "dist"


def sources():
    """Every file of the package that git would keep, below src/."""
    kept = [p for p in SOURCE.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return {f"labelset/{p.relative_to(SOURCE)}" for p in kept if p.suffix not in (".so", ".pyc")}


def test_the_sdist_has_all_that_a_build_needs(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in sources()} - names == set()
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names
    in_c = {str(path.relative_to(ROOT)) for path in (ROOT / "csrc").rglob("*.[ch]")}
    assert {path.split("/")[1] for path in in_c} == {
        *("loops", "metrics", "proofs", "solve", "text")
    }
    assert in_c - names == set()


def test_the_wheel_has_the_package_and_nothing_else(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        (about,) = [n for n in names if n.endswith("METADATA")]
        metadata = archive.read(about).decode()
    assert sources() - names == set()
    assert "labelset/py.typed" in names
    assert any(name.startswith("labelset/report/browser/") for name in names)
    extra = {n for n in names - sources() if ".dist-info/" not in n}
    end = re.escape(sysconfig.get_config_var("EXT_SUFFIX"))
    made = {re.sub(end, "", name) for name in extra}
    modules = {"encode/_ngrams", "kernels/_native_loops", "metrics/_count", "proofs/_minnorm"}
    modules |= {"train/_dual"}
    assert made == {f"labelset/{name}" for name in modules}
    needed = [
        x for x in metadata.splitlines() if x.startswith("Requires-Dist") and "extra" not in x
    ]
    core = {"numpy", "pyarrow", "safetensors", "scikit-learn", "scipy", "torch"}
    assert {re.split(r"[<>=: ]+", line)[1] for line in needed} == core


@pytest.fixture(scope="module")
def python(built, tmp_path_factory):
    """An environment with the wheel, which sees the packages here but not the labelset here."""
    folder = tmp_path_factory.mktemp("environment")
    ran(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    (path,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    ran(*pip, "install", "--no-index", "--no-deps", "--quiet", path)
    site = ran(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (Path(site) / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return python


SMOKE = """
import json, torch, labelset as ls
from labelset.encode import _ngrams
from labelset.kernels import _native_loops
from labelset.metrics import _count
from labelset.proofs import _minnorm
from labelset.train import _dual
g = torch.Generator().manual_seed(0)
v, y = torch.randn(9, 70, generator=g), torch.rand(9, 70, generator=g) < 0.2
values = [float(ls.losses.build("asl", impl=impl)(v, y)) for impl in ("native", "eager")]
places = [m.__file__ for m in (ls, _native_loops, _count, _minnorm, _ngrams, _dual)]
print(json.dumps({"values": values, "places": places, "map": ls.metrics.build("map@class")(v, y)}))
"""


def test_the_wheel_works_away_from_its_source(python, tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    found = json.loads(ran(python, "-c", SMOKE, cwd=tmp_path, env=environment))
    home = str(Path(python).parents[1])
    assert [place for place in found["places"] if not place.startswith(home)] == []
    assert found["values"][0] == pytest.approx(found["values"][1], rel=1e-6)
    assert 0 < found["map"] < 1
    script = Path(python).with_name("labelset")
    listed = ran(script, "list", "--json", cwd=tmp_path, env=environment)
    assert "spa" in json.loads(listed)
    assert ran(python, "-m", "labelset", "--version", cwd=tmp_path, env=environment)


def test_the_tests_pass_against_the_wheel(python, tmp_path):
    """Some here; the whole fast tier is run so by `make release`."""
    for name in ("conftest.py", "test_labels.py", "cli/test_list_and_verify.py"):
        (tmp_path / "tests" / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    told = ran(python, "-m", "pytest", "tests", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "passed" in told or "100%" in told

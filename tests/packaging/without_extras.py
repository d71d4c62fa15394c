"""Run by test_extras.py: no optional package can be imported; what still works, and what says why.

Prints JSON: name of the feature -> what was said, and that the core works.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

OPTIONAL = {
    *("sklearn", "optuna", "transformers", "tokenizers", "accelerate", "torchmetrics"),
    *("lightning", "matplotlib", "PIL", "qtawesome", "river", "highspy", "flint"),
    *("onnx", "onnxruntime", "onnxscript", "keras", "jax", "tensorflow", "yaml", "timm"),
    *("torchvision", "pandas", "triton"),
}


class WithoutThem(PathFinder):
    """Finds what is installed, as if the optional packages were not."""

    @classmethod
    def find_spec(cls, name: str, *more: Any) -> Any:
        return None if name.partition(".")[0] in OPTIONAL else PathFinder.find_spec(name, *more)


def features(run: Any, folder: Path) -> dict[str, Callable[[], Any]]:
    """What each extra is for."""
    import torch

    from labelset import cli, data, encode, verify
    from labelset.data import Dataset
    from labelset.export import to_onnx
    from labelset.report import CandidateInput, ReportInput, write_figures
    from labelset.runs import tune

    rows = Dataset(labels=run.splits["test"].labels, names=run.names, features=torch.randn(8, 2))
    texts = Dataset(labels=rows.labels, names=run.names, texts=["a"] * 8)
    (folder / "a").mkdir()
    (folder / "a" / "1.png").write_bytes(b"")
    (folder / "a" / "rows.csv").write_text("image,cat\n1.png,1\n")
    (folder / "config.json").write_text("{}")
    (folder / "c.yaml").write_text("kind: maps")
    given = ReportInput([CandidateInput("bce", "bce", "linear", run)])

    def imported(name: str) -> Callable[[], Any]:
        return lambda: __import__(f"labelset.{name}")

    return {
        "data digits": lambda: data.load("digits"),
        "data icons": lambda: data.load("icons"),
        "data yeast": lambda: data.load("yeast"),
        "data pictures": lambda: data.load(folder / "a"),
        "encode texts": lambda: encode.build("transformer", model=str(folder)).fit(texts),
        "figures": lambda: write_figures(given, folder / "f", png_too=True),
        "keras": imported("keras"),
        "notebook": lambda: verify(torch.eye(2), [[1, 0]]).to_frame(),
        "onnx": lambda: to_onnx(run, folder / "m.onnx"),
        "proofs": lambda: verify(torch.eye(2), [[1, 0]], radius="box"),
        "sklearn": imported("sklearn"),
        "torchmetrics": imported("torchmetrics"),
        "transformers": imported("transformers"),
        "tune": lambda: tune(rows, "spa", folder / "tuned", trials=1),
        "yaml": lambda: cli._run(["list", "--config", str(folder / "c.yaml")]),
    }


def core(folder: Path) -> Any:
    """A loss by every implementation there is, and the way from scores to decisions."""
    import torch

    import labelset as ls
    from labelset.model import SavedModel, Split

    y = ls.Labels.from_lists([[0], [1], [0, 1], []] * 2, n=2)
    v = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    for name in ls.losses.names():
        for settings in ls.losses.catalog.get(name).examples[:1]:
            ls.losses.build(name, **settings)(v, y)
    head = ls.heads.build("linear", features=2, labels=2)
    run = SavedModel(
        names=["a", "b"], splits={"test": Split(y, v), "valid": Split(y, v)}, head=head
    )
    run.calibrator = ls.calibrate.build("isotonic").fit(v, y)
    run.rule = ls.decide.build("per-class").fit(run.predictor.probabilities(v), y)
    run.save(folder / "run")
    ls.verify(head, y).check()
    return SavedModel.open(folder / "run")


def said(feature: Callable[[], Any]) -> str:
    """The words of the error."""
    try:
        feature()
    except ImportError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "it works"


def main() -> None:
    """Hide the packages, try everything, print."""
    sys.meta_path[:] = [WithoutThem if f is PathFinder else f for f in sys.meta_path]
    with tempfile.TemporaryDirectory() as folder:
        run = core(Path(folder))
        found = {name: said(it) for name, it in features(run, Path(folder)).items()}
    from labelset.cli import main as command

    found["verbs"] = str(command(["completion", "bash", "--json", "--print-config"]))
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()

"""Run: everything that later steps need of a trained model, and its place on disk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

import labelset
from labelset import _given, calibrate, decide, encode, heads
from labelset._atomic import write_all, write_bytes
from labelset.artefact._parts import read_part, write_part
from labelset.artefact._sums import Write, file_sum, summed
from labelset.calibrate import ProbMap
from labelset.data import Dataset
from labelset.decide import Rule
from labelset.encode import Encoder
from labelset.heads import Head
from labelset.labels import Labels
from labelset.losses import Loss, NoLink
from labelset.losses._described import describe_loss, read_loss

__all__ = ["Part", "Run"]

FORMAT = 1
MODEL, HEAD, ENCODER = "model.json", "head.safetensors", "encoder.safetensors"
COMPARED = "compare.json"
SPLITS = ("train", "valid", "test")
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, OSError, MemoryError)
"""What reading a file that somebody has meddled with may raise."""
BLOCK = 4096  # rows that go through the head together


@dataclass(frozen=True)
class Part:
    """The rows of one split: their labels, and their scores where there are any."""

    labels: Labels
    scores: Tensor | None = None
    ids: Sequence[str] | None = None
    """What to call the rows; their numbers where it is None."""

    def __post_init__(self) -> None:
        labels = Labels.from_dense(self.labels)
        object.__setattr__(self, "labels", labels)
        if self.scores is not None:
            scores, _ = _given.paired_scores(self.scores, labels)
            object.__setattr__(self, "scores", scores)
        if self.ids is not None and len(self.ids) != len(labels):
            raise ValueError(f"got {len(self.ids)} ids for {len(labels)} rows")

    def __len__(self) -> int:
        return len(self.labels)

    def id(self, row: int) -> str:
        """What to call a row."""
        return str(row) if self.ids is None else self.ids[row]


@dataclass
class Run:
    """Scores of a trained model with all that turns them into decisions.

    A folder holds `model.json`, a `.npz` file per split, and the head where there is one. The
    encoder never runs again: every later step reads the scores.

    >>> import tempfile, torch
    >>> part = Part([[1, 0], [0, 1]], [[2.0, -1.0], [0.5, 3.0]])
    >>> run = Run(names=["fork", "knife"], loss="spa", parts={"valid": part})
    >>> run.predict(part.scores).dense()
    tensor([[1., 0.],
            [0., 1.]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.save(folder)
    ...     Run.open(folder).names
    ['fork', 'knife']
    """

    names: list[str]
    parts: dict[str, Part] = field(default_factory=dict)
    loss: Any = None
    """The loss that the scores were trained with, or its name; None where that is not known."""
    map: ProbMap | None = None
    rule: Rule | None = None
    head: Head | None = None
    encoder: Encoder | None = None
    about: dict[str, Any] = field(default_factory=dict)
    """Anything else worth knowing, as JSON."""
    folder: Path | None = field(default=None, repr=False)
    """Where it was opened from or saved to."""

    def __post_init__(self) -> None:
        self.names = _names(self.names)
        self.loss: Loss | None = read_loss(self.loss)
        self.parts = {
            name: part if isinstance(part, Part) else Part(*part)
            for name, part in self.parts.items()
        }
        for name, part in self.parts.items():
            if name not in SPLITS:
                raise ValueError(f"parts are called {', '.join(SPLITS)}, got {name!r}")
            if part.labels.n != len(self.names):
                raise ValueError(f"{name} has {part.labels.n} labels, names {len(self.names)}")
        if self.head is not None:
            weight = self.head.matrix()[0]
            if len(weight) != len(self.names):
                raise ValueError(f"the head has {len(weight)} labels, names {len(self.names)}")
            if not bool(weight.isfinite().all()):
                raise ValueError("the head has weights that are NaN or infinite")

    # ---- from rows to scores --------------------------------------------------------------------

    def score(self, dataset: Dataset) -> Tensor:
        """(rows, labels) scores of new rows, by the encoder and the head."""
        if self.encoder is None or self.head is None:
            raise ValueError(
                "this run holds no encoder and head, only scores; give scores of the new rows"
            )
        with torch.no_grad():
            features = self.encoder(dataset)
            starts = range(0, max(len(features), 1), BLOCK)
            return torch.cat([self.head(features[i : i + BLOCK]) for i in starts]).float()

    # ---- from scores to decisions ---------------------------------------------------------------

    def probabilities(self, scores: Any) -> Tensor:
        """By the fitted map; else by the loss's own link; else, no loss being known, sigmoid."""
        if self.map is not None:
            return self.map(scores)
        v = _given.scores(scores)
        if self.loss is None:
            return torch.sigmoid(v)
        try:
            linked: Tensor = self.loss.link(v)
            return linked
        except NoLink as error:
            raise NoLink(f"{error}; on the command line: labelset calibrate RUN") from None

    def current_probabilities(self, scores: Any) -> Tensor:
        """The same, with sigmoid where neither map nor link gives any: for a look at what is."""
        try:
            return self.probabilities(scores)
        except NoLink:
            return torch.sigmoid(_given.scores(scores))

    def decide(self, probabilities: Any) -> Labels:
        """By the fitted rule, or at 0.5."""
        rule = decide.build("fixed", threshold=0.5) if self.rule is None else self.rule
        return rule(probabilities)

    def predict(self, scores: Any) -> Labels:
        """Label sets from scores."""
        return self.decide(self.probabilities(scores))

    def scored(self, name: str) -> Part:
        """A part that has scores; an error says which there are."""
        part = self.parts.get(name)
        if part is None or part.scores is None:
            there = [key for key, part in self.parts.items() if part.scores is not None]
            raise ValueError(
                f"no scores of the {name} part; there are {', '.join(there) or 'none'}"
            )
        return part

    def held_out(self, name: str = "valid") -> Part:
        """The part to fit maps and rules on, which is never the test part."""
        if name == "test":
            raise ValueError(
                "maps and rules must not be fitted on the test part, which then would no longer "
                "tell how good they are; use valid"
            )
        return self.scored(name)

    # ---- on disk --------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the folder, all of it or nothing; `model.json` holds checksums of the others."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        sums: dict[str, str] = {}
        files = {folder / name: summed(name, w, sums) for name, w in self._writers().items()}
        write_all(files | {folder / MODEL: lambda file: file.write(self._model(sums))})
        self.folder = folder

    def _writers(self) -> dict[str, Write]:
        """The files besides `model.json`, and what fills them."""
        files: dict[str, Write] = {}
        for name, part in self.parts.items():
            held = (part.labels, part.scores, part.ids)
            files[f"{name}.npz"] = lambda file, held=held: write_part(file, *held)  # type: ignore[misc]
        if (head := self.head) is not None:
            files[HEAD] = lambda file: heads.save(head, file)
        if (encoder := self.encoder) is not None and self._keeps_encoder():
            state = {name: t.contiguous().cpu() for name, t in encoder.state().items()}
            files[ENCODER] = lambda file: file.write(save_tensors(state))
        return files

    def _keeps_encoder(self) -> bool:
        """A module of one's own is in no file: it must be given again."""
        return self.encoder is not None and self.encoder.name in encode.names()

    def save_model(self, path: str | Path | None = None) -> None:
        """Write only `model.json`: names, loss, map and rule; where it came from by default."""
        self.folder = self.folder if path is None else Path(path)
        if self.folder is None:
            raise ValueError("this run was never saved: say where to")
        beside = [path for path in map(self.folder.joinpath, self._writers()) if path.is_file()]
        sums = {path.name: file_sum(path) for path in beside}
        write_bytes(self.folder / MODEL, self._model(sums))

    def _model(self, sums: dict[str, str]) -> bytes:
        held = {
            "format": FORMAT,
            "versions": {"labelset": labelset.__version__, "torch": torch.__version__},
            "names": self.names,
            "loss": describe_loss(self.loss),
            "map": None if self.map is None else self.map.as_json(),
            "rule": None if self.rule is None else self.rule.as_json(),
            "parts": {name: part.scores is not None for name, part in self.parts.items()},
            "head": self.head is not None,
            "encoder": self.encoder.as_json() if self._keeps_encoder() else None,  # type: ignore[union-attr]
            "about": self.about,
            "files": sums,
        }
        return json.dumps(held, indent=1, ensure_ascii=False).encode()

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """The run in a folder."""
        folder = Path(path)
        if (folder / COMPARED).is_file():
            folder = folder / "best"  # of a comparison, the run that it recommends
        if not (folder / MODEL).is_file():
            raise ValueError(f"{path}: not a run: there is no {MODEL} in it")
        try:
            held = json.loads((folder / MODEL).read_text(encoding="utf-8"))
            if held["format"] != FORMAT:
                raise ValueError(f"has format {held['format']}, this labelset reads {FORMAT}")
            if not isinstance(held["names"], list):
                raise ValueError("names must be a list")
            for name, wanted in held.get("files", {}).items():
                if file_sum(folder / Path(name).name) != wanted:
                    raise ValueError(f"{name} is not as it was saved")
            return cls(
                names=held["names"],
                parts={name: Part(*read_part(folder / f"{name}.npz")) for name in held["parts"]},
                loss=held["loss"],
                map=None if held["map"] is None else calibrate.from_json(held["map"]),
                rule=None if held["rule"] is None else decide.from_json(held["rule"]),
                head=heads.load(folder / HEAD) if held["head"] else None,
                encoder=_encoder(folder, held["encoder"]),
                about=held["about"],
                folder=folder,
            )
        except DAMAGE as error:
            what = f"{type(error).__name__}: " if isinstance(error, LookupError) else ""
            raise ValueError(f"{path}: damaged run: {what}{error}") from None


def _encoder(folder: Path, described: Any) -> Encoder | None:
    if described is None:
        return None
    state = load_tensors((folder / ENCODER).read_bytes())
    return encode.from_json(described, state)


def _names(names: Sequence[str]) -> list[str]:
    listed = [str(name) for name in names]
    twice = [name for name, count in Counter(listed).items() if count > 1]
    if twice:
        raise ValueError(f"label names must differ, got {twice[0]!r} more than once")
    return listed

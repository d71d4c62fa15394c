"""SavedModel: all that later steps need of a trained model, and its folder on disk."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

import labelset
from labelset import calibrate, data, decide, encode, heads, inputs
from labelset.calibrate import ProbMap
from labelset.data import Dataset, Schema
from labelset.data.formats.npz import array_in, opened
from labelset.data.reading import reading
from labelset.data.store import Array, Filed
from labelset.decide import Rule
from labelset.encode import Encoder
from labelset.files import Write, file_sum, summed, write_all, write_bytes
from labelset.heads import Head
from labelset.labels import Labels
from labelset.losses import Loss, describe_loss, read_loss
from labelset.model.blend import Blend, estimator
from labelset.model.predictor import Predictor
from labelset.model.scorer import Scorer, all_numbers

if TYPE_CHECKING:
    from labelset.model.evaluation import Evaluation
    from labelset.model.explanation import Explanation, Reason, Weights

FORMAT = 1
MODEL, HEAD, ENCODER = "model.json", "head.safetensors", "encoder.safetensors"
ESTIMATOR = "estimator.safetensors"
PREVIOUS = "previous.json"
"""`model.json` as it was before its calibrator or rule was changed last."""
COMPARED = "compare.json"
SPLITS = ("train", "valid", "test")
DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, RuntimeError, OSError, MemoryError),
)
"""What reading a file that somebody has meddled with may raise."""


@dataclass(frozen=True)
class Split:
    """The rows of one split: their labels, and their scores where there are any."""

    labels: Labels
    scores: Tensor | None = None
    ids: Sequence[str] | None = None
    """What to call the rows; their numbers where it is None."""

    def __post_init__(self) -> None:
        labels = Labels.from_dense(self.labels)
        object.__setattr__(self, "labels", labels)
        if self.scores is not None:
            scores, _ = inputs.paired_scores(self.scores, labels)
            object.__setattr__(self, "scores", scores)
        if self.ids is not None and len(self.ids) != len(labels):
            raise ValueError(f"got {len(self.ids)} ids for {len(labels)} rows")

    def __len__(self) -> int:
        return len(self.labels)

    def id(self, row: int) -> str:
        """What to call a row."""
        return str(row) if self.ids is None else self.ids[row]

    @property
    def known_scores(self) -> Tensor:
        """The scores, 0 where the label is unknown, where one may be NaN."""
        if self.scores is None:
            raise ValueError("these rows have no scores")
        known = self.labels.known()
        return self.scores if known is None else torch.where(known, self.scores, 0.0)

    def sample(self, entries: int) -> Split:
        """Its rows, or so many of them, drawn at random, that they have at most `entries`."""
        most = max(1, entries // max(self.labels.n, 1))
        if len(self) <= most or self.scores is None:
            return self
        rows = torch.randperm(len(self), generator=torch.Generator().manual_seed(0))[:most]
        rows = rows.sort().values
        return Split(self.labels[rows], self.scores[rows])


@dataclass
class SavedModel:
    """Scores of a trained model with all that turns them into decisions.

    A folder holds `model.json`, a `.npz` file per split, the encoders, and the head, or the
    estimator in its place, where there is one. The encoder never runs again: every later step reads
    the scores.

    >>> import tempfile, torch
    >>> part = Split([[1, 0], [0, 1]], [[2.0, -1.0], [0.5, 3.0]])
    >>> run = SavedModel(names=["fork", "knife"], loss="spa", splits={"valid": part})
    >>> run.predictor.sets(part.scores).dense()
    tensor([[1., 0.],
            [0., 1.]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.save(folder)
    ...     SavedModel.open(folder).names
    ['fork', 'knife']
    """

    names: list[str]
    splits: dict[str, Split] = field(default_factory=dict)
    loss: Any = None
    """The loss that the scores were trained with, or its name; None where that is not known."""
    calibrator: ProbMap | None = None
    rule: Rule | None = None
    head: Head | None = None
    encoder: Encoder | None = None
    estimator: Any = None
    """In place of a head: a `Forest`, a `Blend` or the like, whose scores are log-odds if `loss` is
    None."""
    about: dict[str, Any] = field(default_factory=dict)
    """Anything else worth knowing, as JSON."""
    folder: Path | None = field(default=None, repr=False)
    """Where it was opened from or saved to."""

    def __post_init__(self) -> None:
        self.names = _names(self.names)
        self.loss: Loss | None = read_loss(self.loss)
        self.splits = {
            name: part if isinstance(part, Split) else Split(*part)
            for name, part in self.splits.items()
        }
        for name, part in self.splits.items():
            if name not in SPLITS:
                raise ValueError(f"splits are called {', '.join(SPLITS)}, got {name!r}")
            if part.labels.n != len(self.names):
                raise ValueError(f"{name} has {part.labels.n} labels, names {len(self.names)}")
        if self.head is not None:
            if self.head.labels != len(self.names):
                raise ValueError(f"the head has {self.head.labels} labels, names {len(self.names)}")
            if not all(bool(p.isfinite().all()) for p in self.head.parameters()):
                raise ValueError("the head has weights that are NaN or infinite")
        if self.estimator is not None:
            if self.head is not None:
                raise ValueError("a run has a head or an estimator, not both")
            if self.estimator.labels != len(self.names):
                got = f"has {self.estimator.labels} labels, names {len(self.names)}"
                raise ValueError(f"the {self.estimator.kind} {got}")
            if isinstance(self.estimator, Blend) and self.encoder is not None:
                self.estimator.check_views(getattr(self.encoder, "encoders", None))

    # ---- from rows to decisions -----------------------------------------------------------------

    @property
    def model(self) -> Any:
        """The head, or the estimator in its place; None where there are only scores."""
        return self.estimator if self.head is None else self.head

    def scorer(self) -> Scorer:
        """Rows to scores, by the encoder and the head, or the estimator, as they are now."""
        if not self.can_score:
            raise ValueError(
                f"{self.folder or 'this run'} has no encoder and head, only scores; give scores of "
                "the new rows"
            )
        return Scorer(self.model, self.encoder)

    @property
    def can_score(self) -> bool:
        """Whether new rows can be scored: there is a model and its encoder, not scores alone."""
        return self.encoder is not None and self.model is not None

    def score(self, dataset: Dataset) -> Tensor:
        """(rows, labels) scores of new rows; for many data sets make one `scorer`.

        `NoScore` where a row gets none.
        """
        return all_numbers(self.scorer()(dataset))

    def predict(self, rows: Any) -> Labels:
        """Label sets of new rows: a data set, an array, a sparse matrix, a list of texts, a frame
        or a file, read as the rows were that the model was trained on."""
        predictor = self.predictor
        return Labels.stack([predictor.sets(scores) for scores in self._scores_of(rows)])

    def predict_proba(self, rows: Any) -> Tensor:
        """(rows, labels) probabilities of the same."""
        predictor = self.predictor
        return torch.cat([predictor.probabilities(scores) for scores in self._scores_of(rows)])

    # ---- explained ------------------------------------------------------------------------------

    def explain(self, rows: Any, labels: Any = None, top: int = 10) -> Explanation:
        """Why new rows, given as for `predict`, have their scores: of each row and label what the
        features add, the `top` largest by name.

        labels: names or numbers; those that are predicted unless given, or of a row without any the
        most probable one.
        """
        from labelset.model.explanation import Explainer, Explanation, label_numbers

        explainer, predictor = Explainer(self, top), self.predictor.or_sigmoid()
        chosen = None if labels is None else label_numbers(self.names, labels)
        reasons: list[Reason] = []
        first = 0
        for some in data.new_rows(rows, self._schema()):
            scores = all_numbers(explainer.scorer(some))
            asked = [chosen] * len(some) if chosen is not None else _asked(predictor, scores)
            reasons += explainer(some, asked, scores, first)
            first += len(some)
        return Explanation(reasons)

    def evaluate(self, metrics: Iterable[str] | None = None, on: str = "test") -> Evaluation:
        """Metrics of a part of its rows, with its calibrator and rule; None: the usual ones.

        What is found is a table (`to_frame()`), a picture of the worst labels (`plot()`), and
        numbers: `found["f1-micro"]`, `found.each["map@class"]["fork"]`.
        """
        from labelset.model.evaluation import USUAL, evaluated

        return evaluated(self, USUAL if metrics is None else metrics, on)

    def weights(self, labels: Any = None, top: int = 10) -> list[Weights]:
        """The features that weigh most for these labels, given by name or number, or for all of
        them: of linear models and forests, and of those in a blend."""
        from labelset.model.explanation import label_numbers, largest_weights

        chosen = range(len(self.names)) if labels is None else label_numbers(self.names, labels)
        return [*largest_weights(self, chosen, top)]

    def _schema(self) -> Schema | None:
        saved = self.about.get("schema")
        return None if saved is None else Schema.from_json(saved)

    def _scores_of(self, rows: Any) -> Iterator[Tensor]:
        scorer, count = self.scorer(), 0
        for some in data.new_rows(rows, self._schema()):
            yield all_numbers(scorer(some))
            count += len(some)
        if not count:
            yield torch.zeros(0, len(self.names))

    @property
    def predictor(self) -> Predictor:
        """Scores to probabilities and label sets.

        By the fitted calibrator, else the loss's own link, else, no loss being known, the sigmoid;
        by the fitted rule, else at 0.5.
        """
        remedy = "; on the command line: labelset calibrate RUN"
        return Predictor.of(self.loss, self.calibrator, self.rule, self.names, remedy)

    # ---- its rows -------------------------------------------------------------------------------

    def scored(self, name: str) -> Split:
        """A part that has scores; an error says which there are."""
        part = self.splits.get(name)
        if part is None or part.scores is None:
            there = [key for key, part in self.splits.items() if part.scores is not None]
            raise ValueError(
                f"no scores of the {name} part; there are {', '.join(there) or 'none'}"
            )
        return part

    def held_out(self, name: str = "valid") -> Split:
        """The split to fit calibrators and rules on, which is never the test part."""
        if name == "test":
            raise ValueError(
                "calibrators and rules must not be fitted on the test part, which then would no "
                "longer tell how good they are; use valid"
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
        (folder / PREVIOUS).unlink(missing_ok=True)  # it was of another model
        self.folder = folder

    def _writers(self) -> dict[str, Write]:
        """The files besides `model.json`, and what fills them."""
        files: dict[str, Write] = {}
        for name, part in self.splits.items():
            content = (part.labels, part.scores, part.ids)
            files[f"{name}.npz"] = lambda file, c=content: _write_split(file, *c)  # type: ignore[misc]
        if (head := self.head) is not None:
            files[HEAD] = lambda file: heads.save(head, file)
        if (kept := self.estimator) is not None:
            files[ESTIMATOR] = lambda file: file.write(save_tensors(kept.tensors()))
        if (encoder := self.encoder) is not None and self._keeps_encoder():
            each = getattr(encoder, "encoders", [encoder])
            for name, one in zip(_encoder_files(encoder.as_json()), each, strict=True):
                state = {key: t.contiguous().cpu() for key, t in one.state().items()}
                files[name] = lambda file, s=state: file.write(save_tensors(s))  # type: ignore[misc]
        return files

    def _keeps_encoder(self) -> bool:
        """A module of one's own is in no file: it must be given again."""
        return self.encoder is not None and self.encoder.name in {*encode.names(), "several"}

    def save_model(self, path: str | Path | None = None) -> None:
        """Write only `model.json`: names, loss, calibrator, rule; by default where it was.

        What is there stays beside it, byte for byte, for `undo`.
        """
        self.folder = self.folder if path is None else Path(path)
        if self.folder is None:
            raise ValueError("this run was never saved: say where to")
        beside = [path for path in map(self.folder.joinpath, self._writers()) if path.is_file()]
        sums = {path.name: file_sum(path) for path in beside}
        new, old = self._model(sums), None
        if (self.folder / MODEL).is_file():
            old = (self.folder / MODEL).read_bytes()
        if new == old:
            return  # what was there before it can still be gone back to
        files = {} if old is None else {self.folder / PREVIOUS: _writing(old)}
        write_all(files | {self.folder / MODEL: _writing(new)})

    def _model(self, sums: dict[str, str]) -> bytes:
        about = {
            "format": FORMAT,
            "versions": {"labelset": labelset.__version__, "torch": torch.__version__},
            "names": self.names,
            "loss": describe_loss(self.loss),
            "calibrator": None if self.calibrator is None else self.calibrator.as_json(),
            "rule": None if self.rule is None else self.rule.as_json(),
            "parts": {name: part.scores is not None for name, part in self.splits.items()},
            "head": self.head is not None,
            "estimator": None if self.estimator is None else self.estimator.kind,
            "encoder": self.encoder.as_json() if self._keeps_encoder() else None,  # type: ignore[union-attr]
            "about": self.about,
            "files": sums,
        }
        whole = about | {"sum": _own_sum(about)}
        return json.dumps(whole, indent=1, ensure_ascii=False).encode()

    @classmethod
    def open(cls, path: str | Path) -> SavedModel:
        """The run in a folder."""
        folder = _run_folder(path)
        try:
            return cls._read(folder, (folder / MODEL).read_bytes())
        except DAMAGE as error:
            raise ValueError(f"{path}: damaged run: {_reason(error)}") from None

    @classmethod
    def undo(cls, path: str | Path) -> SavedModel:
        """The run in a folder, as it was before its calibrator or rule was changed last.

        It goes one step back: what was in force until then is gone.
        """
        folder = _run_folder(path)
        previous = folder / PREVIOUS
        before = previous.read_bytes() if previous.is_file() else None
        if before is None or before == (folder / MODEL).read_bytes():
            raise ValueError(
                f"{path}: nothing to undo: its calibrator and rule are as they were made, or were "
                "gone back to already; undo goes back one step"
            )
        try:
            model = cls._read(folder, before)
        except DAMAGE as error:
            why = _reason(error).replace(MODEL, PREVIOUS)
            raise ValueError(f"{previous}: damaged, the run stays as it is: {why}") from None
        write_bytes(folder / MODEL, before)
        previous.unlink()
        return model

    @classmethod
    def _read(cls, folder: Path, content: bytes) -> SavedModel:
        """What `model.json` describes, with the files beside it; anything of DAMAGE may happen."""
        saved = json.loads(content.decode())
        if saved["format"] != FORMAT:
            raise ValueError(f"has format {saved['format']}, this labelset reads {FORMAT}")
        if not isinstance(saved["names"], list):
            raise ValueError("names must be a list")
        for name, wanted in saved.get("files", {}).items():
            if file_sum(folder / Path(name).name) != wanted:
                raise ValueError(f"{name} is not as it was saved")
        model = cls(
            names=saved["names"],
            splits={name: _read_split(folder / f"{name}.npz") for name in saved["parts"]},
            loss=saved["loss"],
            calibrator=_optional(calibrate.from_json, saved["calibrator"]),
            rule=_optional(decide.from_json, saved["rule"]),
            head=heads.load(folder / HEAD) if saved["head"] else None,
            encoder=_encoder(folder, saved["encoder"]),
            estimator=_optional(lambda kind: _estimator(folder, kind), saved["estimator"]),
            about=saved["about"],
            folder=folder,
        )
        if saved.pop("sum", None) not in (None, _own_sum(saved)):  # older ones have none
            raise ValueError(f"{MODEL} is not as it was saved")
        return model


def _run_folder(path: str | Path) -> Path:
    """Of a comparison, the run that it recommends."""
    folder = Path(path)
    if (folder / COMPARED).is_file():
        folder = folder / "best"
    if not folder.exists():
        raise ValueError(f"{path}: not a run: there is no such folder")
    if not (folder / MODEL).is_file():
        raise ValueError(f"{path}: not a run: there is no {MODEL} in it")
    return folder


def _writing(content: bytes) -> Write:
    return lambda file: file.write(content)


def _asked(predictor: Predictor, scores: Tensor) -> list[list[int]]:
    """The labels that are predicted, or the most probable one."""
    p = predictor.probabilities(scores)
    sets, most = predictor.decide(p), p.argmax(1).tolist()
    ends = pairwise(sets.indptr.tolist())
    each = [sets.indices[start:end].tolist() for start, end in ends]
    return [on or [best] for on, best in zip(each, most, strict=True)]


def _own_sum(about: dict[str, Any]) -> str:
    """Of all that `model.json` holds, as JSON gives it back."""
    content = json.dumps(json.loads(json.dumps(about)), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _reason(error: Exception) -> str:
    """What is wrong with a file, in words."""
    if isinstance(error, OSError) and error.strerror:
        return f"{Path(str(error.filename)).name}: {error.strerror}"
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return f"{MODEL} is no JSON"
    return f"it lacks {error.args[0]!r}" if isinstance(error, KeyError) else str(error)


def _optional(read: Callable[[Any], Any], saved: Any) -> Any:
    return None if saved is None else read(saved)


def _encoder(folder: Path, described: Any) -> Encoder | None:
    if described is None:
        return None
    if (names := _encoder_files(described)) == [ENCODER]:
        return encode.from_json(described, _tensors(folder / ENCODER))
    each = [_tensors(folder / name) for name in names]
    state = {f"{at}.{key}": t for at, one in enumerate(each) for key, t in one.items()}
    return encode.from_json(described, state)


def _encoder_files(described: dict[str, Any]) -> list[str]:
    """Of several encoders each has a file of its own, which models of a comparison may share."""
    if described["name"] != "several":
        return [ENCODER]
    stem, dot, end = ENCODER.partition(".")
    return [f"{stem}-{at}{dot}{end}" for at in range(len(described["encoders"]))]


def _estimator(folder: Path, kind: Any) -> Any:
    return estimator(kind).from_tensors(_tensors(folder / ESTIMATOR))


def _tensors(path: Path) -> dict[str, Tensor]:
    with reading(path):
        return load_tensors(path.read_bytes())


def _names(names: Sequence[str]) -> list[str]:
    listed = [str(name) for name in names]
    twice = [name for name, count in Counter(listed).items() if count > 1]
    if twice:
        raise ValueError(f"label names must differ, got {twice[0]!r} more than once")
    return listed


# ---- files ------------------------------------------------------------------------------------


def _write_split(
    file: IO[bytes], labels: Labels, scores: Tensor | None, ids: Sequence[str] | None
) -> None:
    """One `.npz` file, which `labelset.data.read_labels` reads too: labels as compressed rows."""
    labels = labels.to("cpu")
    held = {"Y_indptr": labels.indptr, "Y_indices": labels.indices}
    arrays = {name: t.numpy() for name, t in held.items()}
    arrays["Y_shape"] = np.array(labels.shape)
    if labels.values is not None:
        arrays["Y_values"] = labels.values.numpy()
    if labels.weights is not None:
        arrays["weights"] = labels.weights.numpy()
    if scores is not None:
        arrays["scores"] = scores.cpu().numpy()
    if ids is not None:
        arrays["ids"] = np.array(ids, dtype=np.str_)
    np.savez(file, **arrays)  # type: ignore[arg-type]


def _read_split(path: Path) -> Split:
    with reading(path):
        held = opened(path)
        labels = Labels.from_csr(
            held["Y_indptr"], held["Y_indices"], int(held["Y_shape"][1]), held.get("Y_values")
        )
        if "weights" in held:
            from labelset.data.weights import checked

            labels = replace(labels, weights=checked(held["weights"], labels.shape))
        scores = torch.from_numpy(held["scores"]) if "scores" in held else None
        return Split(labels, scores, held["ids"].tolist() if "ids" in held else None)


def read_scores(path: str | Path) -> Tensor:
    """(rows, labels) scores: an .npy file, or `scores` (or the only array) of an .npz file."""
    parts = list(score_batches(path, memory=1 << 62))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def score_batches(path: str | Path, memory: int = 64 << 20) -> Iterator[Tensor]:
    """The same, in one go or, past `memory` bytes, some rows at a time."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    with reading(path):
        array = _array(path, memory)
        if not isinstance(array, Filed):
            yield inputs.scores(array)
            return
        for _, block in array.blocks():
            yield inputs.scores(block)


def _array(path: Path, memory: int) -> Array | Filed:
    if not zipfile.is_zipfile(path):
        return array_in(path, memory)
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    name = "scores" if "scores" in names else names[0] if len(names) == 1 else None
    if name is None:
        raise ValueError(f"holds {', '.join(names)}; name the scores `scores`")
    held: Array | Filed = opened(path, (name,), memory, (name,))[name]
    return held

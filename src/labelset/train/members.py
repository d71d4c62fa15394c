"""Small networks trained side by side: one for each fold that is left out, on the same batches."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from labelset import check, csr
from labelset.data import SparseRows
from labelset.labels import Labels
from labelset.losses import Loss, Separable, as_loss, describe_loss
from labelset.model import Mlp
from labelset.model.mlp import units
from labelset.torch_private import adamw
from labelset.train._optimiser import share
from labelset.train._solution import Rows
from labelset.train.fitted import (
    LATE,
    Diverged,
    Failed,
    Fitted,
    refusal,
    repeated,
    weighted_loss,
)

if TYPE_CHECKING:
    from labelset.train._checkpoint import Checkpoint

SPARSE = 0.1
"""Up to this share of features that are not 0, a batch is multiplied as sparse rows."""
PAUSE = 0.1
"""Seconds between two reports of progress."""
PACE = 5
"""Steps after which it is known how long a fit will take."""
GRID = 1 << 22
"""Losses of scores on a grid that are in memory together."""


@dataclass(frozen=True)
class MlpSettings:
    """How small networks are trained; what is None is chosen by `for_shape`."""

    loss: Loss | str = "bce"
    width: int | None = None
    """Hidden units of a layer."""
    layers: int | None = None
    dropout: float | None = None
    """Share of hidden units that a step leaves out."""
    noise: float | None = None
    """Deviation of what is added to features in training; dense features are standardised."""
    lr: float | None = None
    """Highest learning rate of the one-cycle schedule."""
    epochs: int | None = None
    batch: int | None = None
    """Rows of a step, those of the fold that is left out included."""
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        if as_loss("loss", self.loss).reduction == "none":
            raise ValueError('a loss is minimised: its reduction must be "mean" or "sum"')
        check.number("weight_decay", self.weight_decay, low=0.0)
        for name, low in {"width": 2, "layers": 1, "epochs": 1, "batch": 1}.items():
            if getattr(self, name) is not None:
                check.whole(name, getattr(self, name), low=low)
        for name in ("noise", "lr"):
            if getattr(self, name) is not None:
                check.number(name, getattr(self, name), low=0.0)
        if self.dropout is not None:
            check.fraction("dropout", self.dropout)

    def resolved(self, default: MlpSettings) -> MlpSettings:
        """With what is None taken from other settings."""
        missing = {f.name: getattr(default, f.name) for f in fields(self)}
        chosen = {name: value for name, value in vars(self).items() if value is not None}
        return MlpSettings(**(missing | chosen))

    def as_json(self) -> dict[str, Any]:
        """For people and for telling settings apart; a loss in no catalogue is only named."""
        loss = as_loss("loss", self.loss)
        try:
            described = describe_loss(loss)
        except TypeError:
            described = repr(loss)
        return asdict(replace(self, loss="bce")) | {"loss": described}


def for_shape(rows: int, features: int, labels: int, sparse: bool) -> MlpSettings:
    """Settings for data of a shape: few steps at a high rate beat many at a low one.

    The more rows, the fewer epochs; the more features and labels, the fewer hidden units, so that
    eight members and their optimiser stay below half a gigabyte. Dense tables gain by a second
    layer (out-of-fold micro-F1 of yeast +.007, eisen_FUN +.009, cal500 +.022), sparse ones lose.
    """
    width = 512 if sparse else 256
    while width > 32 and width * (features + labels) > 1 << 22:
        width //= 2
    if not sparse:
        layers, batch, lr, epochs = 2, 256, 0.01, 1000
    elif labels > 64:
        layers, batch, lr, epochs = 1, 512, 0.01, 350
    else:
        layers, batch, lr, epochs = 1, 256, 0.005, 480
    return MlpSettings(
        width=width,
        layers=layers,
        dropout=0.5,
        noise=0.0 if sparse else 0.5,
        lr=lr,
        epochs=min(max(round(epochs / rows**0.5), 3), 60),
        batch=min(batch, max(16, rows // 4)),
    )


def fit_members(
    features: Tensor | SparseRows,
    labels: Labels,
    folds: Tensor,
    settings: Sequence[MlpSettings],
    *,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
    seconds: float | None = None,
    device: torch.device | str = "cpu",
    checkpoint: str | Path | None = None,
    save_seconds: float | None = None,
) -> list[Fitted | Failed]:
    """Fit one network per fold for each of the settings.

    Member k is fitted on the rows whose fold is not k, and scores those whose fold is k; all read
    the same batches. Without any fold (-1 everywhere) one network is fitted on all rows.
    A setting that would not be done when `seconds` are over, or diverges, is `Failed`. With a
    `checkpoint` folder a fit that was killed goes on where it was, and ends as if nothing had
    happened.

    >>> x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    >>> fitted, = fit_members(x, Labels.from_dense(x[:, :2] > 0), torch.arange(60) % 3,
    ...     [MlpSettings(width=16, layers=1, lr=0.02, epochs=30, batch=16)])
    >>> fitted.model
    Mlp(3 members, 1 x 16 units, 4 features, 2 labels)
    >>> float(((fitted.scores > 0) == (x[:, :2] > 0)).float().mean()) > 0.8
    True
    """
    began = time.perf_counter()
    data = _Rows.of(features, labels, folds, device)
    default = for_shape(len(folds), data.width, labels.n, data.sparse)
    complete = [one.resolved(default) for one in settings]
    costs = [float((one.width or 1) * (one.epochs or 1) * (one.layers or 1)) for one in complete]
    done = 0.0
    fitted: list[Fitted | Failed] = []
    for one, cost in zip(complete, costs, strict=True):
        left = None if seconds is None else seconds - (time.perf_counter() - began)
        if left is not None and left <= 0:
            fitted.append(LATE)
            continue
        watch = _Watch(progress, left, done / sum(costs), cost / sum(costs))
        try:
            why = refusal(as_loss("loss", one.loss), labels)
            fitted.append(
                _fit(data, one, seed, watch, checkpoint, save_seconds)
                if why is None
                else Failed(why)
            )
        except (Diverged, _OutOfTime) as error:
            fitted.append(Failed(str(error)))
        done += cost
        if progress is not None:
            progress(done / sum(costs))
    return fitted


def _fit(
    data: _Rows,
    settings: MlpSettings,
    seed: int,
    watch: _Watch,
    folder: str | Path | None,
    every: float | None,
) -> Fitted:
    """Train the members of one setting, then score.

    Each thread trains some of the members from begin to end. Spreading every operation over all
    threads would make them wait for one another some fifty times a step: on two cores that others
    use as well it took six times as long for scene, and thirty times for sixty rows.
    """
    began = time.perf_counter()
    threads = torch.get_num_threads()
    parts = min(threads, data.members) if data.device.type == "cpu" else 1
    runs = [
        _Training(data, settings, seed, [int(k) for k in some], threads // parts)
        for some in torch.arange(data.members).tensor_split(parts)
    ]
    if folder is not None:
        for run in runs:
            run.continue_in(Path(folder), every)
    earlier = sum(run.seconds for run in runs) / parts
    watch.start(sum(run.done for run in runs))
    try:
        with ThreadPoolExecutor(parts) as pool:
            waiting = {pool.submit(run.train) for run in runs}
            try:
                while waiting:
                    over, waiting = wait(waiting, PAUSE, FIRST_EXCEPTION)
                    for future in over:
                        future.result()
                    watch.step(sum(run.done for run in runs), sum(run.steps for run in runs))
            except BaseException:
                for run in runs:
                    run.stopped = True
                raise
    finally:
        torch.set_num_threads(threads)  # which a thread sets for those that begin after it
    model = Mlp.stack([run.model() for run in runs])
    scores = torch.zeros(len(data.folds), data.labels.n)
    for k in range(data.members):
        own = (data.folds == k).nonzero()[:, 0]
        scores[own.cpu()] = model.member(k).scores(data.features[own].to("cpu"))
    if not bool(scores.isfinite().all()):
        raise Diverged("a score is infinite or NaN; lower lr")
    about = {
        "settings": settings.as_json(),
        "members": data.members,
        "sparse": isinstance(data.features, SparseRows),
    }
    loss = None if model.linked else model.loss
    return Fitted(scores, model, loss, earlier + time.perf_counter() - began, about)


class _OutOfTime(RuntimeError):
    """A fit would take longer than there is time."""


class _Watch:
    """Reports progress, and ends a fit that would not be done in time."""

    def __init__(
        self,
        progress: Callable[[float], None] | None,
        seconds: float | None,
        before: float,
        span: float,
    ) -> None:
        self.progress, self.seconds, self.before, self.span = progress, seconds, before, span
        self.began, self.first = time.perf_counter(), 0

    def start(self, step: int) -> None:
        """Fitting begins, or goes on, with this step."""
        self.began, self.first = time.perf_counter(), step

    def step(self, step: int, steps: int) -> None:
        """So many steps are done."""
        spent, taken = time.perf_counter() - self.began, step - self.first
        if self.seconds is not None and step < steps and (taken >= PACE or spent > self.seconds):
            needed = spent / max(taken, 1) * (steps - self.first)
            if needed > self.seconds:
                raise _OutOfTime(
                    f"would take about {needed:.0f} s, and {max(self.seconds, 0.0):.0f} s are left"
                )
        if self.progress is not None:
            self.progress(self.before + self.span * step / steps)


# ---- rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows to fit and score, on the device."""

    features: Tensor | SparseRows
    """As they are multiplied, which their density decides, not how they came."""
    labels: Labels
    folds: Tensor
    centre: Tensor
    """(features,): their mean, where they are dense; else 0."""
    scale: Tensor
    """(features,): 1 / their deviation, where they are dense; else 1."""
    members: int

    @classmethod
    def of(cls, features: Tensor | SparseRows, labels: Labels, folds: Tensor, device: Any) -> _Rows:
        if not len(features) == len(labels) == len(folds) or not len(folds):
            got = f"{len(features)}, {len(labels)} and {len(folds)}"
            raise ValueError(f"features, labels and folds need the same rows, at least one: {got}")
        if not features.shape[1] or not labels.n:
            raise ValueError("small networks need at least one feature and one label")
        stored = features.filled() if isinstance(features, SparseRows) else features
        if not bool(stored.isfinite().all()):
            raise ValueError("features of small networks must be finite; fill in what is missing")
        width = features.shape[1]
        centre, scale = torch.zeros(width), torch.ones(width)
        x: Tensor | SparseRows
        if int(stored.count_nonzero()) <= SPARSE * len(features) * width:
            x = features if isinstance(features, SparseRows) else _sparse(features)
        else:
            x = features.dense() if isinstance(features, SparseRows) else features.float()
            deviation, mean = torch.std_mean(x.double(), dim=0, correction=0)
            centre = mean.float()
            scale = torch.where(deviation > 1e-6 * mean.abs(), 1 / deviation, 1.0)
            scale = scale.clamp(max=1e30).float()
        return cls(
            x.to(device),
            labels.to(device),
            folds.to(device),
            centre.to(device),
            scale.to(device),
            max(int(folds.max()) + 1, 1),
        )

    @property
    def sparse(self) -> bool:
        return isinstance(self.features, SparseRows)

    @property
    def width(self) -> int:
        return int(self.features.shape[1])

    @property
    def device(self) -> torch.device:
        return self.folds.device

    def frequencies(self) -> Tensor:
        """(members, labels): how often each label is on in the rows that a member is fitted on."""
        y, folds = self.labels.to("cpu"), self.folds.cpu()
        return Rows(self.features, y, folds, refit=False).shares()[: self.members].to(self.device)

    def fingerprint(self) -> str:
        """Tells these rows, labels and folds from others."""
        x, y = self.features, self.labels
        arrays = [self.folds, y.indptr, y.indices, y.values, y.weights]
        arrays += [x.indptr, x.indices, x.values] if isinstance(x, SparseRows) else [x]
        counted = hashlib.sha256(f"{tuple(x.shape)} {y.shape}".encode())
        for t in arrays:
            if t is not None:
                counted.update(t.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return counted.hexdigest()


def _sparse(x: Tensor) -> SparseRows:
    rows, columns = x.nonzero(as_tuple=True)
    starts = csr.pointers(rows, len(x))
    values = x[rows, columns].float()
    return SparseRows(starts, columns.to(torch.int32), x.shape[1], csr.plain(values))


def _turned(x: SparseRows) -> SparseRows:
    """The transpose."""
    order = torch.argsort(x.indices, stable=True)
    values = None if x.values is None else x.values[order]
    starts = csr.pointers(x.indices.long(), x.width)
    return SparseRows(starts, x.rows()[order].to(torch.int32), len(x), values)


# ---- training -----------------------------------------------------------------------------------


class _Training:
    """Some of the networks of one setting, and where their training stands.

    Every random number follows from the seed, the member's number and the step: a member's do not
    depend on who is beside it, and training goes on from weights and moments alone.
    """

    def __init__(
        self, data: _Rows, settings: MlpSettings, seed: int, members: Sequence[int], threads: int
    ) -> None:
        self.data, self.settings, self.seed = data, settings, seed
        self.members, self.threads = members, threads
        self.loss: Loss = as_loss("loss", settings.loss).to(data.device)
        self.repeats = repeated(data.labels) is not None
        self.width, self.layers = settings.width or 2, settings.layers or 1
        self.epochs, self.rate = settings.epochs or 1, settings.lr or 0.0
        rows = len(data.folds)
        self.batch = min(settings.batch or rows, rows)
        self.steps = self.epochs * math.ceil(rows / self.batch)
        self.done, self.seconds, self.stopped = 0, 0.0, False
        self.file: Checkpoint | None = None
        self._latest: tuple[int, Loss | None, Loss] = -1, None, self.loss
        self.weights = self._start()
        self.means = {name: torch.zeros_like(t) for name, t in self.weights.items()}
        self.squares = {name: torch.zeros_like(t) for name, t in self.weights.items()}

    def _start(self) -> dict[str, Tensor]:
        """Weights are drawn, the output starts with the frequencies of labels."""
        data, width, deeper = self.data, self.width, self.layers - 1

        def draw(what: str, *shape: int) -> Tensor:
            bound = shape[-2] ** -0.5
            each = [
                torch.empty(shape).uniform_(-bound, bound, generator=self._random(what, k))
                for k in self.members
            ]
            return torch.stack(each)

        tensors = {
            "first": draw("first", data.width, width).transpose(0, 1).contiguous(),
            "inner": draw("inner", deeper, width, width).transpose(0, 1).contiguous(),
            "shift": torch.zeros(deeper + 1, len(self.members), width),
            "last": draw("last", width, data.labels.n),
            "bias": _prior(self.loss.at(0), data.frequencies()[self.members]),
        }
        return {name: t.to(data.device) for name, t in tensors.items() if t.numel()}

    def _random(self, *what: Any) -> torch.Generator:
        """A generator for one purpose alone."""
        name = json.dumps([self.seed, *what]).encode()
        number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")
        return torch.Generator().manual_seed(number)

    def train(self) -> None:
        """Train to the end, or until `stopped`, on the threads of this one's own."""
        torch.set_num_threads(self.threads)
        began = time.perf_counter() - self.seconds
        while self.done < self.steps and not self.stopped:
            self._step()
            self.seconds = time.perf_counter() - began
            if self.file is not None and (self.done == self.steps or self.file.due()):
                self._refuse_diverged()
                self.file.save(self.done, self.state)
        self._refuse_diverged()

    def model(self) -> Mlp:
        """The networks as they are now, on the CPU, for features as they came."""
        weights = {name: t.cpu().clone() for name, t in self.weights.items()}
        weights["first"] *= self.data.scale.cpu()[:, None, None]
        if self.layers == 1:
            weights["inner"] = torch.zeros(0, len(self.members), self.width, self.width)
        return Mlp(centre=self.data.centre.cpu(), loss=self.loss.to("cpu"), **weights)

    def _refuse_diverged(self) -> None:
        if not all(bool(t.isfinite().all()) for t in self.weights.values()):
            raise Diverged("a weight became infinite or NaN; lower lr")

    # ---- one step -------------------------------------------------------------------------------

    def _step(self) -> None:
        """One batch for all members."""
        epoch, at = divmod(self.done, self.steps // self.epochs)
        order = torch.randperm(len(self.data.folds), generator=self._random("order", epoch))
        rows = order[at * self.batch : (at + 1) * self.batch].to(self.data.device)
        x = self.data.features[rows]
        if isinstance(x, Tensor):
            x = (x - self.data.centre) * self.data.scale
            if self.settings.noise:
                noise = torch.empty(x.shape)
                noise.normal_(generator=self._random("noise", self.done))
                x += self.settings.noise * noise.to(x.device)
        first = self.weights["first"]
        z = (x @ first.flatten(1)).requires_grad_()
        others = {
            name: t.detach().requires_grad_() for name, t in self.weights.items() if name != "first"
        }
        hidden = z.view(len(rows), *first.shape[1:]).transpose(0, 1)
        value = self._value(self._logits(hidden, others), rows, epoch)
        slope, *slopes = torch.autograd.grad(value, [z, *others.values()])
        # autograd would make the gradient of a sparse product by adding up entry by entry
        turned = _turned(x) if isinstance(x, SparseRows) else x.T
        self._move(
            dict(zip(others, slopes, strict=True)) | {"first": (turned @ slope).view_as(first)}
        )
        self.done += 1

    def _move(self, slopes: Mapping[str, Tensor]) -> None:
        """One step of AdamW; what is added to units and logits does not decay."""
        lr = self.rate * share("one-cycle", self.done, self.steps)
        for added, decay in ((False, self.settings.weight_decay), (True, 0.0)):
            names = [name for name in slopes if (name in ("shift", "bias")) == added]
            weights, gradients, means, squares = (
                [kind[name] for name in names]
                for kind in (self.weights, slopes, self.means, self.squares)
            )
            adamw(weights, gradients, means, squares, self.done + 1, lr, decay)

    def _logits(self, z: Tensor, w: Mapping[str, Tensor]) -> Tensor:
        """(members, rows, labels) of the first layer's products, hidden units left out at random.

        A byte of a drawn number decides about a unit: drawing one number each would take as long
        as the products.
        """
        gone = min(round(256 * (self.settings.dropout or 0.0)), 255)
        for layer, shift in enumerate(w["shift"]):
            z = units(z if layer == 0 else torch.bmm(z, w["inner"][layer - 1]), shift)
            if gone:
                z = z * self._kept(layer, z.shape, gone)
        return torch.baddbmm(w["bias"][:, None], z, w["last"])

    def _kept(self, layer: int, shape: torch.Size, gone: int) -> Tensor:
        """(members, rows, units): 0 for units left out, else what keeps the mean as it is."""
        members, rows, width = shape
        words = torch.empty(members, -(-rows * width // 8), dtype=torch.int64)
        for at, k in enumerate(self.members):
            words[at].random_(-(2**63), None, generator=self._random("units", k, layer, self.done))
        drawn = words.view(torch.uint8)[:, : rows * width].reshape(shape)
        return (drawn >= gone).to(self.data.device, torch.float32).mul_(256 / (256 - gone))

    def _value(self, logits: Tensor, rows: Tensor, epoch: int) -> Tensor:
        """The losses of all members, each on the rows that are not of its own fold.

        Separable ones are one sum over entries, in which those rows count as unknown.
        """
        loss, y = self._loss_at(epoch), self.data.labels[rows]
        member = torch.tensor(self.members, device=rows.device)[:, None]
        own = self.data.folds[rows] == member
        if isinstance(loss, Separable):
            known = y.dense().expand(logits.shape).masked_fill(own[..., None], torch.nan)
            v, entries = logits.flatten(0, 1), known.flatten(0, 1)
            if (counts := y.entry_weights) is None:
                return loss(v, entries) / len(rows)
            counts = counts.expand(logits.shape).flatten(0, 1)
            target = replace(Labels.from_dense(entries), weights=counts)
            return weighted_loss(loss, target)(v, target) / len(rows)
        others = [(~left).nonzero()[:, 0] for left in own]
        if self.repeats and (times := repeated(y)) is not None:
            y = replace(y, weights=None)
            others = [times[torch.isin(times, at)] for at in others]
        loss = weighted_loss(loss, y)
        parts = [loss(v[at], y[at]) for v, at in zip(logits, others, strict=True) if len(at)]
        return torch.stack(parts).sum() if parts else 0 * logits.sum()

    def _loss_at(self, epoch: int) -> Loss:
        """The loss of an epoch; the same object as long as it does not change, since it keeps the
        kernel that its first call makes."""
        before, loss, total = self._latest
        if epoch != before:
            now = self.loss.at(epoch)
            if now is not loss:
                total = replace(now, reduction="sum") if isinstance(now, Separable) else now
            self._latest = epoch, now, total
        return total

    # ---- kept -----------------------------------------------------------------------------------

    def continue_in(self, folder: Path, every: float | None) -> None:
        """Keep the state in a folder of its own, named by what is fitted on what, and go on from
        what is there."""
        from labelset.train._checkpoint import Checkpoint

        about: Mapping[str, Any] = {
            "settings": self.settings.as_json(),
            "seed": self.seed,
            "members": self.members,
            "data": self.data.fingerprint(),
        }
        name = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
        self.file = Checkpoint(folder / name, about, every)
        state = self.file.begin(resume=True)
        if state is not None:
            self.restore(state)

    def state(self) -> dict[str, Any]:
        """All that changes."""
        return {
            "done": self.done,
            "seconds": self.seconds,
            **{kind: getattr(self, kind) for kind in ("weights", "means", "squares")},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was."""
        self.done, self.seconds = state["done"], state["seconds"]
        for kind in ("weights", "means", "squares"):
            for name, t in getattr(self, kind).items():
                t.copy_(state[kind][name])


def _prior(loss: Loss, frequency: Tensor) -> Tensor:
    """The scores by which a loss is least where nothing is known but (members, labels) frequencies.

    Found on a grid; losses that are no sums over entries start with log-odds.
    """
    out = frequency.logit().float()
    if not isinstance(loss, Separable):
        return out
    n = frequency.shape[1]
    loss = loss.bind(n)
    grid = torch.linspace(-12, 12, 481, dtype=torch.float64, device=frequency.device)
    some = max(1, GRID // len(grid))
    for start in range(0, n, some):
        at = torch.arange(start, min(start + some, n), device=frequency.device)
        v = grid[:, None].expand(-1, len(at))
        here = loss.select_labels(at, n)
        pos, neg = here.pos(v), here.neg(v)
        for k, p in enumerate(frequency[:, at]):
            out[k, at] = grid[(p * pos + (1 - p) * neg).argmin(0)].float()
    return out

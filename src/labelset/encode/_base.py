"""Encoder: rows of a data set to features."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from labelset.data import Dataset, SparseRows, StoredRows, StoredSparse
from labelset.data.store import MEMORY, blocks, spooled

Inputs = Tensor | SparseRows | StoredRows | StoredSparse
"""What training cuts its batches from: `inputs[rows]` are the chosen rows."""

BLOCK = 1024
"""Rows that go through a module together when nothing is trained."""
KINDS = {"features": "numbers", "texts": "text", "images": "picture"}
"""What an embedding is of."""
ENTRIES = 1 << 24
"""Numbers in a block, where that many rows would hold more."""
MANY = 64
"""Rows from which on it is worth its time to bring a network to a GPU."""


@dataclass(kw_only=True, eq=False)
class Encoder(ABC):
    """Fields are settings; `fit` learns from training rows; calling it gives features.

    The work is in two steps. `prepare` is done once for all rows. `module`, where there is one, is
    applied to each batch of that, and is trained together with the head.
    """

    name: ClassVar[str]
    """What `build` calls it."""
    reads: ClassVar[tuple[str, ...]] = ("features",)
    """Which inputs of a data set it takes."""
    costly: ClassVar[bool] = False
    """Whether what `prepare` gives is worth a place on disk."""
    advice: ClassVar[Mapping[str, Any]] = {}
    """Settings of training that suit its network, where none are given: `lr`, `batch`, and `passes`
    over few rows."""

    def __post_init__(self) -> None:
        self.learnt: dict[str, Tensor] = {}
        self.facts: dict[str, Any] = {}
        self.module: nn.Module | None = None

    @property
    def device(self) -> str:
        """Where its network runs when it is not being trained."""
        return "cpu"

    @property
    def learns(self) -> bool:
        """Whether it is a network that is trained with the head."""
        return False

    @property
    def placed(self) -> bool:
        """Whether it gives (rows, places, width): each token or patch by itself, and zeros where a
        row has fewer."""
        return bool(getattr(self, "places", False))

    def by_place(self) -> Encoder:
        """Itself, or a copy that is `placed`: for heads that attend to tokens or patches."""
        if self.placed:
            return self
        if not (self.learns and hasattr(self, "places")):
            raise ValueError(
                "label-attention attends to the tokens or patches of a network that is trained "
                f"with it, and the encoder {self.name!r} gives a row as a whole; take transformer, "
                "text, vision or conv"
            )
        made = copy.deepcopy(self)
        for place in filter(None, (made, made.module)):
            vars(place)["places"] = True
        return made

    @abstractmethod
    def fit(self, train: Dataset) -> Self:
        """Learn what is to be learnt from training rows; it goes to `learnt` and `facts`."""

    @abstractmethod
    def prepare(self, dataset: Dataset) -> Inputs:
        """(rows, ...): what the module takes, or the features where there is none."""

    def prepared(self, dataset: Dataset) -> Inputs:
        """The same; of rows that lie on disk, block by block, and to disk."""
        if not dataset.on_disk:
            return self.prepare(dataset)
        held: Inputs = spooled((self.prepare(part) for part in dataset.blocks()), 0)
        return held

    def as_numbers(self, inputs: Tensor) -> Tensor:
        """The same inputs as floating-point numbers that the module takes alike, so that slopes can
        be taken by them."""
        return inputs.float()

    def table(self) -> nn.Module | None:
        """The part of its network that makes numbers of tokens; None where it reads none."""
        return None

    def words_in(self, text: str) -> tuple[list[str], Tensor]:
        """The words of a text, and (windows, tokens) which of them each token is in, -1 for none:
        where there is a `table`."""
        raise TypeError(f"the encoder {self.name!r} reads no tokens")

    def make(self) -> nn.Module | None:
        """The module as `facts` describe it, its numbers being random; None where there is none."""
        return None

    def rates(self) -> dict[str, float]:
        """Parameters of the module whose learning rate is not the head's: theirs over it."""
        return {}

    def lengths(self, inputs: Inputs) -> Tensor | None:
        """How much work each row is to the module, where rows differ; batches have like rows."""
        return None

    def batch_of(self, inputs: Any, step: int = 1) -> Any:
        """What training gives to the module, of some rows: without what only pads them; `step`: few
        widths are wanted, multiples of it."""
        return inputs

    @property
    def nbytes(self) -> int:
        """Bytes of its network."""
        inner = [] if self.module is None else self.module.parameters()
        return sum(p.numel() * p.element_size() for p in inner)

    @property
    def fitted(self) -> bool:
        """Whether `fit` was called."""
        return bool(self.facts)

    def __call__(self, dataset: Dataset) -> Inputs:
        """(rows, width) features, by what was learnt."""
        inputs = self.prepared(dataset)
        return inputs if self.module is None else through(self.module, inputs, self.device)

    def feature_names(self, width: int, columns: Sequence[str] | None) -> list[str]:
        """What each of so many features is called; `columns`: names of the numbers that are read.

        Features of one name mean nothing alone and are spoken of together.
        """
        return [f"embedding of {KINDS[self.reads[0]]}"] * width

    def fact(self, key: str) -> Any:
        """Something learnt that is no tensor; an error before `fit`."""
        if key not in self.facts:
            raise RuntimeError(f"the encoder {self.name!r} must be fitted first: call fit(dataset)")
        return self.facts[key]

    # ---- in files -------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """The fields, as given."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def as_json(self) -> dict[str, Any]:
        """All but the tensors, for `labelset.encode.from_json`."""
        return {"name": self.name, "settings": self.settings(), "facts": self.facts}

    def state(self) -> dict[str, Tensor]:
        """The tensors: those learnt by `fit`, and those of the module."""
        inner = {} if self.module is None else self.module.state_dict()
        return self.learnt | {f"module.{name}": t.detach() for name, t in inner.items()}

    def restore(self, facts: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        """Be what wrote these facts and tensors."""
        self.facts = dict(facts)
        inner = {name: t for name, t in state.items() if name.startswith("module.")}
        self.learnt = {name: t for name, t in state.items() if name not in inner}
        self.module = self.make()
        if self.module is not None:
            self.module.load_state_dict({k.removeprefix("module."): t for k, t in inner.items()})
        return self


@torch.no_grad()
def through(module: nn.Module, inputs: Any, device: str, memory: int = MEMORY) -> Any:
    """(rows, width) on the CPU, where the module stays: what it makes of inputs, in evaluation."""
    training = module.training
    module.eval().to(device if len(inputs) >= MANY else "cpu")
    where = next((t.device for t in module.parameters()), torch.device("cpu"))
    parts = blocks(inputs, ENTRIES, BLOCK) if len(inputs) else [inputs[:0]]
    try:
        return spooled((module(part.to(where)).cpu() for part in parts), memory)
    finally:
        module.train(training).to("cpu")


def check_state(
    what: str, state: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...] | None]
) -> None:
    """ValueError unless there are these tensors and no others, real, finite, and of these shapes;
    where a shape is None, somebody else looks at the tensor."""
    if {*state} != {*shapes}:
        raise ValueError(f"{what} has the tensors {sorted(shapes)}, got {sorted(state)}")
    for name, shape in shapes.items():
        t = state[name]
        if shape is None:
            continue
        if tuple(t.shape) != shape or t.dtype not in (torch.float32, torch.float64):
            got = f"{t.dtype} {tuple(t.shape)}"
            raise ValueError(f"{name} of {what} must be float32 or float64 {shape}, got {got}")
        if not bool(t.isfinite().all()):
            raise ValueError(f"{name} of {what} must be finite")


CHUNK = 8192
"""Rows taken to float64 together."""
FAR = 1e3
"""Deviations beyond which a number is cut off, so that one wild row stays finite."""


def moments(x: Tensor | StoredRows) -> dict[str, Tensor]:
    """Mean and deviation of each column, NaN left out: as precise as x, from sums in float64.

    A column that never changes, or is never known, has deviation 1.
    """
    if isinstance(x, StoredRows):
        return moments_of(lambda: blocks(x, rows=CHUNK), x.shape[1])
    return moments_of(lambda: x.split(CHUNK), x.shape[1])  # type: ignore[no-untyped-call]


def moments_of(parts: Callable[[], Iterable[Tensor]], width: int) -> dict[str, Tensor]:
    """The same of rows that come in blocks, and come twice."""
    total = torch.zeros(width, dtype=torch.float64)
    count, squares = torch.zeros_like(total), torch.zeros_like(total)
    low, high = torch.full_like(total, torch.inf), torch.full_like(total, -torch.inf)
    dtype = torch.float32
    for b in parts():
        dtype = torch.float64 if b.dtype == torch.float64 else dtype
        count += (~b.isnan()).sum(0)
        total += b.double().nansum(0)
        low = torch.minimum(low, b.nan_to_num(torch.inf, posinf=torch.inf).amin(0))
        high = torch.maximum(high, b.nan_to_num(-torch.inf, neginf=-torch.inf).amax(0))
    count.clamp_(min=1)
    mean = total / count
    for b in parts():
        squares += (b.double() - mean).square().nansum(0)
    deviation = (squares / count).sqrt().to(dtype)
    deviation = torch.where((low < high) & (deviation > 0), deviation, 1.0)
    return {"mean": mean.to(dtype), "deviation": deviation}


def standardised(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """(x - mean) / deviation, 0 where a measurement is missing; float32.

    Numbers that came in float64 are rounded only when what all of them share is gone.

    >>> standardised(torch.tensor([[3.0, torch.nan]]), torch.ones(2), 2 * torch.ones(2))
    tensor([[1., 0.]])
    """
    if torch.promote_types(x.dtype, mean.dtype) != torch.float64:
        return scaled(x, mean, deviation)
    z = torch.empty(x.shape, dtype=torch.float32)
    for start in range(0, len(x), CHUNK):
        z[start : start + CHUNK] = scaled(x[start : start + CHUNK], mean, deviation)
    return z


def scaled(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """The same in one piece, and as precise as the most precise of the three."""
    z = (x - mean).div_(deviation)
    return z.nan_to_num_(0.0).clamp_(-FAR, FAR)

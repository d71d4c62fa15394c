"""Head: the last layer, in two steps, so that what it can represent can be proven; its files."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, ClassVar

import torch
from torch import Tensor, nn

from labelset import check
from labelset.data import SparseRows
from labelset.data.reading import reading
from labelset.files import write_bytes


class NoMatrix(ValueError):
    """The head is no matrix times numbers that all labels share: nothing can be proven about it."""


class Head(nn.Module):
    """logits = W x + b with x = project(features)."""

    name: str
    places: ClassVar[bool] = False
    """Whether it takes (..., places, features), all tokens or patches of a row, and has no matrix;
    places whose numbers are all 0 are none."""
    settings: dict[str, Any]
    """What `build` needs to make such a head again, its numbers aside."""

    @property
    def labels(self) -> int:
        """How many labels it scores."""
        return int(self.settings["labels"])

    @abstractmethod
    def project(self, features: Any) -> Any:
        """x: what the matrix is applied to, from (..., features) or from `SparseRows`."""

    @abstractmethod
    def matrix(self) -> tuple[Tensor, Tensor | None]:
        """(W, b), exactly as the logits use them; b is None where there is no bias. `NoMatrix`
        where labels share no x."""

    @abstractmethod
    def logits(self, x: Any) -> Tensor:
        """W x + b from projected features, by the quickest way."""

    def weights(self, labels: Tensor) -> Tensor:
        """(labels, features): what each feature adds to the logits of these labels, per unit."""
        rows = self.matrix()[0].detach()[labels]
        by = getattr(self, "projection", None)
        return rows @ by.weight.detach() if isinstance(by, nn.Linear) else rows

    def forward(self, features: Tensor | SparseRows) -> Tensor:
        """Logits of (..., features), or of sparse rows, which stay sparse."""
        return self.logits(self.project(features))


def affine(layer: nn.Linear, features: Tensor | SparseRows) -> Tensor:
    """The layer's output; the matrix of sparse features is never made dense.

    Quick where the weight is stored by feature, so that its transpose is contiguous.
    """
    if isinstance(features, SparseRows):
        product = features @ layer.weight.T
        return product if layer.bias is None else product + layer.bias
    dense: Tensor = layer(features)
    return dense


def store_by_feature(head: nn.Module, features: int) -> None:
    """Store the matrices that meet features with the parameters of one feature side by side.

    Products with sparse rows then read and write whole lines of memory; shapes stay as they are.
    """
    for p in head.parameters():
        if p.ndim == 2 and p.shape[1] == features:
            p.data = p.data.T.contiguous().T


KEY = "labelset.head"
DTYPES = {str(t)[6:]: t for t in (torch.float64, torch.float32, torch.bfloat16, torch.float16)}


def save(head: Head, path: str | Path | IO[bytes]) -> None:
    """Write a head to a safetensors file, or an open one, with what is needed to build it again."""
    from safetensors.torch import save as packed

    tensors = {name: t.contiguous().cpu() for name, t in head.state_dict().items()}
    dtype = str(next(head.parameters()).dtype).removeprefix("torch.")
    about = {"name": head.name, "dtype": dtype, **head.settings}
    content = packed(tensors, metadata={KEY: json.dumps(about)})
    if isinstance(path, (str, Path)):
        write_bytes(Path(path), content)
    else:
        path.write(content)


def load(path: str | Path) -> Head:
    """The head that `save` wrote."""
    from safetensors import safe_open
    from safetensors.torch import load_file

    with reading(Path(path)):
        with safe_open(path, framework="pt") as file:
            about = (file.metadata() or {}).get(KEY)
        if about is None:
            raise ValueError("holds no labelset head; write one with labelset.heads.save")
        tensors = load_file(path)
        try:
            settings: dict[str, Any] = json.loads(about)
            dtype = DTYPES[settings.pop("dtype")]
            return restored(settings.pop("name"), settings, tensors).to(dtype)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"does not hold the head it says it holds: {error}") from None


def restored(name: str, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Head:
    """The head of these settings with these numbers; ValueError where they do not belong together.

    Settings are compared with the tensors before anything of the size that they state is made.

    >>> restored("linear", {"features": 2, "labels": 1}, {"classifier.weight": torch.zeros(1, 2)})
    Traceback (most recent call last):
    ValueError: a linear head has the tensors classifier.bias, classifier.weight, got \
classifier.weight
    """
    from labelset.heads import build

    largest = max((size for t in tensors.values() for size in t.shape), default=0)
    for key, value in settings.items():
        if isinstance(value, int) and value > largest:
            raise ValueError(f"{key} of a {name} head is {value}, and no tensor is as large")
    with torch.device("meta"):
        expected = build(name, **settings).state_dict()
    if {*expected} != {*tensors}:
        due, got = (", ".join(sorted(names)) for names in (expected, tensors))
        raise ValueError(f"a {name} head has the tensors {due}, got {got}")
    for key, due in expected.items():
        t = tensors[key]
        if t.shape != due.shape or t.is_floating_point() != due.is_floating_point():
            got = f"{str(t.dtype)[6:]} {tuple(t.shape)}"
            raise ValueError(
                f"{key} of the {name} head must have shape {tuple(due.shape)}, got {got}"
            )
        if not bool(t.isfinite().all()):
            raise ValueError(f"{key} of the {name} head must be finite")
    head = build(name, **settings)
    head.load_state_dict(dict(tensors))
    return head


# ---- how many label sets a head can represent (Cover, 1965) ----------------------------------


def expressible(n: int, d: int, bias: bool = False) -> int:
    """How many of the 2^n label sets sign(W x) takes, W (n, d) in general position, exactly.

        without bias  2 sum_{i < d} C(n - 1, i)                                            (2)
        with bias     sum_{i <= d} C(n, i): as in one more dimension, halved by x -> -x

    >>> expressible(3, 2), expressible(3, 2, bias=True), 2**3
    (6, 7, 8)
    """
    _check_sizes(n, d)
    if bias:
        return sum(math.comb(n, i) for i in range(min(d, n) + 1))
    return 2 * sum(math.comb(n - 1, i) for i in range(min(d, n)))


def log2_expressible(n: int, d: int, bias: bool = False) -> float:
    """log2 of `expressible`, for numbers that are too long to write down.

    >>> round(log2_expressible(1000, 500), 6)
    999.0
    """
    _check_sizes(n, d)
    top, count = (n, min(d, n) + 1) if bias else (n - 1, min(d, n))
    logs = [_log2_comb(top, i) for i in range(count)]
    most = max(logs)
    return most + math.log2(math.fsum(2 ** (x - most) for x in logs)) + (0.0 if bias else 1.0)


def draw_expressible(n: int, bias: bool = False) -> str:
    """How the number of representable label sets grows with d, as an SVG (Figure 2, left).

    >>> draw_expressible(100).startswith("<svg")
    True
    """
    from labelset import charts

    some = sorted({1 + round(i * (n - 1) / 60) for i in range(61)})
    lines = [
        charts.Line([(1, n), (n, n)], None, "all label sets", width=5.0),
        charts.Line([(d, log2_expressible(n, d, bias)) for d in some], 0, "representable"),
    ]
    title, x = f"label sets of {n} labels (log2)", charts.round_ticks(1, n, inside=True)
    y = charts.round_ticks(0, n)
    panel = charts.Panel(title, "features d", "", lines, (1, max(n, 2)), (0, y[-1][0]), x, y)
    return charts.svg([panel], title)


def _log2_comb(n: int, i: int) -> float:
    return (math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)) / math.log(2)


def _check_sizes(n: int, d: int) -> None:
    check.whole("n", n, low=1)
    check.whole("d", d, low=1)

"""Mlp: small networks side by side, each fitted on other rows, whose mean is the score."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import layer_norm, logsigmoid

from labelset.data import SparseRows
from labelset.losses import FAR, Loss, describe_loss, read_loss
from labelset.model.contributions import (
    Contributions,
    apart,
    chord,
    in_blocks,
    integrated,
    logit,
)

Array = NDArray[Any]

MOST = 30.0
"""How large log-odds may be: those of a link that gives 0 or 1 would be infinite."""
TINY = 1e-14
"""A probability below that of any such log-odds."""
ENTRIES = 1 << 22
"""Hidden units, features or scores of rows that are in memory together."""
LARGEST = 1 << 16
"""Bytes of a described loss in a file."""
DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError),
    MemoryError,
)
"""What describing a loss that cannot be may raise."""
FLOATS = {"centre": 1, "first": 3, "inner": 4, "shift": 3, "last": 3, "bias": 2}
"""The weights in a file, and how many axes they have."""


@dataclass(frozen=True, eq=False, repr=False)
class Mlp:
    """scores = the mean over members of last . h + bias, h = relu(norm(first . (x - centre) + b)).

    `norm` gives the units of a row mean 0 and deviation 1; deeper networks repeat it with `inner`.
    Where the loss has a link the mean is one of probabilities, and the scores are its log-odds;
    else it is one of logits.

    >>> one = torch.tensor([[[1.0, -1.0]]])  # 1 feature, 1 member, 2 units
    >>> Mlp(torch.zeros(1), one, torch.zeros(0, 1, 2, 2), torch.zeros(1, 1, 2),
    ...     torch.ones(1, 2, 1), torch.zeros(1, 1), None)
    Mlp(1 members, 1 x 2 units, 1 features, 1 labels)
    """

    kind: ClassVar[str] = "mlp"

    centre: Tensor
    """(features,): what is subtracted from each feature."""
    first: Tensor
    """(features, members, units)."""
    inner: Tensor
    """(layers - 1, members, units, units)."""
    shift: Tensor
    """(layers, members, units): added before the units are normalised."""
    last: Tensor
    """(members, units, labels)."""
    bias: Tensor
    """(members, labels)."""
    loss: Loss | None
    """What the logits were trained by; None: they are log-odds."""

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def stack(cls, parts: Sequence[Mlp]) -> Mlp:
        """The members of several that differ in nothing else than their weights."""
        axes = {"first": 1, "inner": 1, "shift": 1, "last": 0, "bias": 0}
        joined = {
            name: torch.cat([getattr(part, name) for part in parts], axis)
            for name, axis in axes.items()
        }
        return cls(centre=parts[0].centre, loss=parts[0].loss, **joined)

    # ---- what is in it --------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.last.shape[0]

    def __repr__(self) -> str:
        units = f"{len(self.shift)} x {self.shift.shape[2]} units"
        return f"Mlp({len(self)} members, {units}, {self.width} features, {self.labels} labels)"

    @property
    def width(self) -> int:
        """How many features a row has."""
        return self.first.shape[0]

    @property
    def labels(self) -> int:
        """How many labels it gives scores of."""
        return self.last.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(t.numel() * t.element_size() for t in self._weights().values())

    @property
    def linked(self) -> bool:
        """Whether scores are log-odds of probabilities."""
        return self.loss is None or self.loss.link_missing() is None

    def member(self, k: int) -> Mlp:
        """The k-th network alone."""
        at = slice(k, k + 1)
        return replace(
            self,
            first=self.first[:, at],
            inner=self.inner[:, at],
            shift=self.shift[:, at],
            last=self.last[at],
            bias=self.bias[at],
        )

    # ---- evaluated ------------------------------------------------------------------------------

    @torch.no_grad()
    def scores(self, features: Any) -> Tensor:
        """(rows, labels) float32 scores of a tensor, sparse rows, or rows on disk, on the CPU.

        Worked out in float64, so that a row has the same ones alone and among others.
        """
        if len(features.shape) != 2 or features.shape[1] != self.width:
            got = tuple(features.shape)
            raise ValueError(f"the networks take (rows, {self.width}) features, got {got}")
        out = torch.empty(len(features), self.labels)
        each = max(self.first[0].numel(), self.width, self.labels * len(self))
        size = max(16, ENTRIES // each)
        for start in range(0, len(features), size):
            rows = features[start : start + size].to(self.first.device)
            out[start : start + size] = self.joined(self.wide.logits(rows)).cpu()
        return out

    @cached_property
    def wide(self) -> Mlp:
        """The same networks in float64."""
        wide = object.__new__(Mlp)  # unchecked, as files hold float32 alone
        held = {name: t.double() for name, t in self._weights().items()}
        for name, value in (held | {"loss": self.loss}).items():
            object.__setattr__(wide, name, value)
        return wide

    def logits(self, features: Tensor | SparseRows) -> Tensor:
        """(members, rows, labels): what each network says."""
        first = self.first.flatten(1)
        if isinstance(features, SparseRows):
            z = features @ first - self.centre @ first
        else:
            z = (features.to(first.dtype) - self.centre) @ first
        h = units(z.view(-1, *self.first.shape[1:]).transpose(0, 1), self.shift[0])
        for weight, shift in zip(self.inner, self.shift[1:], strict=True):
            h = units(torch.bmm(h, weight), shift)
        return torch.baddbmm(self.bias[:, None], h, self.last)

    def joined(self, logits: Tensor) -> Tensor:
        """(rows, labels) scores of the logits of all members."""
        if not self.linked:
            return logits.mean(0)
        if self.loss is not None:
            v = logits.clamp(-FAR, FAR)
            logits = torch.stack([self.loss.log_odds(v[k]) for k in range(len(v))])
        v = logits.clamp(-MOST, MOST)
        if len(v) == 1:
            return v[0]
        # log of the mean p less log of the mean 1 - p, neither of which rounds to 0 or 1
        return logsigmoid(v).logsumexp(0) - logsigmoid(-v).logsumexp(0)

    def module(self) -> nn.Module:
        """`scores` as a module of plain operations, whose `forward` takes dense features."""
        return _Module(self)

    # ---- explained ------------------------------------------------------------------------------

    def contributions(self, features: Any, rows: Array, labels: Array) -> Contributions:
        """Integrated gradients of each member's logits, through what makes scores of them."""
        size = max(1, ENTRIES // (16 * max(self.first[0].numel(), self.width)))
        return in_blocks(rows, labels, size, lambda *pairs: self._contributions(features, *pairs))

    def _contributions(self, features: Any, rows: Array, labels: Array) -> Contributions:
        some, first = features[torch.from_numpy(rows)], self.wide.first.flatten(1)
        x = some if isinstance(some, SparseRows) else some.to(first)
        shape = (-1, *self.first.shape[1:])
        ways, starts = (x @ first).view(shape), -(self.wide.centre @ first).view(shape)
        each = (self._slopes(k, starts[0, k], ways[:, k], labels) for k in range(len(self)))
        low, high, slopes = (np.stack(member, axis=1) for member in zip(*each, strict=True))
        factors, base = self._factors(low, high, labels)
        worth = torch.from_numpy(slopes * factors[:, :, None]).flatten(1)
        return Contributions(base, _times(x, worth, first))

    def _slopes(
        self, k: int, start: Tensor, way: Tensor, labels: Array
    ) -> tuple[Array, Array, Array]:
        """(pairs,) a member's logits at zeros and at the row; (pairs, units) their mean slopes in
        between, by the first hidden units before a nonlinearity."""

        def value(which: Array, t: Array) -> Array:
            z = start + torch.from_numpy(t)[:, None] * way[which]
            return self._logits(k, z, labels[which]).numpy()

        def slopes(which: Array, t: Array) -> Array:
            z = (start + torch.from_numpy(t)[:, None] * way[which]).requires_grad_()
            with torch.enable_grad():
                picked = self._logits(k, z, labels[which]).sum()
            return torch.autograd.grad(picked, z)[0].numpy()

        def sums(which: Array, slopes: Array) -> Array:
            added: Array = (way[which].numpy() * slopes).sum(1)
            return added

        every = np.arange(len(labels))
        with torch.no_grad():
            found = integrated(len(labels), value, slopes, sums)
            return value(every, every * 0.0), value(every, every * 0.0 + 1), found

    def _logits(self, k: int, z: Tensor, labels: Array) -> Tensor:
        """(pairs,): a member's logit of a label, from (pairs, units) before the first shift."""
        wide = self.wide
        h = layer_norm(z + wide.shift[0, k], z.shape[1:]).relu()
        for weight, shift in zip(wide.inner[:, k], wide.shift[1:, k], strict=True):
            h = layer_norm(h @ weight + shift, z.shape[1:]).relu()
        return (h * wide.last[k][:, labels].T).sum(1) + wide.bias[k, labels]

    def _factors(self, low: Array, high: Array, labels: Array) -> tuple[Array, Array]:
        """(pairs, members) what a member's logit is worth to the score, between these (pairs,
        members) logits; and the scores of the first."""
        if not self.linked:
            return np.full(low.shape, 1 / len(self)), low.mean(1)

        def p(v: Array) -> Array:
            every, at = torch.zeros(*v.shape, self.labels).double(), torch.from_numpy(labels)
            at = at[:, None, None].expand(*v.shape, 1)
            every.scatter_(2, at, torch.from_numpy(v)[:, :, None].clamp(-FAR, FAR))
            odds = every if self.loss is None else self.loss.log_odds(every.flatten(0, 1))
            odds = odds.view(every.shape).gather(2, at)[:, :, 0]
            return odds.clamp(-MOST, MOST).sigmoid().numpy()

        each, start, end = chord(p, low, high, 1e-3), p(low).mean(1), p(high).mean(1)
        outer = chord(lambda q: logit(q, TINY), start, end, apart(start, end, TINY))
        return each * outer[:, None] / len(self), logit(start, TINY)

    # ---- in files -------------------------------------------------------------------------------

    def _weights(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in FLOATS}

    def tensors(self) -> dict[str, Tensor]:
        """What a safetensors file keeps, for `from_tensors`; the loss is JSON as bytes."""
        described = json.dumps(describe_loss(self.loss)).encode()
        stored = {name: t.cpu().contiguous() for name, t in self._weights().items()}
        return stored | {"loss": torch.frombuffer(bytearray(described), dtype=torch.uint8)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Mlp:
        """The networks that `tensors` described; ValueError where they describe none."""
        if {*tensors} != {*FLOATS, "loss"}:
            names = ", ".join((*FLOATS, "loss"))
            raise ValueError(f"small networks have the tensors {names}, got {[*tensors]}")
        described = tensors["loss"]
        if described.dtype != torch.uint8 or described.ndim != 1 or len(described) > LARGEST:
            raise ValueError("loss of small networks must be at most 64 KiB of JSON, as bytes")
        try:
            content = json.loads(bytes(described.tolist()))
        except (ValueError, RecursionError):
            raise ValueError("the loss of small networks is no JSON") from None
        try:
            loss = read_loss(content)
        except DAMAGE as error:
            raise ValueError(f"the loss of small networks: {error}") from None
        return cls(**{name: tensors[name] for name in FLOATS}, loss=loss)


class _Module(nn.Module):
    """(rows, features) -> (rows, labels), one member after the other."""

    centre: Tensor
    first: Tensor
    inner: Tensor
    shift: Tensor
    last: Tensor
    bias: Tensor

    def __init__(self, mlp: Mlp) -> None:
        super().__init__()
        for name in FLOATS:
            self.register_buffer(name, getattr(mlp, name))
        self.joined = mlp.joined

    def forward(self, features: Tensor) -> Tensor:
        """The scores of the logits of all members."""
        x = features - self.centre
        return self.joined(torch.stack([self._logits(x, k) for k in range(len(self.last))]))

    def _logits(self, x: Tensor, k: int) -> Tensor:
        for layer in range(len(self.shift)):
            weight = self.inner[layer - 1, k] if layer else self.first[:, k]
            x = layer_norm(x @ weight + self.shift[layer, k], weight.shape[1:]).relu()
        return x @ self.last[k] + self.bias[k]


def _times(x: Tensor | SparseRows, slopes: Tensor, first: Tensor) -> Any:
    """(pairs, features) scipy matrix: each feature times its slope, from those of hidden units."""
    from scipy.sparse import csr_matrix

    if isinstance(x, Tensor):
        return csr_matrix((x * (slopes @ first.T)).numpy())
    starts, columns = x.indptr.tolist(), x.indices.long()
    each = [first[columns[a:b]] @ s for (a, b), s in zip(pairwise(starts), slopes, strict=True)]
    values = torch.cat([*each, torch.zeros(0)]) * x.filled().double()
    return csr_matrix((values.numpy(), columns.numpy(), x.indptr.numpy()), shape=x.shape)


def units(z: Tensor, shift: Tensor) -> Tensor:
    """(members, rows, units) of a hidden layer, after a (members, units) shift."""
    return layer_norm(z + shift[:, None], z.shape[-1:]).relu()


# ---- checks -------------------------------------------------------------------------------------


def _check(mlp: Mlp) -> None:
    """The shapes fit one another and every weight is finite; ValueError otherwise."""
    for name, axes in FLOATS.items():
        t = getattr(mlp, name)
        if t.dtype != torch.float32 or t.ndim != axes:
            got = f"{t.dtype} {tuple(t.shape)}"
            raise ValueError(f"{name} of small networks must be {axes}-D float32, got {got}")
        if not bool(t.isfinite().all()):
            raise ValueError(f"{name} of small networks must be finite")
    features, members, width = mlp.first.shape
    layers, labels = len(mlp.shift), mlp.last.shape[2]
    expected = {
        "centre": (features,),
        "inner": (layers - 1, members, width, width),
        "shift": (layers, members, width),
        "last": (members, width, labels),
        "bias": (members, labels),
    }
    if min(features, members, layers, labels) < 1 or width < 2:
        raise ValueError("small networks need a feature, a member, a layer, a label and two units")
    for name, shape in expected.items():
        t = getattr(mlp, name)
        if tuple(t.shape) != shape:
            got = f"{tuple(t.shape)}"
            raise ValueError(f"{name} of small networks must have shape {shape}, got {got}")
    if mlp.loss is not None and mlp.linked:
        try:
            mlp.loss.link(torch.zeros(1, labels))
        except DAMAGE as error:
            raise ValueError(f"the loss of small networks with {labels} labels: {error}") from None

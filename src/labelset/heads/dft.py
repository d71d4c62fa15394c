"""The DFT head (Grivas et al.): every set of up to k labels can be represented."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear

from labelset import check
from labelset.heads._base import Head, affine
from labelset.labels import Labels


class DFT(Head):
    """Fixed columns of a truncated Fourier matrix, beside `slack` columns that are learnt.

        W = [F S],  logits = W x,  x = P e + c
        F = [1/sqrt(n), sqrt(2/n) cos(j t_i), sqrt(2/n) sin(j t_i), j = 1..k]               (8)
        t_i = 2 pi i / n

    All maximal minors of F have one sign, so every label set with at most k labels on is
    sign(W x) for some x, in exact arithmetic. The bias c starts at [sqrt(n) logit(k / n), 0, ...]:
    every label starts with probability k / n.

    `order[j]` is the place of label j on the circle: labels that occur together should lie apart
    (`labelset.heads.order_by_cooccurrence`). `product` is "fft", "matrix" or "auto", which takes
    the one that was measured to be quicker (benchmarks/heads.py).

    >>> head = DFT(features=16, labels=50, k=3)
    >>> round(torch.sigmoid(head(torch.zeros(1, 16))).mean().item(), 4)
    0.06
    """

    name = "dft"
    frequencies: Tensor
    order: Tensor

    def __init__(
        self,
        *,
        features: int,
        labels: int,
        k: int,
        slack: int = 0,
        order: Any = None,
        product: str = "auto",
    ) -> None:
        super().__init__()
        self.settings = {
            "features": features,
            "labels": labels,
            "k": k,
            "slack": slack,
            "product": product,
        }
        check.whole("features", features, low=1)
        self.n, self.k = check.whole("labels", labels, low=1), check.whole("k", k, low=1)
        check.whole("slack", slack)
        self.product = check.one_of("product", product, ("auto", "fft", "matrix"))
        if not (2 * k + 1 <= labels and k < labels):
            raise ValueError(
                f"k must satisfy 2 k + 1 <= labels, got k = {k} for {labels} labels; "
                f"take k of at most {(labels - 1) // 2}"
            )
        self.projection = nn.Linear(features, 2 * k + 1 + slack)
        with torch.no_grad():
            self.projection.bias.zero_()
            self.projection.bias[0] = math.sqrt(labels) * math.log(k / (labels - k))
        place, size = self.projection.weight, (labels, slack)
        # drawing without memory loads half of torch
        drawn = torch.empty(size) if place.is_meta else torch.randn(size) / math.sqrt(labels)
        self.slack = nn.Parameter(drawn)
        self.register_buffer("order", _permutation(order, labels).to(place.device))
        empty = torch.empty(labels, 2 * k + 1, dtype=place.dtype, device=place.device)
        self.register_buffer("frequencies", empty, persistent=False)
        self.register_load_state_dict_post_hook(_after_load)  # type: ignore[no-untyped-call]
        self._renew()

    @staticmethod
    def fourier(places: Tensor, n: int, k: int) -> Tensor:
        """(labels, 2 k + 1) float64: the rows of F of the labels at these of n places."""
        # whole-number angles reduced modulo n: cosines are exact to the last bit or so
        steps = torch.arange(1, k + 1, dtype=torch.float64, device="cpu")
        turns = (places.cpu().double()[:, None] * steps) % n
        angle = turns * (2 * math.pi / n)
        waves = torch.stack([angle.cos(), angle.sin()], dim=2).reshape(-1, 2 * k)
        constant = torch.full((len(places), 1), 1 / math.sqrt(n), dtype=torch.float64, device="cpu")
        return torch.cat([constant, math.sqrt(2 / n) * waves], dim=1)

    def _apply(self, fn: Any, recurse: bool = True) -> DFT:
        """Moves as modules do, with the fixed part recomputed, so that it never loses precision."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._renew()
        return self

    def _renew(self) -> None:
        """Make the fixed part where the learnt part is, and as precise."""
        where = self.projection.weight
        if where.device.type != "meta" and self.order.device.type != "meta":
            fixed = self.fourier(self.order, self.n, self.k).to(where)
            self.register_buffer("frequencies", fixed, persistent=False)

    def project(self, features: Any) -> Tensor:
        """P e + c."""
        return affine(self.projection, features)

    def matrix(self) -> tuple[Tensor, None]:
        """([F S], None)."""
        return torch.cat([self.frequencies, self.slack], dim=1), None

    def logits(self, x: Tensor) -> Tensor:
        """F x + S x; the first by FFT or by matrix product."""
        head, rest = x[..., : 2 * self.k + 1], x[..., 2 * self.k + 1 :]
        by_fft = self.product == "fft" or (self.product == "auto" and self._prefers_fft(x))
        if by_fft and x.numel():  # FFTs of no rows at all are refused
            waves = self._by_fft(head)
        else:
            waves = linear(head, self.frequencies.to(head.dtype))
        return waves + linear(rest, self.slack.to(rest.dtype)) if self.slack.shape[1] else waves

    def _prefers_fft(self, x: Tensor) -> bool:
        """As measured by benchmarks/heads.py, forward and backward.

        On a CPU the FFT wins from about 600 columns on, on an H200 never up to the 641 tried.
        """
        return x.device.type == "cpu" and 2 * self.k + 1 > 600

    def _by_fft(self, x: Tensor) -> Tensor:
        wide = x.double() if x.dtype == torch.float64 else x.float()
        pairs = wide[..., 1:].reshape(*wide.shape[:-1], self.k, 2) * math.sqrt(self.n / 2)
        spectrum = torch.complex(pairs[..., 0], -pairs[..., 1])
        first = torch.complex(wide[..., :1] * math.sqrt(self.n), torch.zeros_like(wide[..., :1]))
        circle = torch.fft.irfft(torch.cat([first, spectrum], dim=-1), n=self.n)
        placed: Tensor = circle[..., self.order].to(x.dtype)
        return placed


def _after_load(head: Any, _: Any) -> None:
    """The order of the labels, or where everything is, may have changed."""
    if head.order.device.type != "meta":
        _permutation(head.order, head.n)
    head._renew()


def _permutation(order: Any, n: int) -> Tensor:
    if order is None:
        return torch.arange(n, device="cpu")
    places = torch.as_tensor(order).detach().cpu()
    if places.is_floating_point() or places.dtype == torch.bool:
        raise TypeError(f"order must hold whole numbers, got {places.dtype}")
    places = places.long()
    if places.shape != (n,) or not torch.equal(places.sort().values, torch.arange(n, device="cpu")):
        raise ValueError(f"order must hold each of 0..{n - 1} once: the place of every label")
    return places


def order_by_cooccurrence(labels: Any, apart: bool = True) -> Tensor:
    """A place on the circle for every label, from which labels are on together.

    apart: labels that are on together lie far from one another. A head must turn sharply between
    a label that is on and a close one that is off, so this makes their common regions larger;
    side by side (apart=False) they are far smaller (benchmarks/heads.py, `order`).

    >>> labels = Labels.from_lists([[0, 3], [0, 3], [1, 2]], n=4)
    >>> order_by_cooccurrence(labels, apart=False).tolist()
    [0, 2, 3, 1]
    """
    labels = Labels.of(labels)
    places = torch.from_numpy(_path(labels))
    if not apart or labels.n < 3:
        return places
    # steps of a golden share of the circle keep any run of the path as evenly spread as can be
    step = round(labels.n * (math.sqrt(5) - 1) / 2)
    while math.gcd(step, labels.n) != 1:
        step += 1
    spread: Tensor = (places * step) % labels.n
    return spread


def _path(labels: Labels) -> NDArray[np.int64]:
    """Companions one after the other: greedily, the label most often on with the last ones."""
    by_label = labels.T
    frequency = by_label.counts().numpy()
    pull = np.zeros(labels.n)
    places = np.full(labels.n, -1, dtype=np.int64)
    for place in range(labels.n):
        best = int(np.where(places < 0, pull * 1e6 + frequency, -1.0).argmax())
        places[best] = place
        pull *= 0.5
        rows = by_label.indices[by_label.indptr[best] : by_label.indptr[best + 1]].long()
        together = np.bincount(labels[rows].indices.numpy(), minlength=labels.n)
        pull += together / np.sqrt(np.maximum(frequency, 1))
    return places

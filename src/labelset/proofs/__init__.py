"""Proofs of what a head can and cannot produce: `verify`, and what it returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import distributed

from labelset import check
from labelset.labels import Labels
from labelset.proofs._certify import independent
from labelset.proofs._device import DeviceProver, batches
from labelset.proofs._prove import Verdict, prove
from labelset.proofs.problem import Problem, distinct, read_matrix, read_model, signs_of
from labelset.proofs.verification import ProofFailed, Verification

__all__ = [
    "ProofFailed",
    "Verification",
    "distinct",
    "independent",
    "read_matrix",
    "verify",
]

Progress = Callable[[int, int], None]
CELLS = 2**25  # signs, or numbers of the searches' factors, held at a time


def verify(
    model: Any,
    labels: Any,
    bias: Any = None,
    radius: str = "ball",
    box: float = 1e4,
    eps: float | None = None,
    seconds: float = 60.0,
    progress: Progress | None = None,
    device: str | torch.device | None = None,
    alone: bool = False,
) -> Verification:
    """Whether sign(W x + b) can be each label set for some x, with a proof for every verdict.

    model: a head, an `nn.Linear`, or the (labels, features) matrix W. labels: `Labels` or what
    `Labels.from_dense` takes; unknown labels are free. Label sets whose region is so small that
    double precision cannot decide them are taken up in higher precision for `seconds` in all; those
    left over are "undecided". With `eps`, `v.at_least()` tells which have rho >= eps. Under
    torchrun every rank takes a share of the label sets, and each returns the whole result; with
    `alone` this process verifies them all, and the other ranks need not call.
    progress(done, all) is called as it goes.

    `device="cuda"` verifies all label sets together on a GPU. Proofs are of the same standard, and
    what the device leaves open goes to the processor.

    >>> import torch
    >>> w = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> v = verify(w, [[1, 1, 1], [1, 1, 0]])
    >>> v.status.tolist()
    ['argmaxable', 'unargmaxable']
    >>> v.certificate(1)[0].tolist()
    [0, 1, 2]
    """
    problem = read_model(model, bias)
    labels = Labels.of(labels)
    if labels.n != problem.n:
        raise ValueError(f"the weights have {problem.n} labels, the label sets {labels.n}")
    place = _place_of(device)
    check.one_of("radius", radius, ("ball", "box"))
    check.number("box", box, low=0.0, open_low=True)
    sets, which = distinct(labels)
    check.number("seconds", seconds, low=0.0)
    if eps is not None:
        check.number("eps", eps, low=0.0)
    rank, ranks = (0, 1) if alone else _share()
    mine = sets[rank::ranks]
    if place.type == "cpu":
        verdicts = _in_chunks(problem, mine, seconds, progress)
    else:
        verdicts = _on_device(problem, mine, place, seconds, progress)
    boxes = None
    if radius == "box":
        from labelset.proofs._box import box_radii

        boxes = box_radii(problem, mine, verdicts, box, progress)
    if ranks > 1:
        verdicts, boxes = _merge(verdicts, boxes, len(sets), ranks)
    return Verification(problem, sets, which, verdicts, boxes, box, eps)


def _share() -> tuple[int, int]:
    """Which of how many processes this is, where torch.distributed is running."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def _merge(
    verdicts: list[Verdict], boxes: Any, count: int, ranks: int
) -> tuple[list[Verdict], Any]:
    """What all ranks found, in the order of the label sets: rank r had every ranks-th from r on."""
    parts: list[Any] = [None] * ranks
    distributed.all_gather_object(parts, (verdicts, boxes))
    merged: list[Any] = [parts[i % ranks][0][i // ranks] for i in range(count)]
    if boxes is None:
        return merged, None
    return merged, np.array([parts[i % ranks][1][i // ranks] for i in range(count)])


def _place_of(device: str | torch.device | None) -> torch.device:
    """Where to compute: on the processor, unless a CUDA device is asked for."""
    place = torch.device("cpu" if device is None else device)
    if place.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu' or 'cuda', which have float64, got {str(place)!r}")
    if place.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but torch finds none here; leave it out")
    return place


def _on_device(
    problem: Problem,
    sets: Labels,
    place: torch.device,
    seconds: float,
    progress: Progress | None,
) -> list[Verdict]:
    """Verdicts from the device, and from the processor where the device gives none."""
    prover, found = DeviceProver(problem, place), list[Verdict | None]()
    for some in batches(problem, sets, place):
        found += prover(some)
        if progress is not None:
            progress(sum(v is not None for v in found), len(sets))
    left = [i for i, v in enumerate(found) if v is None]
    done = len(sets) - len(left)
    more = None if progress is None else lambda i, _: progress(done + i, len(sets))
    rest = iter(_in_chunks(problem, sets[left], seconds, more) if left else [])
    return [next(rest) if v is None else v for v in found]


def _in_chunks(
    problem: Problem, sets: Labels, seconds: float, progress: Progress | None
) -> list[Verdict]:
    size = int(np.clip(CELLS // max(problem.n, (problem.rows.shape[1] + 8) ** 2), 1, 512))
    verdicts: list[Verdict] = []
    for first in range(0, len(sets), size):
        share = seconds * min(size, len(sets) - first) / len(sets)
        deadline = time.monotonic() + share
        verdicts += prove(problem, signs_of(sets[first : first + size]), deadline)
        if progress is not None:
            progress(len(verdicts), len(sets))
    return verdicts

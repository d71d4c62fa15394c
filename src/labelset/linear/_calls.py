"""The two calls: the loss of a linear head, and that loss with a step of SGD made on the way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.linear._function import LinearLoss
from labelset.linear._job import Job
from labelset.linear._sums import Step

__all__ = ["linear_loss", "linear_sgd_step"]


def linear_loss(
    features: Tensor,
    weight: Tensor,
    labels: Any,
    loss: Any,
    bias: Tensor | None = None,
    impl: str = "auto",
) -> Tensor:
    """`loss(features @ weight.T + bias, labels)` with at most a block of the logits in memory.

    features (rows, d), weight (labels, d), bias (labels,); `loss` is separable, or the name of
    such a loss. The value, and the gradients of features, weight and bias, are those of the
    plain call; they are worked out with the value, so that backward only hands them over. Under
    autocast the products are in its dtype, and a float32 weight gets a float32 gradient. Learnt
    hyperparameters and labels that want a gradient are refused: they would get none.

    >>> from labelset import Labels
    >>> x, w = torch.ones(2, 3), torch.zeros(4, 3, requires_grad=True)
    >>> value = linear_loss(x, w, Labels.from_lists([[0], [1, 2]], n=4), "bce")
    >>> value.backward()
    >>> value, w.grad[:, 0]
    (tensor(0.6931, grad_fn=<LinearLossBackward>), tensor([0.0000, 0.0000, 0.0000, 0.1250]))
    """
    job = Job.of(features, weight, labels, loss, bias, impl)
    learning = torch.is_grad_enabled()
    value: Tensor = LinearLoss.apply(features, weight, bias, job, learning)  # type: ignore[no-untyped-call]
    return value


def linear_sgd_step(
    features: Tensor,
    weight: Tensor,
    labels: Any,
    loss: Any,
    lr: float,
    bias: Tensor | None = None,
    weight_decay: float = 0.0,
    seed: int = 0,
    impl: str = "auto",
) -> Tensor:
    """`linear_loss`, with a step of SGD on weight and bias made block by block on the way.

    No gradient of the weight ever exists, so that the weight itself is nearly all the memory it
    takes. The value carries the gradient of the features, for the encoder, taken before the step.
    Weights in bfloat16 are rounded up or down at random, so that steps too small for their eight
    bits are made on average; give another `seed` at every step.

    >>> from labelset import Labels
    >>> x, w = torch.ones(2, 3), torch.zeros(4, 3)
    >>> linear_sgd_step(x, w, Labels.from_lists([[0], [1, 2]], n=4), "bce", lr=1.0)
    tensor(0.6931)
    >>> w[:, 0]
    tensor([ 0.0000,  0.0000,  0.0000, -0.1250])
    """
    if weight.dtype not in (torch.float32, torch.float64, torch.bfloat16):
        raise TypeError(f"weight must be float32, float64 or bfloat16, got {weight.dtype}")
    rate = check.number("lr", lr, low=0.0)
    decay = check.number("weight_decay", weight_decay, low=0.0)
    step = Step(rate, 1.0 - rate * decay, check.whole("seed", seed))
    w, b = weight.detach(), None if bias is None else bias.detach()
    job = Job.of(features, w, labels, loss, b, impl, step)
    learning = torch.is_grad_enabled()
    value: Tensor = LinearLoss.apply(features, w, b, job, learning)  # type: ignore[no-untyped-call]
    return value

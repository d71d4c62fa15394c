"""accumulate: the gradient of a loss over the full batch, with the memory of one micro batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from labelset import csr
from labelset.labels import Labels


def accumulate(
    model: Callable[..., Tensor],
    micro_batches: Iterable[tuple[Any, Any]],
    loss: Callable[[Tensor, Any], Tensor],
) -> Tensor:
    """The value of the loss over all micro batches together; its gradient goes to the parameters.

    `micro_batches` are pairs (inputs, labels); inputs are given to the model as they are, a tuple
    or list as its arguments, a mapping as its keywords. Two passes are made:

        v_i = model(inputs_i), without a graph;  value = loss(all v, all labels)
        v_i again, with a graph, from the same random state;  backward from d value / d v_i

    so that the activations of one micro batch at a time are in memory, besides all scores and
    their gradient. Gradients are added to `.grad`, as by `backward`, those of the loss's own
    parameters too. Buffers (the running statistics of batch-norm) are changed by one pass only;
    in training, batch-norm normalises each micro batch by itself. DistributedDataParallel
    exchanges gradients once, at the last micro batch. The value returned has no graph.

    >>> head = nn.Linear(3, 2)
    >>> from labelset import losses
    >>> x, y = torch.randn(8, 3), torch.ones(8, 2)
    >>> batches = list(zip(x.split(4), y.split(4)))
    >>> value = accumulate(head, batches, losses.build("sigmoid-f1"))
    >>> torch.allclose(value, losses.build("sigmoid-f1")(head(x), y))
    True
    """
    batches = list(micro_batches)
    if not batches:
        raise ValueError(
            "micro_batches must hold at least one pair (inputs, labels), got none; "
            "a rank without rows gives one pair of 0 rows"
        )
    scores, states = scores_of(model, batches)
    labels = _joined([labels for _, labels in batches], scores)
    value, slopes = value_and_gradients(loss, scores, labels)
    last = len(batches) - 1
    quiet = getattr(model, "no_sync", nullcontext)
    for i, ((inputs, _), state, slope) in enumerate(zip(batches, states, slopes, strict=True)):
        restore_random(state)
        with nullcontext() if i == last else quiet():
            _feed_back(_call(model, inputs), slope)
    return value


def scores_of(model: Any, batches: list[tuple[Any, Any]]) -> tuple[list[Tensor], list[Any]]:
    """The scores of each micro batch, and the random state from which they were made."""
    scores, states = [], []
    with torch.no_grad(), _buffers_kept(model):
        for inputs, _ in batches:
            states.append(_random(model, inputs))
            scores.append(_call(model, inputs))
    # some versions of torch keep the weights that autocast has cast here, which have no graph, and
    # would use them in the second pass
    torch.clear_autocast_cache()
    return scores, states


def value_and_gradients(
    loss: Any, scores: list[Tensor], labels: Any
) -> tuple[Tensor, list[Tensor]]:
    """The loss of all scores, and its gradient for each micro batch."""
    v = torch.cat(scores).detach().requires_grad_()
    with torch.enable_grad():
        value = loss(v, labels)
    if value.ndim:
        raise ValueError(
            f"the loss must give one number, got shape {tuple(value.shape)}; "
            'use reduction="mean" or "sum"'
        )
    with _plain_precision(v):
        value.backward()
    slope = torch.zeros_like(v) if v.grad is None else v.grad
    return value.detach(), list(torch.split(slope, [len(s) for s in scores]))


def _feed_back(scores: Tensor, slope: Tensor) -> None:
    """Backward through one micro batch."""
    if not scores.requires_grad:
        raise ValueError(
            "the model's scores carry no gradient: it has no parameter that requires one, or "
            "gradients are switched off; call accumulate outside torch.no_grad()"
        )
    with _plain_precision(scores):
        torch.autograd.backward(scores, slope.to(scores.dtype))


def _plain_precision(scores: Tensor) -> Any:
    """Backward is not run under autocast."""
    return torch.autocast(scores.device.type, enabled=False)


def _call(model: Any, inputs: Any) -> Tensor:
    if isinstance(inputs, Mapping):
        scores = model(**inputs)
    else:
        scores = model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)
    if not isinstance(scores, Tensor) or scores.ndim != 2:
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise TypeError(f"the model must return scores of shape (rows, labels), got {got}")
    return scores


def _joined(labels: list[Any], scores: list[Tensor]) -> Any:
    """The labels of all micro batches, one below the other."""
    each = [y if isinstance(y, Labels) else csr.as_tensor(y) for y in labels]
    for i, (y, v) in enumerate(zip(each, scores, strict=True)):
        if tuple(y.shape) != tuple(v.shape):
            raise ValueError(
                f"the labels of micro batch {i} must have the shape of its scores "
                f"{tuple(v.shape)}, got {tuple(y.shape)}"
            )
    dense = [y for y in each if isinstance(y, Tensor)]
    if len(dense) == len(each):
        return torch.cat(dense)
    return Labels.stack([Labels.of(y) for y in each])


# ---- state of the model and of the random generators ------------------------------------------


@contextmanager
def _buffers_kept(model: Any) -> Iterator[None]:
    """Afterwards the buffers are as they were when the model first ran inside.

    Taken there, and not before, since DistributedDataParallel first makes them equal over ranks.
    """
    if not isinstance(model, nn.Module):
        yield
        return
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    kept: list[tuple[nn.Module, str, Tensor, Tensor]] = []

    def keep(*_: Any) -> None:
        hook.remove()
        for module in inner.modules():
            held = ((name, b) for name, b in module._buffers.items() if b is not None)
            kept.extend((module, name, b, b.clone()) for name, b in held)

    hook = inner.register_forward_pre_hook(keep)
    try:
        yield
    finally:
        hook.remove()
        for module, name, buffer, value in kept:
            module._buffers[name] = buffer.copy_(value)


def _random(model: Any, inputs: Any) -> tuple[Tensor, dict[torch.device, Tensor]]:
    """The state of the generators of the CPU and of the GPUs that the model or inputs are on."""
    held: list[Tensor] = list(model.parameters()) if isinstance(model, nn.Module) else []
    given = list(inputs.values()) if isinstance(inputs, Mapping) else inputs
    given = given if isinstance(given, (tuple, list)) else [given]
    held += [t for t in given if isinstance(t, Tensor)]
    devices = {t.device for t in held if t.device.type == "cuda"}
    return torch.get_rng_state(), {d: torch.cuda.get_rng_state(d) for d in devices}


def restore_random(state: tuple[Tensor, dict[torch.device, Tensor]]) -> None:
    """The state of the generators of the CPU and of the GPUs, as `scores_of` returned it."""
    torch.set_rng_state(state[0])
    for device, kept in state[1].items():
        torch.cuda.set_rng_state(kept, device)

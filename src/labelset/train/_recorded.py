"""Steps on a GPU that are recorded once for each shape of batch, and then played back.

A step of a network on a small batch is some hundred kernels, each of which takes longer to be asked
for than to run. Played back, all of them are asked for at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labelset.labels import Labels
from labelset.losses import Loss
from labelset.train._optimiser import Optimiser

log = logging.getLogger("labelset")

MOST = 64
"""Shapes that are recorded: each takes a moment, and some memory."""
LARGEST = 1 << 24
"""Labels of a batch, where they are many times more than a network's states of it."""


@dataclass(eq=False)
class _Recording:
    graph: torch.cuda.CUDAGraph
    loss: Loss
    inputs: Tensor
    labels: Tensor
    value: Tensor


class Recorder:
    """Whole steps of one training: scores, loss, gradient and the optimiser's step.

    `gradient` gives the parameters the gradient of a batch and returns its loss, by operations on
    the GPU alone; `start` lets the generators draw what the coming step draws. A network that has
    the GPU waited for in the middle, or draws from the CPU's generator, is not recorded. Nothing
    is played back that would differ from the step itself: kernels and random numbers are the same.
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: Optimiser,
        gradient: Callable[[Loss, Tensor, Tensor, int], Tensor],
        device: str,
    ) -> None:
        self.model, self.optimiser, self.gradient = model, optimiser, gradient
        self.held: dict[tuple[object, ...], _Recording] = {}
        self.pool = torch.cuda.graph_pool_handle()
        self.device = device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.works = optimiser.recordable
        """Whether there is a use in asking for a step."""

    def step(
        self, loss: Loss, inputs: Any, labels: Labels, rate: float, start: Callable[[], object]
    ) -> Tensor | None:
        """Do a step, and return its loss; None where it is to be done as usual."""
        if not self.optimiser.begun or len(labels) * labels.n > LARGEST:
            return None
        inputs, y = inputs.pin_memory(), labels.dense().pin_memory()  # copied without waiting
        key = (id(loss), inputs.shape, inputs.dtype, y.shape)
        found = self.held.get(key)
        if found is None:
            if len(self.held) >= MOST:
                return None
            found = self._recorded(loss, inputs, y)
            if found is None:
                self.works = False
                start()
                return None
            self.held[key] = found
            start()
        found.inputs.copy_(inputs, non_blocking=True)
        found.labels.copy_(y, non_blocking=True)
        self.optimiser.at(rate)
        found.graph.replay()
        return found.value.clone()

    def forget(self) -> None:
        """Drop all recordings, and make no more."""
        self.held.clear()
        self.works = False

    def _recorded(self, loss: Loss, inputs: Tensor, y: Tensor) -> _Recording | None:
        inputs, y = inputs.to(self.device), y.to(self.device)
        buffers = [(b, b.clone()) for b in self.model.buffers()]
        graph = torch.cuda.CUDAGraph()
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            self.gradient(loss, inputs, y, len(y))  # what is made at a first call is made outside
            self.optimiser.forget()
            for buffer, before in buffers:
                buffer.copy_(before)
            drawn = torch.default_generator.get_state()
            try:
                graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
                try:
                    value = self.gradient(loss, inputs, y, len(y))
                    self.optimiser.move()
                finally:
                    graph.capture_end()
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:  # the GPU would have to be waited for
                log.debug("steps are not recorded: %s", error)
                generator = torch.cuda.default_generators[self.stream.device_index]
                generator.graphsafe_set_state(generator.clone_state())  # this one waits for an end
                return None
            finally:
                self.optimiser.forget()
        current.wait_stream(self.stream)
        if not torch.equal(drawn, torch.default_generator.get_state()):
            log.debug("steps are not recorded: the network draws from the CPU's generator")
            return None
        return _Recording(graph, loss, inputs, y, value)

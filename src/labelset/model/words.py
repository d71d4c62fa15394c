"""Texts before a network: what each of their words adds to a score."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from labelset.data import Dataset
from labelset.encode import Encoder
from labelset.heads import Head
from labelset.model.contributions import Contributions, along

Array = NDArray[Any]


class Texts:
    """Rows of texts, read by an encoder that is a network; in place of features there are the words
    of each row, the first, the second and so on.

    Contributions are integrated gradients by what the network's table of tokens gives, on the way
    from zeros in the place of each word to the text itself; marks that the tokeniser puts in stay.
    What the numbers of all tokens of a word add is summed.
    """

    def __init__(self, encoder: Encoder, rows: Dataset) -> None:
        self.encoder, self.rows = encoder, rows
        assert rows.texts is not None
        self.words = [encoder.words_in(text) for text in rows.texts]
        self.most = max((len(words) for words, _ in self.words), default=0) or 1

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and words of the row that has most."""
        return len(self.rows), self.most

    def __getitem__(self, rows: Tensor) -> Texts:
        """Some of the rows, among as many words."""
        some = Texts(self.encoder, self.rows.rows(rows))
        some.most = self.most
        return some

    @cached_property
    def features(self) -> Any:
        """What the encoder gives."""
        return self.encoder(self.rows)

    def contributions(self, head: Head, rows: Array, labels: Array) -> Contributions:
        """Of pairs, (pairs,) rows and (pairs,) labels, by the head behind the network."""
        from scipy.sparse import csr_matrix

        base, values = np.zeros(len(rows)), np.zeros((len(rows), self.shape[1]))
        for row in np.unique(rows):
            at = np.flatnonzero(rows == row)
            base[at], values[at] = self._of(head, int(row), labels[at])
        return Contributions(base, csr_matrix(values))

    def _of(self, head: Head, row: int, labels: Array) -> tuple[Array, Array]:
        """(labels,) bases, and (labels, words) what is added to them."""
        encoder, (_, which) = self.encoder, self.words[row]
        module = cast(nn.Module, encoder.module).eval()
        where = next(module.parameters()).device
        ids = encoder.batch_of(encoder.prepare(self.rows.rows(torch.tensor([row])))).to(where)
        held = _Held(cast(nn.Module, encoder.table()))
        with held, torch.no_grad():
            module(ids)
        end = held.given.view(*which.shape, -1)
        known = (which >= 0).to(where)[..., None]

        def score(x: Tensor) -> Tensor:
            with held.giving(x.flatten(0, 1)):
                logits: Tensor = head(module(ids.expand(len(x), -1)).cpu().double())
            return logits

        ways = (end.where(~known, 0.0), end)
        start, end = (each.expand(len(labels), *each.shape) for each in ways)
        base, added = along(score, start, end, labels)
        values = np.zeros((self.shape[1], len(labels)))
        inside = which.numpy() >= 0
        np.add.at(values, which.numpy()[inside], added.sum(-1)[:, inside].T)
        return base, values.T


class _Held:
    """Notes what a part of a network gives, or gives something else in its place."""

    def __init__(self, part: nn.Module) -> None:
        self.part, self.given, self.rows = part, torch.empty(0), 0
        self.instead: Tensor | None = None

    def giving(self, instead: Tensor) -> _Held:
        """This, one row of it after the other."""
        self.instead, self.rows = instead, 0
        return self

    def __enter__(self) -> None:
        self.hook = self.part.register_forward_hook(self._called)

    def __exit__(self, *_: object) -> None:
        self.hook.remove()

    def _called(self, part: nn.Module, inputs: Any, out: Tensor) -> Tensor:
        if self.instead is None:
            self.given = out.detach()
            return out
        self.rows += len(out)
        return self.instead[self.rows - len(out) : self.rows]

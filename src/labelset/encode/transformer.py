"""A pretrained transformer for texts: trained with the head, or frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from labelset import check
from labelset.catalog import hyper
from labelset.data import Dataset
from labelset.encode._base import Inputs
from labelset.encode._pretrained import (
    Network,
    Pretrained,
    described,
    downloaded,
    rebuilt,
    without_pooler,
)
from labelset.encode._tokens import Tokens, as_bytes, lengths_of, trimmed

WHAT = "a transformer for texts"
POOLING = ("mean", "first", "last")
TOKENISER = "tokeniser"
TOKENS = 1 << 14
"""Tokens that go through the network together when nothing is trained."""


@dataclass(kw_only=True, eq=False)
class Transformer(Pretrained):
    """A transformer that was trained on much text, its last hidden states h_t pooled.

        mean   sum_t m_t h_t / sum_t m_t, m_t = 1 for words, 0 for padding
        first  h of the first token, of each window;  last  h of the last one

    All layers, or the last few, are trained with the head: the last layer at a fraction `rate` of
    the head's learning rate, each one below it at `decay` of that. With `layers=0` nothing is: its
    features are computed once and standardised. It is read from a folder with config.json, weights
    and a tokeniser, from an installed package that holds one, or by its name on the Hugging Face
    hub. A saved model holds all of it. A long text is cut into windows that are pooled together.
    """

    name = "transformer"
    reads = ("texts",)
    advice = {"lr": 5e-3, "batch": 32}

    pooling: str = hyper("mean", "mean, first or last: which hidden states are a row's features")
    length: int = hyper(512, "tokens of a window, words and pieces of words, at most")
    windows: int = hyper(1, "windows of a long text at most; what comes after them is left out")
    dropout: float = hyper(0.1, "of the features, in training")
    checkpointing: bool = hyper(False, "keep less in memory in training, and compute it again")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("pooling", self.pooling, POOLING)
        check.whole("length", self.length, low=4)
        check.whole("windows", self.windows, low=1)
        check.fraction("dropout", self.dropout)
        self._tokens: Tokens | None = None

    # ---- the network ----------------------------------------------------------------------------

    def load(self) -> nn.Module:
        tokeniser, inner = downloaded(self.model, WHAT, "AutoTokenizer", "AutoModel")
        if getattr(inner.config, "is_encoder_decoder", False):
            raise ValueError(f"{self.model}: an encoder with a decoder; {WHAT} has no decoder")
        if inner.get_input_embeddings() is None or not hasattr(inner.config, "hidden_size"):
            raise ValueError(f"{self.model}: a network of type {inner.config.model_type}, no text")
        backend = getattr(tokeniser, "backend_tokenizer", None)
        if backend is None:
            raise ValueError(f"{self.model}: its tokeniser has no tokenizer.json, and needs one")
        numbers = {*backend.get_vocab().values()}
        if numbers <= {*tokeniser.all_special_ids}:
            raise ValueError(f"{self.model}: has no tokenizer.json, so that no word is known")
        words = inner.get_input_embeddings().num_embeddings
        if max(numbers) >= words:
            raise ValueError(
                f"{self.model}: its tokeniser numbers words up to {max(numbers)}, its network has "
                f"{words}; they are not of one model"
            )
        self.learnt[TOKENISER] = as_bytes(backend)
        places = int(getattr(inner.config, "max_position_embeddings", 0) or self.length)
        places -= 2 if inner.config.model_type in OFFSET else 0
        width = int(inner.config.hidden_size)
        self.facts = {"config": described(inner.config), "width": width, "places": places}
        return self._around(without_pooler(inner))

    def make(self) -> nn.Module:
        return self._around(rebuilt(self.fact("config")))

    def _around(self, inner: nn.Module) -> nn.Module:
        if self.checkpointing and self.learns:
            name = "activation_checkpointing_enable"  # its older name is to go
            enable: Any = getattr(inner, name, None) or inner.gradient_checkpointing_enable
            enable({"use_reentrant": False})
        inner = self.corrected(inner)
        return _Network(inner, self.dropout, self.places, self.pooling, self._length)

    @property
    def _length(self) -> int:
        """Tokens of a window that the network has places for."""
        return min(self.length, int(self.fact("places")))

    def restore(self, facts: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        text = state.get(TOKENISER)
        if text is None or text.dtype != torch.uint8:
            raise ValueError(f"{WHAT} keeps its tokeniser as bytes, and there are none")
        return super().restore(facts, state)

    # ---- texts ----------------------------------------------------------------------------------

    def rows(self, dataset: Dataset) -> Inputs:
        """(rows, tokens) int32, -1 behind the last token of a row and of a window."""
        if dataset.texts is None:
            raise ValueError(f"{WHAT} needs texts, and the data set has none")
        return self._cutter()(dataset.texts)

    def _cutter(self) -> Tokens:
        if self._tokens is None:
            self._tokens = Tokens(self.learnt[TOKENISER], self._length, self.windows)
        return self._tokens

    def table(self) -> nn.Module | None:
        if self.module is None:
            return None
        inner: Any = self.module.inner
        table: nn.Module = inner.get_input_embeddings()
        return table

    def words_in(self, text: str) -> tuple[list[str], Tensor]:
        return self._cutter().words_in(text)

    def __getstate__(self) -> dict[str, Any]:
        """Of copies: the tokeniser is made anew."""
        return self.__dict__ | {"_tokens": None}

    def lengths(self, inputs: Inputs) -> Tensor | None:
        return lengths_of(inputs) if self.learns else None

    def batch_of(self, inputs: Any, step: int = 1) -> Any:
        return trimmed(inputs, self._length, step) if self.learns else inputs


OFFSET = ("roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "data2vec-text", "longformer")
"""Networks whose positions begin at 2, so that two of their places are never used."""


class _Network(Network):
    """(rows, tokens) to (rows, width), or to (rows, tokens, width)."""

    def __init__(
        self, inner: nn.Module, dropout: float, places: bool, pooling: str, length: int
    ) -> None:
        super().__init__(inner, dropout, places)
        self.pooling, self.length = pooling, length

    def forward(self, ids: Tensor) -> Tensor:
        if self.training:
            features: Tensor = self.dropout(self.pooled(ids))
            return features
        lengths = (ids >= 0).sum(1)
        order = lengths.argsort(stable=True, descending=True)  # like rows together: less padding
        parts, start = [], 0
        while start < len(order):
            step = max(1, TOKENS // max(int(lengths[order[start]]), 1))
            some = order[start : start + step]
            parts.append(self.pooled(trimmed(ids[some], self.length)))
            start += step
        if not parts:
            return self.pooled(ids.new_zeros(1, 1))[:0]
        if self.places:
            most = max(part.shape[1] for part in parts)
            parts = [pad(part, (0, 0, 0, most - part.shape[1])) for part in parts]
        return torch.cat(parts)[order.argsort()]

    def pooled(self, ids: Tensor) -> Tensor:
        count = -(-ids.shape[1] // self.length)
        windows = ids
        if count > 1:
            windows = ids.view(len(ids) * count, -1)
            owner = torch.arange(len(ids), device=ids.device).repeat_interleave(count)
            there = windows[:, 0] >= 0
            windows, owner = windows[there], owner[there]
        mask = windows >= 0
        states: Tensor = self.inner(
            input_ids=windows.clamp(min=0).long(), attention_mask=mask.long()
        ).last_hidden_state
        if self.places:
            states = (states * mask[..., None]).float()
            if count > 1:
                every = states.new_zeros(len(there), *states.shape[1:])
                every[there] = states
                states = every.view(len(ids), -1, every.shape[2])
            return states
        if self.pooling == "mean":
            sums = (states * mask[..., None]).sum(1)
            weights = mask.sum(1)
        else:
            at = 0 * mask.sum(1) if self.pooling == "first" else mask.sum(1) - 1
            sums = states.gather(1, at[:, None, None].expand(-1, 1, states.shape[2])).squeeze(1)
            weights = torch.ones_like(at)
        if count == 1:
            alone: Tensor = sums.float() / weights[:, None]
            return alone
        total = sums.new_zeros(len(ids), sums.shape[1], dtype=torch.float32)
        total = total.index_add(0, owner, sums.float())
        number = total.new_zeros(len(ids)).index_add(0, owner, weights.float())
        mean: Tensor = total / number[:, None]
        return mean

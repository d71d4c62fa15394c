"""A small network for texts, from scratch: for languages and subjects without a pretrained one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from labelset import check
from labelset.catalog import hyper
from labelset.data import Dataset
from labelset.data.store import blocks
from labelset.encode._base import Encoder, Inputs
from labelset.encode._tokens import Tokens, as_bytes, lengths_of, trimmed
from labelset.files import optional

TOKENISER = "tokeniser"
REACH = (1, 3, 5)
"""Tokens that a convolution looks at."""


@dataclass(kw_only=True, eq=False)
class Text(Encoder):
    """Sub-words of the training texts, an embedding, convolutions, and what is largest anywhere.

        e_t = E[token t],  h_k = max_t relu(conv_k(e)_t) for k = 1, 3, 5 tokens,  m = mean_t e_t

    The features are h_1, h_3, h_5 and m. Sub-words are learnt by byte pairs: frequent words stay
    whole, rare ones fall into pieces, and no letter is unknown, whatever the script.

    >>> data = Dataset.from_arrays(None, [[1], [0]], texts=["red apple", "green fork"])
    >>> Text(width=8).fit(data)(data).shape
    torch.Size([2, 32])
    """

    name = "text"
    reads = ("texts",)
    advice = {"lr": 3e-3, "batch": 64}

    vocabulary: int = hyper(8_000, "sub-words that are learnt, at most")
    width: int = hyper(128, "numbers for a token; there are four times as many features")
    length: int = hyper(512, "tokens after which a text is cut off")
    dropout: float = hyper(0.3, "of the features, in training")
    places: bool = hyper(False, "give each token, for the head label-attention")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("vocabulary", self.vocabulary, low=300)
        check.whole("width", self.width, low=1)
        check.whole("length", self.length, low=max(REACH))
        check.fraction("dropout", self.dropout)
        self._tokens: Tokens | None = None

    @property
    def learns(self) -> bool:
        return True

    def fit(self, train: Dataset) -> Self:
        package = optional("tokenizers", "sub-words of texts", extra="encode")
        tokeniser = package.Tokenizer(package.models.BPE())
        tokeniser.normalizer = package.normalizers.Lowercase()
        tokeniser.pre_tokenizer = package.pre_tokenizers.ByteLevel()
        trainer = package.trainers.BpeTrainer(
            vocab_size=self.vocabulary,
            min_frequency=2,
            initial_alphabet=package.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        texts = (text for part in blocks(_texts(train)) for text in part)
        tokeniser.train_from_iterator(texts, trainer)
        self.learnt, self._tokens = {TOKENISER: as_bytes(tokeniser)}, None
        self.facts = {"tokens": tokeniser.get_vocab_size()}
        self.module = self.make()
        return self

    def make(self) -> nn.Module:
        return _Network(int(self.fact("tokens")), self.width, self.dropout, self.places)

    def restore(self, facts: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        table = state.get("module.embedding.weight")
        if table is None or len(table) != int(facts.get("tokens", -2)) + 1:
            raise ValueError("the embedding of texts has not as many rows as there are tokens")
        if TOKENISER not in state or state[TOKENISER].dtype != torch.uint8:
            raise ValueError("an encoder of texts keeps its tokeniser as bytes; there are none")
        return super().restore(facts, state)

    def prepare(self, dataset: Dataset) -> Inputs:
        return self._cutter()(_texts(dataset))

    def _cutter(self) -> Tokens:
        self.fact("tokens")
        if self._tokens is None:
            self._tokens = Tokens(self.learnt[TOKENISER], self.length, windows=1)
        return self._tokens

    def table(self) -> nn.Module | None:
        return None if self.module is None else self.module.embedding  # type: ignore[return-value]

    def words_in(self, text: str) -> tuple[list[str], Tensor]:
        return self._cutter().words_in(text)

    def __getstate__(self) -> dict[str, Any]:
        """Of copies: the tokeniser is made anew."""
        return self.__dict__ | {"_tokens": None}

    def lengths(self, inputs: Inputs) -> Tensor | None:
        return lengths_of(inputs)

    def batch_of(self, inputs: Any, step: int = 1) -> Any:
        return trimmed(inputs, self.length, step)


def _texts(dataset: Dataset) -> Any:
    if dataset.texts is None:
        raise ValueError("an encoder of texts needs texts, and the data set has none")
    return dataset.texts


class _Network(nn.Module):
    """(rows, tokens) to (rows, 4 width), or to (rows, tokens, 4 width)."""

    def __init__(self, tokens: int, width: int, dropout: float, places: bool) -> None:
        super().__init__()
        self.places = places
        self.embedding = nn.Embedding(tokens + 1, width, padding_idx=0)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, k, padding=k // 2) for k in REACH)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor) -> Tensor:
        mask = (ids >= 0)[:, None]
        e = self.embedding((ids + 1).long()).movedim(1, 2)
        # relu gives 0 and more, so that 0 stands for places without a token
        each = [relu(layer(e)) * mask for layer in self.layers]
        if self.places:
            features = torch.cat([*each, e], 1).movedim(1, 2)
        else:
            mean = e.sum(2) / mask.sum(2).clamp(min=1)
            features = torch.cat([*(x.amax(2) for x in each), mean], 1)
        dropped: Tensor = self.dropout(features)
        return dropped

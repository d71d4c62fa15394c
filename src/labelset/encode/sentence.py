"""Sentence embeddings by a transformer on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.data import Dataset
from labelset.encode._pretrained import Pretrained, model_folder, network

WHAT = "a sentence encoder"


@dataclass(kw_only=True, eq=False)
class Sentence(Pretrained):
    """The mean of a transformer's last hidden states over the words of a text, standardised.

        e = sum_t m_t h_t / sum_t m_t,  e / |e|,  m_t = 1 for words, 0 for padding

    The transformer is read from a folder with `config.json`, weights and tokeniser, or from an
    installed package that holds one; nothing is fetched. It is not trained further.
    """

    name = "sentence"
    reads = ("texts",)

    length: int = hyper(256, "words and pieces of words after which a text is cut off")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("length", self.length, low=1)

    def _embedded(self, dataset: Dataset) -> Tensor:
        """(rows, width), each of length 1."""
        if dataset.texts is None:
            raise ValueError("a sentence encoder needs texts, and the data set has none")
        folder = model_folder(self.model, WHAT)
        tokeniser, model = network(folder, WHAT, "AutoTokenizer", "AutoModel")
        model.eval()
        texts = dataset.texts
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))  # so as to pad little
        parts = [
            self._mean_state(tokeniser, model, [texts[row] for row in order[at : at + self.batch]])
            for at in range(0, len(order), self.batch)
        ]
        return torch.cat(parts)[torch.tensor(order).argsort()]

    def _mean_state(self, tokeniser: Any, model: Any, texts: list[str]) -> Tensor:
        tokens = tokeniser(
            texts, padding=True, truncation=True, max_length=self.length, return_tensors="pt"
        )
        with torch.no_grad():
            states = model(**tokens).last_hidden_state.float()
        mask = tokens["attention_mask"][..., None].float()
        mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
        return torch.nn.functional.normalize(mean)

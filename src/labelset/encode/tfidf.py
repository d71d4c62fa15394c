"""TF-IDF of texts, sparse, or dense after a singular value decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch

from labelset import check
from labelset.catalog import hyper
from labelset.data import Dataset, SparseRows, StoredSparse, StoredTexts
from labelset.data._spool import spooled
from labelset.data._stored import blocks
from labelset.encode._base import Encoder, Inputs
from labelset.encode._directions import directions
from labelset.encode._standard import moments, standardised
from labelset.encode._words import counted, vocabulary

__all__ = ["TFIDF"]


@dataclass(kw_only=True, eq=False)
class TFIDF(Encoder):
    """How often a word is in a text, more if few texts have it; rows of length 1.

        x = tf idf / |tf idf|,  tf = 1 + ln(count) (or count),  idf = 1 + ln((1 + N) / (1 + N_word))

    N counts training texts. Words are runs of two letters or digits and more, in small letters.
    With `svd` > 0 the features are x V, V the first right singular vectors of the training rows,
    then standardised.

    >>> data = Dataset.from_arrays(None, [[1], [0]], texts=["red apple", "red fork, red knife"])
    >>> TFIDF(least=1, sublinear=False).fit(data)(data).dense()
    tensor([[0.8148, 0.0000, 0.0000, 0.5797],
            [0.0000, 0.4984, 0.4984, 0.7093]])
    """

    name = "tfidf"
    costly = True

    words: int = hyper(50_000, "at most so many words, those that occur most often")
    least: int = hyper(2, "words in fewer training texts are left out")
    ngrams: int = hyper(1, "runs of up to so many words count as words")
    sublinear: bool = hyper(True, "whether to take 1 + ln(count) rather than the count")
    svd: int = hyper(0, "dimensions to reduce to; 0: none, the features stay sparse")
    seed: int = hyper(0, "of the decomposition")

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("words", "least", "ngrams"):
            check.whole(field, getattr(self, field), low=1)
        for field in ("svd", "seed"):
            check.whole(field, getattr(self, field))

    def fit(self, train: Dataset) -> Self:
        texts = _texts(train)
        words, in_texts = vocabulary(texts, self.ngrams, self.least, self.words)
        if not words:
            raise ValueError(
                f"no word is in at least {self.least} of {len(texts)} training texts; lower `least`"
            )
        idf = 1 + ((1 + len(texts)) / (1 + torch.tensor(in_texts, dtype=torch.float64))).log()
        self.facts = {"words": words}
        self.learnt = {"idf": idf.float()}
        if self.svd:
            x = self._every(texts)
            v = directions(x, self.svd, self.seed)
            self.learnt["directions"] = v
            every = x @ v if isinstance(x, SparseRows) else spooled((b @ v for b in blocks(x)), 0)
            self.learnt |= moments(every)
        return self

    def _every(self, texts: Sequence[str]) -> SparseRows | StoredSparse:
        """Before the decomposition, of all texts; on disk if they are."""
        words = self.fact("words")
        if not isinstance(texts, StoredTexts):
            return self._weighted(counted(texts, words, self.ngrams))
        parts = (self._weighted(counted(b, words, self.ngrams)) for b in blocks(texts))
        held: SparseRows | StoredSparse = spooled(parts, 0)
        return held

    def prepare(self, dataset: Dataset) -> Inputs:
        x = self._weighted(counted(_texts(dataset), self.fact("words"), self.ngrams))
        if not self.svd:
            return x
        reduced = x @ self.learnt["directions"]
        return standardised(reduced, self.learnt["mean"], self.learnt["deviation"])

    def _weighted(self, counts: SparseRows) -> SparseRows:
        tf = counts.filled().double()
        tf = 1 + tf.log() if self.sublinear else tf
        raw = tf * self.learnt["idf"][counts.indices.long()]
        rows = counts.rows()
        squares = torch.zeros(len(counts), dtype=raw.dtype).index_add(0, rows, raw.square())
        return replace(counts, values=(raw / squares.sqrt()[rows]).float())


def _texts(dataset: Dataset) -> Sequence[str]:
    if dataset.texts is None:
        raise ValueError("TF-IDF needs texts, and the data set has none")
    return dataset.texts

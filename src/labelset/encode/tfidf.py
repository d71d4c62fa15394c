"""TF-IDF of texts, sparse, or dense after a singular value decomposition."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.data import Dataset, SparseRows, StoredSparse, StoredTexts
from labelset.data.store import blocks, spooled
from labelset.encode._base import Encoder, Inputs, moments, standardised

MORE = 10
"""Directions beyond those wanted, which make these exact."""
ROUNDS = 4


def directions(x: SparseRows | StoredSparse, count: int, seed: int) -> Tensor:
    """(width, count): orthonormal, those that explain most of `x` first.

    >>> x = SparseRows.from_csr([0, 1, 2], [0, 2], width=3, values=[3.0, 1.0])
    >>> directions(x, 1, seed=0).flatten()
    tensor([1., 0., 0.])
    """
    limit = min(x.shape)
    if count > limit:
        raise ValueError(f"svd must be at most {limit}, the training texts or words, got {count}")
    q = min(count + MORE, limit)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(x, SparseRows):
            v = torch.svd_lowrank(_matrix(x), q=q, niter=ROUNDS)[2]
        else:
            v = _by_passes(x, q)
    v = v[:, :count]
    sign = v.gather(0, v.abs().argmax(0, keepdim=True)).sign()
    return (v * sign).contiguous()


def _by_passes(x: StoredSparse, q: int) -> Tensor:
    """Subspace iteration v <- qr(x^T x v), one pass over the rows each, then the eigenvectors of
    (x v)^T (x v): nothing of the size of the rows is held."""
    v = torch.linalg.qr(torch.randn(x.width, q))[0]
    for _ in range(ROUNDS + 1):
        y = torch.zeros_like(v)
        for block in blocks(x):
            matrix = _matrix(block)
            y += torch.sparse.mm(matrix.t(), torch.sparse.mm(matrix, v))
        v = torch.linalg.qr(y)[0]
    gram = torch.zeros(q, q, dtype=torch.float64)
    for block in blocks(x):
        reduced = (block @ v).double()
        gram += reduced.T @ reduced
    largest_first = torch.linalg.eigh(gram)[1].flip(1).float()
    found: Tensor = v @ largest_first
    return found


def _matrix(x: SparseRows) -> Tensor:
    places = torch.stack([x.rows(), x.indices.long()])
    return torch.sparse_coo_tensor(
        places, x.filled(), x.shape, is_coalesced=True, check_invariants=False
    )


ANALYZERS = {"word": ("words",), "char": ("characters",), "both": ("words", "characters")}
"""The kinds of terms that each setting of `analyzer` counts; `auto` is one of them, once fitted."""
UNSPACED = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]"
)
"""Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese, which put no spaces between words."""
FEW = 0.01
"""Texts in these scripts below this share count as foreign words in others."""


@dataclass(kw_only=True, eq=False)
class TFIDF(Encoder):
    """How often a term is in a text, more if few texts have it; rows of length 1.

        x = tf idf / |tf idf|,  tf = 1 + ln(count) (or count),  idf = 1 + ln((1 + N) / (1 + N_term))

    N counts training texts. Terms are words, which are runs of two letters or digits and more, in
    small letters, and runs of characters inside what stands between spaces. By `auto` the latter
    are counted as well where training texts are in scripts without spaces, in which a sentence
    would be one word. Words and characters are weighted apart, and count alike in a row. With
    `svd` > 0 the features are x V, V the first right singular vectors of the training rows, then
    standardised.

    >>> data = Dataset.from_arrays(None, [[1], [0]], texts=["red apple", "red fork, red knife"])
    >>> TFIDF(least=1, sublinear=False).fit(data)(data).dense()
    tensor([[0.8148, 0.0000, 0.0000, 0.5797],
            [0.0000, 0.4984, 0.4984, 0.7093]])
    """

    name = "tfidf"
    costly = True
    reads = ("texts",)

    words: int = hyper(50_000, "the number of terms kept of each kind, the most frequent")
    least: int = hyper(2, "terms in fewer training texts are left out")
    ngrams: int = hyper(1, "longest run of words that counts as a term")
    analyzer: str = hyper("auto", "word, char or both; auto: both where scripts have no spaces")
    characters: int = hyper(4, "longest run of characters")
    sublinear: bool = hyper(True, "whether to take 1 + ln(count) rather than the count")
    svd: int = hyper(0, "dimensions to reduce to; 0: none, the features stay sparse")
    seed: int = hyper(0, "of the decomposition")

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("words", "least", "ngrams", "characters"):
            check.whole(field, getattr(self, field), low=1)
        for field in ("svd", "seed"):
            check.whole(field, getattr(self, field))
        check.one_of("analyzer", self.analyzer, ("auto", *ANALYZERS))

    def fit(self, train: Dataset) -> Self:
        texts, idf = _texts(train), []
        self.facts = {kind: [] for kind in ANALYZERS["both"]}
        for kind in ANALYZERS[_analyzer(texts) if self.analyzer == "auto" else self.analyzer]:
            analyze = self._vectorizer(kind).build_analyzer()
            terms, in_texts = _vocabulary(map(analyze, texts), self.least, self.words)
            self.facts[kind] = terms
            rare = (1 + len(texts)) / (1 + torch.tensor(in_texts, dtype=torch.float64))
            idf.append((1 + rare.log()).float())
        self.learnt = {"idf": torch.cat(idf)}
        if not len(self.learnt["idf"]):
            self.facts = {}
            raise ValueError(
                f"no word is in at least {self.least} of {len(texts)} training texts; lower `least`"
            )
        if self.svd:
            x = self._every(texts)
            v = directions(x, self.svd, self.seed)
            self.learnt["directions"] = v
            every = x @ v if isinstance(x, SparseRows) else spooled((b @ v for b in blocks(x)), 0)
            self.learnt |= moments(every)
        return self

    def prepare(self, dataset: Dataset) -> Inputs:
        x = self._weighted(_texts(dataset))
        if not self.svd:
            return x
        reduced = x @ self.learnt["directions"]
        return standardised(reduced, self.learnt["mean"], self.learnt["deviation"])

    def _every(self, texts: Sequence[str]) -> SparseRows | StoredSparse:
        """Before the decomposition, of all texts; on disk if they are."""
        if not isinstance(texts, StoredTexts):
            return self._weighted(texts)
        every: SparseRows | StoredSparse = spooled((self._weighted(b) for b in blocks(texts)), 0)
        return every

    def _weighted(self, texts: Sequence[str]) -> SparseRows:
        """(texts, terms), each row of length 1 or without terms."""
        from scipy.sparse import hstack
        from sklearn.feature_extraction.text import TfidfTransformer
        from sklearn.preprocessing import normalize

        self.fact("words")  # an error before `fit`
        kinds = [kind for kind in ANALYZERS["both"] if self.facts[kind]]
        sizes = [len(self.facts[kind]) for kind in kinds]
        idfs = torch.split(self.learnt["idf"].double(), sizes)
        both = []
        for kind, idf in zip(kinds, idfs, strict=True):
            counts = self._vectorizer(kind, self.facts[kind]).transform(texts)
            weights = TfidfTransformer(sublinear_tf=self.sublinear)
            weights.idf_ = idf.numpy()
            both.append(weights.transform(counts))
        x = both[0] if len(both) == 1 else normalize(hstack(both, format="csr"), copy=False)
        return SparseRows.from_csr(x.indptr, x.indices, x.shape[1], x.data.astype(np.float32))

    def _vectorizer(self, kind: str, terms: list[str] | None = None) -> Any:
        """scikit-learn's, which cuts texts into terms, and counts those that are known."""
        from sklearn.feature_extraction.text import CountVectorizer

        words = kind == "words"
        return CountVectorizer(
            analyzer="word" if words else "char_wb",
            ngram_range=(1, self.ngrams if words else self.characters),
            vocabulary=terms,
            dtype=np.float64,
        )


def _analyzer(texts: Iterable[str]) -> str:
    """Characters as well where some of the texts have no spaces between words."""
    unspaced = [not text.isascii() and UNSPACED.search(text) is not None for text in texts]
    return "both" if sum(unspaced) > FEW * len(unspaced) else "word"


def _vocabulary(
    texts: Iterable[Iterable[str]], least: int, most: int
) -> tuple[list[str], list[int]]:
    """Terms in at least `least` texts, in the order of the alphabet, and in how many texts each is.

    Of more than `most`, those that occur most often, ties going to the alphabet. scikit-learn's own
    `fit` would hold the counts of all texts at once.
    """
    in_texts: Counter[str] = Counter()
    often: Counter[str] = Counter()
    for terms in texts:
        counts = Counter(terms)
        in_texts.update(counts.keys())
        often.update(counts)
    kept = sorted(term for term, count in in_texts.items() if count >= least)
    if len(kept) > most:
        kept = sorted(sorted(kept, key=lambda term: -often[term])[:most])
    return kept, [in_texts[term] for term in kept]


def _texts(dataset: Dataset) -> Sequence[str]:
    if dataset.texts is None:
        raise ValueError("TF-IDF needs texts, and the data set has none")
    return dataset.texts

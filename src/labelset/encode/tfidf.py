"""TF-IDF of words and characters, sparse, or dense after a singular value decomposition."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.data import Dataset, SparseRows, StoredSparse, StoredTexts
from labelset.data.store import blocks, spooled
from labelset.encode._base import Encoder, Inputs, check_state, moments, standardised
from labelset.encode._terms import Analyzer, Terms, joined, learn, on_threads, weigh

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


KINDS = {"words": 2, "characters": 3}
"""The kinds of terms, and the training texts that a term must be in, where these are many."""
WORD = re.compile(r"\b\w\w+\b")
"""What scikit-learn takes for a word."""
MARKS = "".join(chr(c) for c in range(33, 127) if not chr(c).isalnum())
FEW = 50
"""Training texts below which every term is kept."""


@dataclass(kw_only=True, eq=False)
class TFIDF(Encoder):
    """How often a term is in a text, more if few texts have it; terms are words and characters.

        x = tf idf / |tf idf|,  tf = 1 + ln(count) (or count),  idf = 1 + ln((1 + N) / (1 + N_term))

    N counts training texts. Terms are n-grams of words, which are runs of two letters or digits and
    more, in small letters, and n-grams of characters inside what stands between blanks: these know
    parts of words, misspelt words, and scripts without blanks. Words and characters are weighed
    apart, each of length 1 in a row, and lie side by side. Terms that are in fewer than 2 (words)
    or 3 (characters) training texts are left out, in fewer than 2 where there are less than 100
    texts, and none below 50. With `svd` > 0 the features are x V, V the first right singular
    vectors of the training rows, then standardised.

    >>> data = Dataset.from_arrays(None, [[1], [0]], texts=["red apple", "red fork, red knife"])
    >>> TFIDF(words=1, characters=0, sublinear=False).fit(data)(data).dense()
    tensor([[0.8148, 0.0000, 0.0000, 0.5797],
            [0.0000, 0.4984, 0.4984, 0.7093]])
    """

    name = "tfidf"
    costly = True
    reads: ClassVar[tuple[str, ...]] = ("texts",)

    words: int = hyper(2, "longest n-gram of words; 0: no words")
    characters: int = hyper(5, "longest n-gram of characters inside words; 0: no characters")
    least: int = hyper(0, "terms in fewer training texts are left out; 0: by how many there are")
    most: int = hyper(200_000, "the number of terms kept of each kind, the most frequent")
    sublinear: bool = hyper(True, "whether to take 1 + ln(count) rather than the count")
    svd: int = hyper(0, "dimensions to reduce to; 0: none, the features stay sparse")
    seed: int = hyper(0, "of the decomposition")
    also: Sequence[str] = hyper((), "texts, as of labels, whose terms are kept however rare")

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("words", "characters", "least", "svd", "seed"):
            check.whole(field, getattr(self, field))
        check.whole("most", self.most, low=1)
        if not self.words and not self.characters:
            raise ValueError("words and characters are both 0, so that there are no terms")
        self._known: dict[str, Terms] = {}
        self._columns: dict[str, dict[str, int]] = {}

    def fit(self, train: Dataset) -> Self:
        texts, kinds = _texts(train), self._analyzers()
        least = {kind: self._least(kind, len(texts)) for kind in kinds}
        learnt = on_threads(lambda kind: learn(kinds[kind], texts, least[kind], self.most), kinds)
        if self.also:
            pairs = zip(learnt, least.values(), strict=True)
            learnt = [joined(one, self.also, fewest) for one, fewest in pairs]
        width = sum(len(one.terms) for one in learnt)
        if not width:
            raise ValueError(
                f"no term is in at least {min(least.values())} of {len(texts)} training texts; "
                "lower `least`"
            )
        self._known = {kind: one.terms for kind, one in zip(kinds, learnt, strict=True)}
        rare = (1 + len(texts)) / (1 + torch.cat([one.in_texts for one in learnt]).double())
        self.learnt, self.facts = {"idf": (1 + rare.log()).float()}, {"terms": width}
        for kind, terms in self._known.items():
            self.learnt |= {f"{kind}.letters": terms.letters, f"{kind}.starts": terms.starts}
        if self.svd:
            x = self._every(texts)
            v = directions(x, self.svd, self.seed)
            self.learnt["directions"] = v
            every = x @ v if isinstance(x, SparseRows) else spooled((b @ v for b in blocks(x)), 0)
            self.learnt |= moments(every)
        return self

    def prepare(self, dataset: Dataset) -> Inputs:
        x = self._weighed(_texts(dataset))
        if not self.svd:
            return x
        reduced = x @ self.learnt["directions"]
        return standardised(reduced, self.learnt["mean"], self.learnt["deviation"])

    def restore(self, facts: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        """Be what wrote these; ValueError where they do not fit together."""
        kinds, width = self._analyzers(), facts.get("terms", -1)
        shapes: dict[str, tuple[int, ...] | None] = {"idf": (width,)}
        shapes |= {f"{kind}.{what}": None for kind in kinds for what in ("letters", "starts")}
        if self.svd:
            shapes |= {"directions": (width, self.svd), "mean": (self.svd,)}
            shapes |= {"deviation": (self.svd,)}
        check_state("tfidf", state, shapes)
        known = {
            kind: Terms(analyzer, state[f"{kind}.letters"], state[f"{kind}.starts"])
            for kind, analyzer in kinds.items()
        }
        if (count := sum(map(len, known.values()))) != width:
            raise ValueError(f"tfidf has {width} weights for {count} terms")
        self._known = known
        return super().restore(facts, state)

    def terms(self, kind: str) -> list[str]:
        """The known "words" or "characters", in the order of the alphabet and of the columns."""
        self.fact("terms")
        check.one_of("kind", kind, tuple(KINDS))
        return self._known[kind].strings() if kind in self._known else []

    def feature_names(self, width: int, columns: Sequence[str] | None) -> list[str]:
        """The terms in quotes, where they are of characters with that word in front."""
        if self.svd:
            return ["embedding of text"] * self.svd
        fronts = {"words": "", "characters": "characters "}
        return [f'{fronts[kind]}"{term}"' for kind in self._known for term in self.terms(kind)]

    def words_of(self, text: str) -> tuple[list[str], dict[tuple[int, int], float]]:
        """The words of a text, as they stand between blanks, and (term, word) -> which share of the
        term's occurrences lies in that word; the shares of a term add up to 1.

        >>> data = Dataset.from_arrays(None, [[1]], texts=["red fork"])
        >>> words, shares = TFIDF(characters=0).fit(data).words_of("a red fork!")
        >>> words, shares[1, 1], shares[2, 1], shares[2, 2]  # fork, red, red fork are 0, 1, 2
        (['a', 'red', 'fork'], 1.0, 0.5, 0.5)
        """
        numbers: dict[str, int] = {}
        found: Counter[tuple[int, int]] = Counter()
        cut = {k: a.vectorizer().build_analyzer() for k, a in self._analyzers().items()}
        each: list[tuple[str, int]] = []
        first = self._starts()
        for token in text.lower().split():
            at = numbers.setdefault(token.strip(MARKS) or token, len(numbers))
            for term in cut["characters"](token) if "characters" in cut else ():
                found[first["characters"].get(term, -1), at] += 1
            each += [(word, at) for word in WORD.findall(token)]
        for n in range(1, self.words + 1):
            for start in range(len(each) - n + 1):
                some = each[start : start + n]
                term = first["words"].get(" ".join(word for word, _ in some), -1)
                for _, at in some:
                    found[term, at] += 1 / n  # type: ignore[assignment]
        sums: Counter[int] = Counter()
        for (term, _), count in found.items():
            sums[term] += count
        shares = {k: count / sums[k[0]] for k, count in found.items() if k[0] >= 0}
        return [*numbers], shares

    def _starts(self) -> dict[str, dict[str, int]]:
        """Of each kind of terms their columns, made once."""
        if not self._columns:
            start = 0
            for kind, terms in self._known.items():
                self._columns[kind] = {t: start + i for i, t in enumerate(terms.strings())}
                start += len(terms)
        return self._columns

    def _analyzers(self) -> dict[str, Analyzer]:
        """How texts are cut, for each kind of terms there is."""
        every = {
            "words": Analyzer(False, 1, self.words),
            "characters": Analyzer(True, min(2, self.characters), self.characters),
        }
        return {kind: analyzer for kind, analyzer in every.items() if analyzer.high}

    def _least(self, kind: str, texts: int) -> int:
        """So few texts that a few dozen rows have features as well."""
        return self.least or min(KINDS[kind], 1 + texts // FEW)

    def _every(self, texts: Sequence[str]) -> SparseRows | StoredSparse:
        """Before the decomposition, of all texts; on disk if they are."""
        if not isinstance(texts, StoredTexts):
            return self._weighed(texts)
        every: SparseRows | StoredSparse = spooled((self._weighed(b) for b in blocks(texts)), 0)
        return every

    def _weighed(self, texts: Sequence[str]) -> SparseRows:
        """(texts, terms)."""
        self.fact("terms")  # an error before `fit`
        return weigh([*self._known.values()], self.learnt["idf"], self.sublinear, texts)


def _texts(dataset: Dataset) -> Sequence[str]:
    if dataset.texts is None:
        raise ValueError("TF-IDF needs texts, and the data set has none")
    return dataset.texts

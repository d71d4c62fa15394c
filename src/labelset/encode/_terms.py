"""Terms of texts, which are n-grams of words or of characters: learnt, counted and weighed.

scikit-learn defines them, and does the work where the C extension was not built. In C it takes a
tenth of the time (benchmarks/text.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from labelset import csr
from labelset.data import SparseRows
from labelset.data.store import blocks

try:
    from labelset.encode import _ngrams
except ImportError:  # no compiler where this was installed
    _ngrams = None  # type: ignore[assignment, unused-ignore]

LETTERS = 1 << 16
"""Letters of a block of texts, which one thread goes through."""

COUNTED = 1 << 22
"""Terms of a kind that are counted at a time, with some 100 bytes for each."""


class Analyzer(NamedTuple):
    """How a text is cut: scikit-learn's analyzers "word" and "char_wb"."""

    characters: bool
    """Whether n-grams are of characters between two blanks rather than of words."""
    low: int
    high: int
    """Shortest and longest n-gram."""

    def vectorizer(self, vocabulary: list[str] | None = None) -> Any:
        """scikit-learn's, which counts the terms of the vocabulary."""
        from sklearn.feature_extraction.text import CountVectorizer

        return CountVectorizer(
            analyzer="char_wb" if self.characters else "word",
            ngram_range=(self.low, self.high),
            vocabulary=vocabulary,
            dtype=np.float64,
        )


class Terms:
    """The terms that are known, in the order of the alphabet.

    >>> some = Terms.of(Analyzer(False, 1, 1), ["apple", "fork"])
    >>> len(some), some.strings()
    (2, ['apple', 'fork'])
    """

    def __init__(self, analyzer: Analyzer, letters: Tensor, starts: Tensor) -> None:
        self.analyzer, self.letters, self.starts = analyzer, letters, starts
        for name, t, dtype in (("letters", letters, torch.uint8), ("starts", starts, torch.int64)):
            if t.dtype != dtype or t.ndim != 1:
                got = f"{t.dtype} {tuple(t.shape)}"
                raise ValueError(f"{name} of terms must be 1-D {dtype}, got {got}")
        if not len(starts) or starts[0] != 0 or starts[-1] != len(letters):
            raise ValueError(f"starts of terms must run from 0 to {len(letters)}, their letters")
        if bool((starts.diff() < 1).any()):
            raise ValueError("every term must have a letter")
        if len(starts) > 1 << 31:
            raise ValueError("there are more terms than 32 bits can number")
        self.table: Any = None
        if _ngrams is not None:
            self.table = _ngrams.table(*analyzer, letters.numpy(), starts.numpy())
        elif len({*self.strings()}) < len(self):
            raise ValueError("a term is listed twice")

    def __reduce__(self) -> tuple[Any, ...]:
        return Terms, (self.analyzer, self.letters, self.starts)  # the table is made again

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, analyzer: Analyzer, strings: Iterable[str]) -> Self:
        """From a list, which is in the order of the alphabet."""
        coded = [term.encode("utf-8", "surrogatepass") for term in strings]
        letters = torch.tensor([*b"".join(coded)], dtype=torch.uint8)
        lengths = torch.tensor([len(term) for term in coded], dtype=torch.int64)
        return cls(analyzer, letters, csr.cumulate(lengths))

    def strings(self) -> list[str]:
        """All of them."""
        letters, starts = self.letters.numpy().tobytes(), self.starts.tolist()
        pairs = pairwise(starts)
        return [letters[start:end].decode("utf-8", "surrogatepass") for start, end in pairs]


@dataclass(frozen=True)
class TermCounts:
    """What training texts say about terms of one kind."""

    terms: Terms
    in_texts: Tensor
    """(terms,) int64: the texts that have each."""


def learn(analyzer: Analyzer, texts: Sequence[str], least: int, most: int) -> TermCounts:
    """The terms in at least `least` texts; of more than `most` those that occur most often.

    Ties go to the alphabet. Where texts have more than `COUNTED` terms, those that few of the texts
    so far have are forgotten on the way, and counted from 0 where they come again.

    >>> learn(Analyzer(False, 1, 1), ["red fork", "red, red apple", "apple"], 2, 9).terms.strings()
    ['apple', 'red']
    """
    if _ngrams is None:
        from labelset.extensions import warn_slow

        warn_slow()
        return _learnt_slowly(analyzer, texts, least, most)
    table = _ngrams.table(*analyzer, b"", b"")
    for block in blocks(texts, LETTERS):
        _ngrams.count(table, _small(block), COUNTED)
    letters, starts, in_texts = _ngrams.terms(table, least, most)
    terms = Terms(analyzer, _tensor(letters, np.uint8), _tensor(starts, np.int64))
    return TermCounts(terms, _tensor(in_texts, np.int64))


def joined(known: TermCounts, texts: Sequence[str], in_texts: int) -> TermCounts:
    """With the terms of further texts, those that are new as if so many training texts had them.

    >>> known = learn(Analyzer(False, 1, 1), ["red fork", "red apple"], 1, 9)
    >>> joined(known, ["blue fork"], 0).terms.strings()
    ['apple', 'blue', 'fork', 'red']
    """
    counts = dict(zip(known.terms.strings(), known.in_texts.tolist(), strict=True))
    new = learn(known.terms.analyzer, texts, 1, sum(map(len, texts)) ** 2)
    every = dict.fromkeys(new.terms.strings(), in_texts) | counts
    kept = sorted(every)
    counted = torch.tensor([every[term] for term in kept], dtype=torch.int64)
    return TermCounts(Terms.of(known.terms.analyzer, kept), counted)


def _learnt_slowly(analyzer: Analyzer, texts: Sequence[str], least: int, most: int) -> TermCounts:
    """scikit-learn's own `fit` would hold the counts of all texts at once."""
    in_texts: Counter[str] = Counter()
    often: Counter[str] = Counter()
    for terms in map(analyzer.vectorizer().build_analyzer(), texts):
        counts = Counter(terms)
        in_texts.update(counts.keys())
        often.update(counts)
    kept = sorted(term for term, count in in_texts.items() if count >= least)
    if len(kept) > most:
        kept = sorted(sorted(kept, key=lambda term: -often[term])[:most])
    counted = torch.tensor([in_texts[term] for term in kept], dtype=torch.int64)
    return TermCounts(Terms.of(analyzer, kept), counted)


def weigh(kinds: Sequence[Terms], idf: Tensor, sublinear: bool, texts: Sequence[str]) -> SparseRows:
    """(texts, terms of all kinds) float32: tf idf, the terms of each kind of length 1 in a row."""
    width = sum(map(len, kinds))
    if not len(texts):
        return SparseRows.from_csr([0], [], width)
    if _ngrams is None:
        from labelset.extensions import warn_slow

        warn_slow()
        return _weighed_slowly(kinds, idf, sublinear, texts)
    tables, weights = tuple(terms.table for terms in kinds), idf.float().numpy()
    jobs = blocks(texts, LETTERS)
    done = on_threads(lambda job: _ngrams.weigh(tables, weights, sublinear, _small(job)), jobs)
    lengths, columns, values = (
        torch.from_numpy(np.concatenate([np.frombuffer(raw, dtype) for raw in parts]))
        for parts, dtype in zip(
            zip(*done, strict=True), (np.int64, np.int32, np.float32), strict=True
        )
    )
    return SparseRows(csr.cumulate(lengths), columns, width, values)


def _weighed_slowly(
    kinds: Sequence[Terms], idf: Tensor, sublinear: bool, texts: Sequence[str]
) -> SparseRows:
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfTransformer

    every = []
    first = 0
    for terms in kinds:
        own, first = idf[first : first + len(terms)].double(), first + len(terms)
        if not len(terms):
            continue
        weights = TfidfTransformer(sublinear_tf=sublinear)
        weights.idf_ = own.numpy()
        every.append(weights.transform(terms.analyzer.vectorizer(terms.strings()).transform(texts)))
    return SparseRows.from_scipy(hstack(every, format="csr").astype(np.float32))


Job = TypeVar("Job")
Done = TypeVar("Done")


def on_threads(work: Callable[[Job], Done], jobs: Iterable[Job]) -> list[Done]:
    """What the work makes of each job, on as many threads as torch has."""
    listed = [*jobs]
    threads = min(torch.get_num_threads(), len(listed))
    if threads < 2:
        return [*map(work, listed)]
    with ThreadPoolExecutor(threads) as pool:
        return [*pool.map(work, listed)]


def _small(texts: Iterable[str]) -> list[str]:
    """In small letters; Python knows those that change in length, or at the end of a word."""
    return [text.lower() for text in texts]


def _tensor(raw: bytearray, dtype: Any) -> Tensor:
    return torch.from_numpy(np.frombuffer(raw, dtype))

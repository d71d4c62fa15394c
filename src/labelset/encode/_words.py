"""Words of texts, counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from labelset.data import SparseRows

__all__ = ["counted", "vocabulary"]

WORD = re.compile(r"\w\w+")
"""Two letters or digits and more, as in scikit-learn."""


def _terms(text: str, ngrams: int) -> list[str]:
    """Words in small letters, then runs of 2 words, ..., of `ngrams` words."""
    words = WORD.findall(text.lower())
    terms = list(words)
    for n in range(2, ngrams + 1):
        terms += [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
    return terms


def vocabulary(
    texts: Iterable[str], ngrams: int, least: int, most: int
) -> tuple[list[str], list[int]]:
    """Terms in at least `least` texts, in the order of the alphabet, and in how many texts each is.

    Of more than `most`, those that occur most often, ties going to the alphabet.
    """
    in_texts: Counter[str] = Counter()
    often: Counter[str] = Counter()
    for text in texts:
        terms = _terms(text, ngrams)
        in_texts.update(set(terms))
        often.update(terms)
    kept = sorted(term for term, count in in_texts.items() if count >= least)
    if len(kept) > most:
        kept = sorted(sorted(kept, key=lambda term: -often[term])[:most])
    return kept, [in_texts[term] for term in kept]


def counted(texts: Sequence[str], words: Sequence[str], ngrams: int) -> SparseRows:
    """(texts, words): how often each text has each word."""
    number = {word: at for at, word in enumerate(words)}
    lengths, columns, values = np.zeros(len(texts), dtype=np.int64), [], []
    for row, text in enumerate(texts):
        found = Counter(map(number.get, _terms(text, ngrams)))
        found.pop(None, None)
        columns.append(np.fromiter(found.keys(), np.int32, len(found)))
        values.append(np.fromiter(found.values(), np.float32, len(found)))
        lengths[row] = len(found)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.concatenate([np.zeros(0, np.int32), *columns])
    return SparseRows.from_csr(
        indptr, flat, len(words), np.concatenate([np.zeros(0, np.float32), *values])
    )

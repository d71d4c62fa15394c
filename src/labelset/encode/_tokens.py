"""Texts to the numbers of their tokens, by a tokeniser that a saved model holds as bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from labelset.data.store import blocks
from labelset.encode.tfidf import MARKS
from labelset.files import optional

TEXTS = 1 << 12
"""Texts that are cut into tokens together."""
NONE = -1
"""Where a row has no token."""


def as_bytes(tokeniser: Any) -> Tensor:
    """A tokeniser of the package tokenizers, for `Tokens`; it neither pads nor cuts."""
    tokeniser.no_padding()
    tokeniser.no_truncation()
    text = tokeniser.to_str().encode()
    return torch.from_numpy(np.frombuffer(text, dtype=np.uint8).copy())


class Tokens:
    """Cuts texts into windows of at most `length` tokens, marks included."""

    def __init__(self, held: Tensor, length: int, windows: int) -> None:
        package = optional("tokenizers", "tokens of texts", extra="encode")
        self.length, self.windows = length, windows
        try:
            self.reader = package.Tokenizer.from_str(held.numpy().tobytes().decode())
        except Exception as error:  # the package raises nothing more special
            raise ValueError(f"the tokeniser is damaged: {error}") from None
        marked = self.reader.encode("a").ids
        plain = self.reader.encode("a", add_special_tokens=False).ids
        at = next((i for i in range(len(marked)) if marked[i : i + len(plain)] == plain), 0)
        self.before, self.after = marked[:at], marked[at + len(plain) :]

    def __call__(self, texts: Any) -> Tensor:
        """(rows, tokens) int32, -1 behind the last token of a row and of a window."""
        parts = [self._ids(part) for part in blocks(texts, rows=TEXTS)]
        width = max((part.shape[1] for part in parts), default=1)
        parts = [pad(part, (0, width - part.shape[1]), value=NONE) for part in parts]
        return torch.cat(parts) if parts else torch.zeros(0, 1, dtype=torch.int32)

    def words_in(self, text: str) -> tuple[list[str], Tensor]:
        """The words of a text, as they stand between blanks, and of each of its tokens, as a row
        of its own, the number of the word that it is in; -1 for marks and what fills windows up."""
        whole = _readable(text)
        numbers: dict[str, int] = {}
        found = [(word.start(), word[0].lower()) for word in re.finditer(r"\S+", whole)]
        named = [numbers.setdefault(word.strip(MARKS) or word, len(numbers)) for _, word in found]
        starts = np.array([start for start, _ in found], dtype=np.int64)
        read = self.reader.encode(whole, add_special_tokens=False)
        lasts = np.array([end for _, end in read.offsets], dtype=np.int64) - 1  # no blank before it
        at = np.searchsorted(starts, lasts, side="right") - 1
        each = [named[place] if place >= 0 else NONE for place in at.tolist()]
        before, after = [NONE] * len(self.before), [NONE] * len(self.after)
        windows = [before + window + after or [NONE] for window in self._cut(each)]
        width = self.length if len(windows) > 1 else len(windows[0])
        filled = [window + [NONE] * (width - len(window)) for window in windows]
        return [*numbers], torch.tensor(filled)

    def _cut(self, tokens: list[int]) -> list[list[int]]:
        """In windows that have room for marks."""
        inside = max(1, self.length - len(self.before) - len(self.after))
        starts = range(0, len(tokens), inside)
        return [tokens[at : at + inside] for at in starts][: self.windows] or [[]]

    def _ids(self, texts: Sequence[str]) -> Tensor:
        each = self.reader.encode_batch([*map(_readable, texts)], add_special_tokens=False)
        rows = [
            [self.before + window + self.after or [0] for window in self._cut(e.ids)] for e in each
        ]
        most = max(map(len, rows))
        longest = max(len(window) for row in rows for window in row)
        width = self.length if most > 1 else longest
        ids = np.full((len(rows), most * width), NONE, dtype=np.int32)
        for row, windows in zip(ids, rows, strict=True):
            for at, window in enumerate(windows):
                row[at * width : at * width + len(window)] = window
        return torch.from_numpy(ids)


def _readable(text: str) -> str:
    """Without halves of letters."""
    return text.encode(errors="replace").decode()


def lengths_of(ids: Any) -> Tensor:
    """Tokens of each row."""
    return torch.cat([(part >= 0).sum(1) for part in blocks(ids)])


def trimmed(ids: Tensor, length: int, step: int = 1) -> Tensor:
    """Without windows, or the end of the only one, that no row has tokens in; widths that are
    multiples of `step`, as far as there are tokens."""
    last = int((ids >= 0).any(0).nonzero().max()) + 1 if len(ids) else 1
    step = length if last > length else step
    return ids[:, : -(-last // step) * step]

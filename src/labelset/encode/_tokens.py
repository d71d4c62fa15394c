"""Texts to the numbers of their tokens, by a tokeniser that a saved model holds as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from labelset.data.store import blocks
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

    def _ids(self, texts: Sequence[str]) -> Tensor:
        inside = max(1, self.length - len(self.before) - len(self.after))
        whole = [text.encode(errors="replace").decode() for text in texts]  # halves of letters
        each = self.reader.encode_batch(whole, add_special_tokens=False)
        cut = [[e.ids[at : at + inside] for at in range(0, len(e.ids), inside)] for e in each]
        rows = [
            [self.before + window + self.after or [0] for window in windows[: self.windows] or [[]]]
            for windows in cut
        ]
        most = max(map(len, rows))
        longest = max(len(window) for row in rows for window in row)
        width = self.length if most > 1 else longest
        ids = np.full((len(rows), most * width), NONE, dtype=np.int32)
        for row, windows in zip(ids, rows, strict=True):
            for at, window in enumerate(windows):
                row[at * width : at * width + len(window)] = window
        return torch.from_numpy(ids)


def lengths_of(ids: Any) -> Tensor:
    """Tokens of each row."""
    return torch.cat([(part >= 0).sum(1) for part in blocks(ids)])


def trimmed(ids: Tensor, length: int) -> Tensor:
    """Without windows, or the end of the only one, that no row has tokens in."""
    last = int((ids >= 0).any(0).nonzero().max()) + 1 if len(ids) else 1
    return ids[:, : -(-last // length) * length if last > length else last]

"""The test rows that a report carries: a fair sample, those worth a look, their texts, pictures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from labelset.labels import Labels
from labelset.report.content import ReportInput
from labelset.report.packing import packed, packed_json

CELLS = 1_100_000  # probabilities carried, over all candidates
WIDE = 2_000_000  # where these would be too few rows to look at
CHARACTERS = 900_000  # of texts
LONGEST, SHORTEST = 600, 60  # characters of one text
PIXELS = 300_000  # bytes of pictures
SIDE = 48  # pixels of a picture
ENOUGH, FEWEST = 200, 50  # rows: for which there is room up to WIDE, and in any case


def truth_of(labels: Labels) -> Tensor:
    """(rows, labels) uint8: 0 off, 1 on, 2 unknown."""
    return labels.to("cpu").dense().nan_to_num(2.0).to(torch.uint8)


def sampled(rows: int, labels: int, candidates: int, seed: int = 0) -> Tensor:
    """Rising row numbers: all rows, or as many drawn at random as a small file can hold.

    >>> len(sampled(10_000, 50, 2)), len(sampled(10_000, 5_000, 2))
    (10000, 200)
    """
    width = max(labels * candidates, 1)
    most = max(FEWEST, CELLS // width, min(ENOUGH, WIDE // width))
    if rows <= most:
        return torch.arange(rows)
    drawn = np.random.default_rng(seed).choice(rows, most, replace=False)
    return torch.from_numpy(np.sort(drawn))


def rows_of(given: ReportInput, sample: Tensor, worth: Iterable[int]) -> dict[str, Any]:
    """Rows shown (the sample, and those worth a look), what they are called, text and picture."""
    first = sorted(set(worth))
    shown = sorted({*sample.tolist(), *first})
    ids = given.part.ids
    return {
        "shown": packed(np.array(shown, dtype=np.uint32)),
        "sample": packed(np.searchsorted(shown, sample.numpy()).astype(np.uint32)),
        "ids": None if ids is None else packed_json([_cut(str(ids[row]), 200) for row in shown]),
        "texts": None if given.texts is None else _texts(given.texts, shown, first),
        "pictures": None if given.images is None else _pictures(given.images, shown, first),
    }


def _texts(texts: Any, shown: list[int], first: list[int]) -> dict[str, str]:
    """Those worth a look may be long; the others share what room is left."""
    long = _room(CHARACTERS // 2, len(first))
    short = _room(CHARACTERS - long * len(first), len(shown) - len(first))
    worth = set(first)
    return packed_json([_cut(str(texts[row]), long if row in worth else short) for row in shown])


def _room(characters: int, rows: int) -> int:
    return max(SHORTEST, min(LONGEST, characters // max(rows, 1)))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _pictures(images: Tensor, shown: list[int], first: list[int]) -> dict[str, Any]:
    """Those worth a look before the others, as many as there is room for."""
    channels, high, wide = images.shape[1:]
    shrink = max(1.0, max(high, wide) / SIDE)
    size = (max(1, round(high / shrink)), max(1, round(wide / shrink)))
    most = max(1, PIXELS // (channels * size[0] * size[1]))
    rest = sorted(set(shown) - set(first))
    rows = sorted([*first, *rest][:most])
    small = adaptive_avg_pool2d(images[rows].float().cpu(), size).round().to(torch.uint8)
    return {
        "size": [channels, *size],
        "at": packed(np.searchsorted(shown, rows).astype(np.uint32)),
        "data": packed(small),
    }

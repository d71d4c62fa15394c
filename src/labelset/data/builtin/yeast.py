"""Yeast: a classic table of genes and their functions."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from labelset.data.builtin import Builtin
from labelset.data.dataset import Dataset
from labelset.data.description import Description
from labelset.data.formats import reader_of
from labelset.files import folder_of

TEST_ROWS = 917
"""The file holds Mulan's 917 test rows first, then its 1,500 training rows."""


@dataclass(frozen=True, kw_only=True)
class Yeast(Builtin):
    """2,417 genes, 103 measurements, 14 functions, 4.2 of them on per row (Elisseeff and Weston).

    With Mulan's parts, 1,500 for training and 917 for testing. The table is a file of the package
    river, which is not imported.
    """

    def make(self) -> Dataset:
        """Dense features and labels."""
        path = folder_of("river", "yeast genes") / "datasets" / "yeast.csv.gz"
        if not path.is_file():
            raise ValueError(f"{path}: no such file; river 0.26 or newer has it")
        ask = Description.of({"data": str(path), "label_columns": ["Class*"]})
        (piece,) = reader_of("csv")([path], ask, "data")
        if piece.labels is None or piece.names is None:
            raise ValueError(f"{path}: has no columns Class1 to Class14")
        split = torch.zeros(piece.rows, dtype=torch.int8)
        split[:TEST_ROWS] = 2
        return Dataset(
            labels=piece.labels,
            names=piece.names,
            features=piece.features,
            split=split,
            card={"source": "yeast", "notes": ["Mulan's parts: 1,500 train, 917 test"]},
        )

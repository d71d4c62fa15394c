"""Data: reading what users have on disk, built-in data sets, splits, missing labels, reports."""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.data.arrays import dataset_of, frame_keys, inputs_of, new_rows, texts_in
    from labelset.data.builtin import names
    from labelset.data.dataset import Dataset, digest
    from labelset.data.description import Description, Schema
    from labelset.data.guess import Doubtful, Guess
    from labelset.data.label_column import LabelFile, read_labels
    from labelset.data.missing import drop_labels, drop_train_labels
    from labelset.data.reader import load, stream
    from labelset.data.sparse import SparseRows
    from labelset.data.split import (
        deal_folds,
        ensure_split,
        split_by_time,
        stratified_split,
        together,
    )
    from labelset.data.store import Stored, StoredRows, StoredSparse, StoredTexts
    from labelset.data.summary import Report, inspect
else:
    __getattr__, __dir__ = door(__name__)


__all__ = [
    "Dataset",
    "Description",
    "Doubtful",
    "Guess",
    "LabelFile",
    "Report",
    "Schema",
    "SparseRows",
    "Stored",
    "StoredRows",
    "StoredSparse",
    "StoredTexts",
    "dataset_of",
    "deal_folds",
    "digest",
    "drop_labels",
    "drop_train_labels",
    "ensure_split",
    "frame_keys",
    "inputs_of",
    "inspect",
    "load",
    "names",
    "new_rows",
    "read_labels",
    "split_by_time",
    "stratified_split",
    "stream",
    "texts_in",
    "together",
]

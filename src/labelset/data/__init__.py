"""Data: reading what users have on disk, built-in data sets, splits, missing labels, reports."""

from labelset.data._dataset import Dataset
from labelset.data._description import Description
from labelset.data._labels import LabelFile, read_labels
from labelset.data._load import load
from labelset.data._report import Report, inspect
from labelset.data._sparse import SparseRows
from labelset.data._stored import Stored, StoredRows, StoredSparse, StoredTexts
from labelset.data._stream import stream
from labelset.data.builtin import names
from labelset.data.missing import drop_labels, drop_train_labels
from labelset.data.split import ensure_split, stratified_split

__all__ = [
    "Dataset",
    "Description",
    "LabelFile",
    "Report",
    "SparseRows",
    "Stored",
    "StoredRows",
    "StoredSparse",
    "StoredTexts",
    "drop_labels",
    "drop_train_labels",
    "ensure_split",
    "inspect",
    "load",
    "names",
    "read_labels",
    "stratified_split",
    "stream",
]

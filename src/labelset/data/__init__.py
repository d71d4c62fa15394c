"""Reading what users have on disk."""

from labelset.data._labels import LabelFile, read_labels

__all__ = ["LabelFile", "read_labels"]

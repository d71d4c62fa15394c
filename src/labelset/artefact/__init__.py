"""A model on disk: scores, what they mean, and how to decide, in one folder."""

from labelset.artefact._run import Part, Run
from labelset.artefact._scores import read_scores

__all__ = ["Part", "Run", "read_scores"]

"""Development rows, dealt to folds, and the test rows that judge what they have chosen."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelset.data import Dataset, deal_folds, together
from labelset.labels import Labels


@dataclass(frozen=True, eq=False)
class Development:
    """Rows that candidates are fitted on and chosen by, and rows that only judge.

    Given validation rows are respected: they are fold 0, and training rows are fitted on by every
    member. Where there are none, all training rows are dealt to folds, so that each has scores of a
    member that has not seen it. Rows with equal inputs, or of one group, are in one fold.

    >>> data = Dataset.from_arrays([[float(i)] for i in range(40)], [[1]] * 40,
    ...     split=[0] * 32 + [2] * 8)
    >>> development = Development.of(data, folds=4)
    >>> development.folds.bincount()
    tensor([8, 8, 8, 8])
    >>> development.sentence
    'chosen by scores of 32 rows, each by a model fitted on the other 3 of 4 folds'
    """

    rows: Tensor
    """Numbers of the development rows in the data set."""
    folds: Tensor
    """(development rows,) int64, -1: fitted on by every member."""
    labels: Labels
    """Of the development rows."""
    test: Tensor
    """Numbers of the test rows."""
    final: Tensor
    """(development rows,) int64: the folds that the members of the model leave out that is kept.
    Those of `folds`, or, where validation rows are given, folds of all rows: once they have chosen,
    they are learned from as well."""

    @classmethod
    def of(cls, dataset: Dataset, folds: int = 5, seed: int = 0) -> Development:
        """The rows of a data set that has a split; fewer folds where there are fewer rows."""
        assert dataset.split is not None
        rows = (dataset.split < 2).nonzero().flatten()
        test = (dataset.split == 2).nonzero().flatten()
        labels = dataset.labels[rows]
        groups = together(dataset)
        own = None if groups is None else groups[rows].numpy()
        apart = len(rows) if own is None else len(set(own.tolist()))
        given = bool((dataset.split == 1).any())
        if apart < 2 and not given:
            raise ValueError(
                f"{dataset.card.get('source', 'the data set')}: {len(rows)} training rows, with "
                f"{apart} that may part (equal inputs and groups stay together), are too few to "
                "learn and to choose from: at least 2 are needed; give more rows, or valid=FILE"
            )
        chosen_by = dataset.split[rows].long() - 1
        dealt = deal_folds(labels, min(folds, apart), own, seed) if apart > 1 else chosen_by
        return cls(rows, chosen_by if given else dealt, labels, test, dealt)

    @property
    def unseen(self) -> Tensor:
        """Numbers, among development rows, of those that have scores of a model that has not seen
        them: by these everything is chosen."""
        return (self.folds >= 0).nonzero().flatten()

    @property
    def sentence(self) -> str:
        """How choices are made."""
        members, rows = int(self.folds.max()) + 1, len(self.unseen)
        if members == 1:
            return f"chosen by {rows} validation rows"
        return (
            f"chosen by scores of {rows} rows, each by a model fitted on the other "
            f"{members - 1} of {members} folds"
        )

    def sample(self, most: int, seed: int = 0) -> Development:
        """At most so many rows, for quick trials: a fifth of the folds is left out, or, of few
        rows, each third in turn; given validation rows stay what they are."""
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(self.rows), generator=generator)[:most]
        folds = self.folds[order]
        if not bool((self.folds == -1).any()):
            few, members = len(self.rows) <= most, int(self.folds.max()) + 1
            out = max(1, round(members / 5))
            folds = folds % 3 if few else torch.where(folds < out, 0, -1)
        return Development(self.rows[order], folds, self.labels[order], self.test, folds)

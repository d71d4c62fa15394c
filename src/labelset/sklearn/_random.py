"""scikit-learn's random_state as a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from labelset import check

__all__ = ["seed_of"]


def seed_of(random_state: Any) -> int:
    """A whole number as it is; else one drawn from the generator, or from numpy's where None.

    >>> seed_of(7), seed_of(np.random.RandomState(0))
    (7, 209652396)
    """
    if isinstance(random_state, (int, np.integer)):
        return check.whole("random_state", int(random_state))
    return int(check_random_state(random_state).randint(2**31 - 1))

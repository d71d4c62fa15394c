"""Triton's kernels run in its interpreter here, which must be asked for before it is imported."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_collection_modifyitems(items):
    """The interpreter computes in NumPy, which warns where a GPU gives infinity and goes on."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning"))

"""Settings for all tests: one thread each, and the same random examples on every CI run.

Triton's kernels run in its interpreter, which must be asked for before anything imports Triton.
"""

import os
from pathlib import Path

os.environ.setdefault("TRITON_INTERPRET", "1")

import hypothesis
import pytest
import torch

KERNELS = {Path(__file__).parent / folder for folder in ("kernels", "linear")}

torch.set_num_threads(1)
hypothesis.settings.register_profile("here", deadline=None, max_examples=60)
hypothesis.settings.register_profile(
    "ci", deadline=None, max_examples=60, derandomize=True, print_blob=True
)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_modifyitems(items):
    """The interpreter computes in NumPy, which warns where a GPU gives infinity and goes on."""
    for item in items:
        if KERNELS & {*item.path.parents}:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning"))

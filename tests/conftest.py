"""Settings for all tests: one thread each, and the same random examples on every CI run."""

import os

import hypothesis
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile("here", deadline=None, max_examples=60)
hypothesis.settings.register_profile(
    "ci", deadline=None, max_examples=60, derandomize=True, print_blob=True
)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")

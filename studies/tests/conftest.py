"""One thread per test: trainings of a study are small, and several files run side by side."""

import torch

torch.set_num_threads(1)

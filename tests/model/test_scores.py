"""Scores from files, whole and in batches."""

import numpy as np
import pytest
import torch

from labelset.model import read_scores, score_batches

V = np.random.default_rng(0).normal(size=(70_000, 5)).astype(np.float32)


@pytest.mark.parametrize("kind", ["npy", "npz", "compressed", "named"])
def test_batches_are_the_whole(tmp_path, kind):
    path = tmp_path / ("v.npy" if kind == "npy" else "v.npz")
    if kind == "npy":
        np.save(path, V)
    elif kind == "named":
        np.savez(path, scores=V, other=np.zeros(3))
    else:
        (np.savez if kind == "npz" else np.savez_compressed)(path, V)
    parts = list(score_batches(path, memory=0))
    assert len(parts) > 1
    assert torch.equal(torch.cat(parts), torch.from_numpy(V))
    assert torch.equal(read_scores(path), torch.from_numpy(V))


def test_bad_scores_are_one_line(tmp_path):
    np.savez(tmp_path / "two.npz", a=V, b=V)
    (tmp_path / "no.npy").write_bytes(b"nothing")
    np.save(tmp_path / "nan.npy", np.full((3, 2), np.nan))
    for name, said in (("two.npz", "holds a, b"), ("no.npy", "damaged or"), ("nan.npy", "nan")):
        with pytest.raises(ValueError, match=rf"(?i){name}: .*{said}"):
            list(score_batches(tmp_path / name, memory=0))
        with pytest.raises(ValueError, match=rf"(?i){name}: .*{said}"):
            read_scores(tmp_path / name)

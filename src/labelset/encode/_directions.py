"""The first right singular vectors of sparse rows, by randomised methods, signs fixed."""

from __future__ import annotations

import torch
from torch import Tensor

from labelset.data import SparseRows, StoredSparse
from labelset.data._stored import blocks

__all__ = ["directions"]

MORE = 10
"""Directions beyond those wanted, which make these exact."""
ROUNDS = 4


def directions(x: SparseRows | StoredSparse, count: int, seed: int) -> Tensor:
    """(width, count): orthonormal, those that explain most of `x` first.

    >>> x = SparseRows.from_csr([0, 1, 2], [0, 2], width=3, values=[3.0, 1.0])
    >>> directions(x, 1, seed=0).flatten()
    tensor([1., 0., 0.])
    """
    limit = min(x.shape)
    if count > limit:
        raise ValueError(f"svd must be at most {limit}, the training texts or words, got {count}")
    q = min(count + MORE, limit)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(x, SparseRows):
            v = torch.svd_lowrank(_matrix(x), q=q, niter=ROUNDS)[2]
        else:
            v = _by_passes(x, q)
    v = v[:, :count]
    sign = v.gather(0, v.abs().argmax(0, keepdim=True)).sign()
    return (v * sign).contiguous()


def _by_passes(x: StoredSparse, q: int) -> Tensor:
    """Subspace iteration v <- qr(x^T x v), one pass over the rows each, then the eigenvectors of
    (x v)^T (x v): nothing of the size of the rows is held."""
    v = torch.linalg.qr(torch.randn(x.width, q))[0]
    for _ in range(ROUNDS + 1):
        y = torch.zeros_like(v)
        for block in blocks(x):
            matrix = _matrix(block)
            y += torch.sparse.mm(matrix.t(), torch.sparse.mm(matrix, v))
        v = torch.linalg.qr(y)[0]
    gram = torch.zeros(q, q, dtype=torch.float64)
    for block in blocks(x):
        reduced = (block @ v).double()
        gram += reduced.T @ reduced
    largest_first = torch.linalg.eigh(gram)[1].flip(1).float()
    found: Tensor = v @ largest_first
    return found


def _matrix(x: SparseRows) -> Tensor:
    places = torch.stack([x.rows(), x.indices.long()])
    return torch.sparse_coo_tensor(
        places, x.filled(), x.shape, is_coalesced=True, check_invariants=False
    )

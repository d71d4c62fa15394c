"""Proofs of what a head can and cannot produce: `verify`, and what it returns."""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.proofs._certify import independent
    from labelset.proofs.problem import distinct, read_matrix
    from labelset.proofs.verification import ProofFailed, Verification, verify
else:
    __getattr__, __dir__ = door(__name__)

__all__ = [
    "ProofFailed",
    "Verification",
    "distinct",
    "independent",
    "read_matrix",
    "verify",
]

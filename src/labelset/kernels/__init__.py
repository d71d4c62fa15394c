"""Kernels: value and gradient of a loss in one pass, written from its formula."""

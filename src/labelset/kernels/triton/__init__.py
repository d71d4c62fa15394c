"""Triton's kernels, for a GPU.

Files called `*_kernels`, `device_math`, `tile` and `scale` are code for the device, in Triton's
language, which is Python only to the eye: types are not checked there. The others launch it.
"""

"""A run as one file for other programs: ONNX, torch.export, safetensors."""

from labelset.export._check import ExportFailed
from labelset.export._graph import NotExportable
from labelset.export._onnx import to_onnx
from labelset.export._pipeline import Pipeline
from labelset.export._safetensors import to_safetensors
from labelset.export._torch import to_torch

__all__ = ["ExportFailed", "NotExportable", "Pipeline", "to_onnx", "to_safetensors", "to_torch"]

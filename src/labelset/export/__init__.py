"""A run as one file for other programs: ONNX, torch.export, safetensors."""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.export.check import ExportFailed
    from labelset.export.network import taken, tokeniser_of
    from labelset.export.onnx import NotExportable, beside, onnx_file, to_onnx
    from labelset.export.pipeline import Pipeline, begins
    from labelset.export.torch_files import safetensors_file, to_safetensors, to_torch, torch_file
else:
    __getattr__, __dir__ = door(__name__)


__all__ = [
    "ExportFailed",
    "NotExportable",
    "Pipeline",
    "begins",
    "beside",
    "onnx_file",
    "safetensors_file",
    "taken",
    "to_onnx",
    "to_safetensors",
    "to_torch",
    "tokeniser_of",
    "torch_file",
]

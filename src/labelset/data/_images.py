"""Pictures on disk -> one tensor, through pillow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset.data._optional import optional
from labelset.data._reading import BadFile, reading

__all__ = ["ENDINGS", "read"]

ENDINGS = ("png", "jpg", "jpeg", "bmp", "gif", "webp", "tif", "tiff", "ppm", "pgm")
GREY = ("1", "L", "LA", "I", "F", "I;16")


def read(files: Sequence[Path], size: int | None, mode: str | None) -> Tensor:
    """(rows, 1 or 3, height, width) uint8.

    Grey if every picture is (or `mode` = "L"), else colour; all of one size, or made `size` high
    and wide, whatever their shape was.
    """
    mode = mode or ("L" if all(_opened(file, None, None)[1] in GREY for file in files) else "RGB")
    first = _opened(files[0], size, mode)[0]
    out = np.empty((len(files), *first.shape), dtype=np.uint8)
    for at, file in enumerate(files):
        picture = first if at == 0 else _opened(file, size, mode)[0]
        if picture.shape != first.shape:
            (high, wide), (y, x) = picture.shape[:2], first.shape[:2]
            raise BadFile(
                f"{file}: is {wide} x {high} pixels, {files[0]} is {x} x {y}; "
                "give image_size to make all of them alike"
            )
        out[at] = picture
    stacked = torch.from_numpy(out)
    return stacked[:, None] if mode == "L" else stacked.permute(0, 3, 1, 2).contiguous()


def _opened(file: Path, size: int | None, mode: str | None) -> tuple[Any, str]:
    """(pixels, mode); without a mode only the head of the file is read."""
    image = optional("PIL.Image", "pictures")
    with reading(file):
        try:
            with image.open(file) as picture:
                if mode is None:
                    return None, picture.mode
                if picture.mode in ("I", "I;16", "F"):  # 16 bits and more: scaled, not cut off
                    picture = _scaled(picture, image)
                picture = picture.convert(mode)
                if size is not None:
                    picture = picture.resize((size, size), image.Resampling.BILINEAR)
                return np.asarray(picture, dtype=np.uint8), mode
        except (image.DecompressionBombError, SyntaxError) as error:
            raise ValueError(f"cannot be read as a picture ({error})") from None


def _scaled(picture: Any, image: Any) -> Any:
    values = np.asarray(picture, dtype=np.float64)
    top = 65535.0 if values.max(initial=0) > 255 else 255.0
    return image.fromarray(np.clip(values / top * 255, 0, 255).astype(np.uint8))

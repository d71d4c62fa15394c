"""Pictures on disk -> numbers, file by file, through pillow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset.data.reading import BadFile, reading
from labelset.data.store import ENTRIES
from labelset.files import optional

ENDINGS = ("png", "jpg", "jpeg", "bmp", "gif", "webp", "tif", "tiff", "ppm", "pgm")
GREY = ("1", "L", "LA", "I", "F", "I;16")


class Pictures:
    """Reads pictures that are all of one size, or makes them `size` high and wide."""

    def __init__(self, size: int | None, mode: str) -> None:
        self.size, self.mode = size, mode
        self._first: tuple[Path, tuple[int, ...]] | None = None

    def read(self, files: Sequence[Path]) -> Tensor:
        """(pictures, 1 or 3, height, width) uint8."""
        first, shape = self._like(files[0])
        out = np.empty((len(files), *shape), dtype=np.uint8)
        for at, file in enumerate(files):
            picture = _opened(file, self.size, self.mode)[0]
            if picture.shape != shape:
                (high, wide), (y, x) = picture.shape[:2], shape[:2]
                raise BadFile(
                    f"{file}: is {wide} x {high} pixels, {first} is {x} x {y}; "
                    "give image_size to make all of them alike"
                )
            out[at] = picture
        stacked = torch.from_numpy(out)
        return stacked[:, None] if self.mode == "L" else stacked.permute(0, 3, 1, 2).contiguous()

    def blocks(self, files: Iterable[Path]) -> Iterator[Tensor]:
        """The same, so many at a time as are in memory together."""
        rest = iter(files)
        for first in rest:
            yield self.read([first, *islice(rest, self.together(first) - 1)])

    def together(self, file: Path) -> int:
        """How many pictures like this one are in memory together."""
        return max(1, 16 * ENTRIES // math.prod(self._like(file)[1]))

    def _like(self, file: Path) -> tuple[Path, tuple[int, ...]]:
        """The picture that all others must be like, and its shape."""
        if self._first is None:
            self._first = file, _opened(file, self.size, self.mode)[0].shape
        return self._first


def mode_of(files: Iterable[Path]) -> str:
    """Grey if every picture is, else colour; only the heads of the files are read."""
    return "L" if all(_opened(file, None, None)[1] in GREY for file in files) else "RGB"


def why_not(file: Path) -> str | None:
    """Why a picture cannot be read; None where it can."""
    if not file.is_file():
        return f"no picture {file}"
    try:
        _opened(file, None, "RGB")
    except ValueError as error:
        return str(error)
    return None


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

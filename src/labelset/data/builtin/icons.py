"""Icons and the words of their names."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labelset import check
from labelset.catalog import hyper
from labelset.data.builtin import Builtin
from labelset.data.dataset import Dataset
from labelset.data.duplicates import input_groups
from labelset.data.reading import reading
from labelset.data.split import stratified_split
from labelset.files import folder_of, optional
from labelset.labels import Labels

FONT = "materialdesignicons6-webfont-"


@dataclass(frozen=True, kw_only=True)
class Icons(Builtin):
    """The 7,000 Material Design icons in qtawesome's font, rendered in grey.

    The labels are the words of an icon's name ("account-box-outline" has three) that are in at
    least `least` names: one is in 1,900, most are in a few dozen. Icons without such a word stay,
    with no label on. Parts are stratified; pictures that look the same are in the same part.
    """

    seed: int = hyper(0, "of the parts")
    size: int = hyper(32, "pixels, each way")
    least: int = hyper(20, "words in fewer names are no labels")

    def __post_init__(self) -> None:
        for name, low in (("seed", 0), ("size", 8), ("least", 1)):
            check.whole(name, getattr(self, name), low=low)

    def make(self) -> Dataset:
        """(rows, 1, size, size) uint8 images and their labels."""
        font, codes = _font()
        names = sorted(codes)
        pictures = _rendered(font, [codes[name] for name in names], self.size)
        words = [sorted(set(name.split("-"))) for name in names]
        often = Counter(word for row in words for word in row)
        kept = sorted(word for word, count in often.items() if count >= self.least)
        number = {word: at for at, word in enumerate(kept)}
        labels = Labels.from_lists(
            [[number[w] for w in row if w in number] for row in words], n=len(kept)
        )
        images = torch.from_numpy(pictures[:, None])
        notes = [f"{font.name} of qtawesome, words in at least {self.least} names"]
        card = {"source": "icons", "notes": notes}
        data = Dataset(labels=labels, names=kept, images=images, ids=names, card=card)
        split = stratified_split(labels, seed=self.seed, groups=input_groups(data))
        return replace(data, split=split)


def _font() -> tuple[Path, dict[str, str]]:
    """The font file and the letter of each icon; the package needs Qt and is not imported."""
    folder = folder_of("qtawesome", "icons") / "fonts"
    fonts, maps = sorted(folder.glob(f"{FONT}*.ttf")), sorted(folder.glob(f"{FONT}*.json"))
    if not fonts or not maps:
        raise ValueError(
            f"{folder}: no {FONT}*.ttf with its charmap; qtawesome 1.3.1 or newer has it"
        )
    with reading(maps[0]):
        table: dict[str, str] = json.loads(maps[0].read_text())
        return fonts[0], {name: chr(int(code, 16)) for name, code in table.items()}


def _rendered(font: Path, letters: list[str], size: int) -> np.ndarray[Any, Any]:
    """(letters, size, size) uint8, white on black."""
    image, draw, fonts = (
        optional(f"PIL.{m}", "icons") for m in ("Image", "ImageDraw", "ImageFont")
    )
    face = fonts.truetype(str(font), size)
    out = np.zeros((len(letters), size, size), dtype=np.uint8)
    for at, letter in enumerate(letters):
        picture = image.new("L", (size, size))
        draw.Draw(picture).text((size / 2, size / 2), letter, fill=255, font=face, anchor="mm")
        out[at] = np.asarray(picture)
    return out

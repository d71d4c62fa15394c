"""Picture embeddings by a pretrained network on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from labelset.data import Dataset
from labelset.encode._pretrained import Pretrained, model_folder, network

WHAT = "a vision encoder"


@dataclass(kw_only=True, eq=False)
class Vision(Pretrained):
    """What a network such as ViT or ResNet makes of a picture, pooled, standardised.

    Pictures are made as large as the network wants them, (x / 255 - mean) / std by its
    `preprocessor_config.json`, grey ones repeated to three channels. The network is read from a
    folder with `config.json` and weights, or from an installed package that holds one; nothing is
    fetched. It is not trained further.
    """

    name = "vision"
    reads = ("images",)

    def _embedded(self, dataset: Dataset) -> Tensor:
        if dataset.images is None:
            raise ValueError(f"{WHAT} needs images, and the data set has none")
        folder = model_folder(self.model, WHAT)
        (model,) = network(folder, WHAT, "AutoModel")
        look = _Look(folder, model.config)
        with torch.no_grad():
            starts = range(0, len(dataset), self.batch)
            images = [dataset.images[at : at + self.batch] for at in starts]
            pooled = [_pooled(model.eval()(look(part))) for part in images]
        return torch.cat(pooled)


class _Look:
    """Pictures as a network wants to see them."""

    def __init__(self, folder: Path, config: Any) -> None:
        file = folder / "preprocessor_config.json"
        settings = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        size: Any = (
            settings.get("crop_size") or settings.get("size") or config.to_dict().get("image_size")
        )
        if isinstance(size, dict):
            size = size.get("height") or size.get("shortest_edge")
        self.size = int(size or 224)
        self.mean, self.std = (
            torch.tensor(settings.get(key) or [0.5] * 3)[:, None, None]
            for key in ("image_mean", "image_std")
        )

    def __call__(self, images: Tensor) -> Tensor:
        x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
        x = x.expand(-1, 3, -1, -1) if x.shape[1] == 1 else x
        x = interpolate(x, (self.size, self.size), mode="bilinear", antialias=True)
        return (x - self.mean) / self.std


def _pooled(out: Any) -> Tensor:
    """(rows, width): the network's own pooling, else the mean over places."""
    pooled: Tensor | None = getattr(out, "pooler_output", None)
    if pooled is not None:
        return pooled.flatten(1).float()
    states: Tensor = out.last_hidden_state.float()
    return states.mean(1) if states.ndim == 3 else states.flatten(2).mean(2)

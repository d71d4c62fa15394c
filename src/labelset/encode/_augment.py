"""Pictures changed by chance, so that a network does not learn them by heart."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import affine_grid, avg_pool2d, grid_sample, pad

AUGMENT = ("flip", "flip-vertical", "crop", "randaugment", "colour", "cutout")
CHANGES = (
    *("none", "rotate", "shear across", "shear down", "move across", "move down"),
    *("brightness", "contrast", "saturation", "sharpness", "solarise", "posterise", "stretch"),
)
"""Of RandAugment."""
TIMES, STRENGTH = 2, 0.3
"""Changes of a picture, and how strong they are: 9 of 30, as for ImageNet."""
GREY = (0.299, 0.587, 0.114)
"""Of red, green and blue."""


class Augment(nn.Module):
    """Pictures (rows, channels, height, width) of 0 to 1, each changed in its own way.

    flip, flip-vertical  mirrored, one time in two;  crop  moved by up to an eighth
    randaugment          two of 13 changes of place or colour, all as strong (Cubuk et al., 2020)
    colour               brightness and contrast by up to a fifth
    cutout               a square of a quarter of the width, grey
    """

    def __init__(self, what: list[str]) -> None:
        super().__init__()
        self.what = what

    def forward(self, x: Tensor) -> Tensor:
        for word, axis in (("flip", 3), ("flip-vertical", 2)):
            if word in self.what:
                x = torch.where(_each(_drawn(x)) < 0.5, x.flip(axis), x)
        if "crop" in self.what:
            x = _moved(x)
        if "randaugment" in self.what:
            for _ in range(TIMES):
                x = _changed(x)
        if "colour" in self.what:
            bright, contrast = (0.8 + 0.4 * _each(_drawn(x)) for _ in range(2))
            mean = x.mean((1, 2, 3), keepdim=True)
            x = (x - mean) * contrast + mean * bright
        return _cut_out(x) if "cutout" in self.what else x


def _moved(x: Tensor) -> Tensor:
    """By up to an eighth; what comes in at an edge is like the edge."""
    n, _, h, w = x.shape
    edge = max(1, h // 8), max(1, w // 8)
    wide = pad(x, (edge[1], edge[1], edge[0], edge[0]), mode="replicate")
    top, left = (
        (_drawn(x) * (2 * e + 1)).long()[:, None] + torch.arange(size, device=x.device)
        for e, size in zip(edge, (h, w), strict=True)
    )
    rows = torch.arange(n, device=x.device)[:, None, None]
    return wide.movedim(1, 3)[rows, top[:, :, None], left[:, None, :]].movedim(3, 1)


def _cut_out(x: Tensor) -> Tensor:
    """Without a square somewhere."""
    inside = []
    for size in x.shape[-2:]:
        centre = (_drawn(x) * size)[:, None]
        inside.append((torch.arange(size, device=x.device) - centre).abs() < size / 8)
    hole = inside[0][:, :, None] & inside[1][:, None, :]
    return x.masked_fill(hole[:, None], 0.5)


def _changed(x: Tensor) -> Tensor:
    """One of CHANGES of each picture; all are worked out together, so that nothing waits for what
    was drawn."""
    which = (_drawn(x) * len(CHANGES)).long()
    is_ = {name: which == at for at, name in enumerate(CHANGES)}
    by = torch.where(_drawn(x) < 0.5, -STRENGTH, STRENGTH)
    return _coloured(_placed(x, is_, by), is_, by).clamp(0, 1)


def _placed(x: Tensor, is_: dict[str, Tensor], by: Tensor) -> Tensor:
    """Turned by up to 30 degrees, sheared by up to .3, moved by up to .45 of a side, times `by`."""
    zero = torch.zeros_like(by)
    turn = torch.where(is_["rotate"], by * math.radians(30), zero)
    across, down = (torch.where(is_[f"shear {way}"], 0.3 * by, zero) for way in ("across", "down"))
    right, low = (torch.where(is_[f"move {way}"], 0.9 * by, zero) for way in ("across", "down"))
    high_wide = x.shape[2] / x.shape[3]
    first = torch.stack([turn.cos(), across - turn.sin() * high_wide, right], 1)
    second = torch.stack([down + turn.sin() / high_wide, turn.cos(), low], 1)
    grid = affine_grid(torch.stack([first, second], 1), list(x.shape), align_corners=False)
    moved = grid_sample(x, grid.to(x.dtype), padding_mode="reflection", align_corners=False)
    still = (first[:, 1:] == 0).all(1) & (second[:, ::2] == 0).all(1)
    return torch.where(_each(still), x, moved)


def _coloured(x: Tensor, is_: dict[str, Tensor], by: Tensor) -> Tensor:
    """Away from, or towards, what has no light, contrast, colour or edges; or bent."""
    weights = GREY if x.shape[1] == 3 else (1 / x.shape[1],) * x.shape[1]
    grey = sum((w * x[:, at : at + 1] for at, w in enumerate(weights)), torch.zeros_like(x[:, :1]))
    plain = torch.zeros_like(x)
    for name, without in (
        ("contrast", grey.mean((2, 3), keepdim=True)),
        ("saturation", grey),
        ("sharpness", avg_pool2d(pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1)),
    ):
        plain = torch.where(_each(is_[name]), without, plain)
    mixed = is_["brightness"] | is_["contrast"] | is_["saturation"] | is_["sharpness"]
    x = torch.where(_each(mixed), plain + (x - plain) * (1 + 0.9 * _each(by)), x)
    x = torch.where(_each(is_["solarise"]) & (x > 1 - STRENGTH), 1 - x, x)
    steps = 2.0 ** round(8 - 4 * STRENGTH)
    x = torch.where(_each(is_["posterise"]), (x * (steps - 1)).round() / (steps - 1), x)
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    stretched = (x - low) / (high - low).clamp(min=1e-6)
    return torch.where(_each(is_["stretch"]), stretched, x)


def _drawn(x: Tensor) -> Tensor:
    return torch.rand(len(x), device=x.device)


def _each(of_rows: Tensor) -> Tensor:
    """To go with pictures."""
    return of_rows[:, None, None, None]

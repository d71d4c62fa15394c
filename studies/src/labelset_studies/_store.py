"""The folder of a study: every finished cell a line, and the same as a tidy CSV."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset_studies._cell import Cell

CELLS, RESULTS = "cells.jsonl", "results.csv"
COLUMNS = (
    *("claim", "table", "data", "missing", "candidate", "seed", "trial"),
    *("stage", "metric", "value", "seconds"),
)


@dataclass(frozen=True, eq=False)
class Done:
    """What a cell left: values, resamples of the rows, seconds, or why it failed."""

    values: dict[str, float]
    drawn: dict[str, Tensor]
    seconds: float
    failed: str = ""

    def line(self, cell: Cell) -> bytes:
        """JSON; resamples are kept as how far they are off the value, which needs few digits."""
        told = {
            "cell": cell.id,
            "what": str(cell),
            "seconds": round(self.seconds, 3),
            "failed": self.failed,
            "values": self.values,
            "drawn": {name: _packed(t - self.values[name]) for name, t in self.drawn.items()},
        }
        return json.dumps(told).encode() + b"\n"

    @classmethod
    def read(cls, told: dict[str, Any]) -> Done:
        """What `line` wrote."""
        values = told["values"]
        drawn = {name: _unpacked(text) + values[name] for name, text in told["drawn"].items()}
        return cls(values, drawn, told["seconds"], told["failed"])


class Store:
    """Finished cells by id, on disk as soon as they are done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.done: dict[str, Done] = {}
        path = folder / CELLS
        whole = 0
        for line in path.read_bytes().splitlines(keepends=True) if path.is_file() else ():
            if not line.endswith(b"\n"):
                break  # cut off by a kill
            told = json.loads(line)
            self.done[told["cell"]] = Done.read(told)
            whole += len(line)
        self._file = path.open("ab")
        self._file.truncate(whole)
        _cut_to_whole_lines(folder / RESULTS)

    def is_left(self, cell: Cell) -> bool:
        """Whether a cell is not done, or failed."""
        return cell.id not in self.done or bool(self.done[cell.id].failed)

    def add(self, cell: Cell, done: Done, claim: int) -> None:
        """Keep a cell; it is on disk when this returns."""
        line = done.line(cell)
        done = Done.read(json.loads(line))  # what a later sitting will find, to the last digit
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())
        self.done[cell.id] = done
        path = self.folder / RESULTS
        text = csv_bytes(COLUMNS, tidy(cell, done, claim), head=not path.is_file())
        with path.open("ab") as file:
            file.write(text)

    def rows_of(self, cell: Cell, claim: int) -> list[dict[str, Any]]:
        """Its rows of the CSV; none where it is not done."""
        return tidy(cell, self.done[cell.id], claim) if cell.id in self.done else []

    def close(self) -> None:
        """No more cells."""
        self._file.close()


def _cut_to_whole_lines(path: Path) -> None:
    """Take away what a kill, or a full disk, has left of a last line."""
    if path.is_file() and (text := path.read_bytes()) and not text.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(text.rfind(b"\n") + 1)


def tidy(cell: Cell, done: Done, claim: int) -> list[dict[str, Any]]:
    """One row per metric; a cell that failed has one that says why."""
    same = {
        "claim": claim,
        "table": cell.table,
        "data": cell.data,
        "missing": f"{cell.missing:g}",
        "candidate": cell.candidate.name,
        "seed": cell.seed,
        "seconds": f"{done.seconds:.2f}",
        "trial": "" if cell.trial is None else cell.trial + 1,
    }
    if done.failed:
        return [{**same, "stage": "failed", "metric": done.failed, "value": ""}]
    rows = []
    for name, value in done.values.items():
        stage, _, metric = name.partition(" ")
        rows.append({**same, "stage": stage, "metric": metric, "value": f"{value:.6g}"})
    return rows


def csv_bytes(columns: Iterable[str], rows: Iterable[dict[str, Any]], head: bool = True) -> bytes:
    """CSV text."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    if head:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _packed(t: Tensor) -> str:
    return base64.b64encode(t.numpy().astype("<f2").tobytes()).decode()


def _unpacked(text: str) -> Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), "<f2").astype(np.float64))

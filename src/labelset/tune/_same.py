"""Which search it is: trials are shared by calls that mean the same, and by no others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labelset.data import Dataset
from labelset.train import Settings

__all__ = ["Search"]

FREE = ("device", "loss_settings")
"""What does not tell searches apart: where a trial is made, and what it tries."""


@dataclass(frozen=True)
class Search:
    """All that the value of a trial depends on, besides what it tries."""

    facts: dict[str, Any]

    @classmethod
    def of(
        cls, dataset: Dataset, optimise: str, settings: Settings, space: Mapping[str, Any]
    ) -> Search:
        """Data (with their split), metric, settings of training with the seed, and the space."""
        held = {key: fact for key, fact in settings.as_json().items() if key not in FREE}
        about = {"data": dataset.fingerprint(), "metric": optimise, "space": space, **held}
        return cls(json.loads(json.dumps(about)))

    @property
    def name(self) -> str:
        """Of the study: loss, metric, and a hash of everything."""
        key = hashlib.sha256(json.dumps(self.facts, sort_keys=True).encode()).hexdigest()
        return f"{self.facts['loss']}-{self.facts['metric']}-{key[:16]}"

    def check_alone(self, path: Path) -> None:
        """A folder holds one search, of which the file there tells."""
        if not path.is_file():
            return
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            study, other = held.get("study"), dict(held.get("search", {}))
        except (ValueError, TypeError, AttributeError):
            raise ValueError(f"{path}: is damaged; delete it, and the search goes on") from None
        if not other:
            raise ValueError(
                f"{path}: was written by another version of labelset, and does not say of which "
                "search; choose another folder, or delete it to search anew in this one"
            )
        if study == self.name:
            return
        unlike = {key: fact for key, fact in other.items() if self.facts.get(key) != fact}
        raise ValueError(
            f"{path.parent}: holds another search ({self._told(unlike)}); choose another folder"
        )

    def _told(self, unlike: Mapping[str, Any]) -> str:
        """In what the searches differ; the space follows from the loss."""
        if "data" in unlike:
            return "of other data"
        shown = [key for key in unlike if key != "space"] or list(unlike)
        return ", ".join(f"{key} {unlike[key]!r}, not {self.facts.get(key)!r}" for key in shown)

"""Settings of what a parameter names, set and searched one by one: `loss__gamma_neg`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

__all__ = ["NamedParts"]


class NamedParts:
    """For an estimator with parameters such as `loss` (a name) and `loss_params` (its settings).

    To stand before BaseEstimator among the base classes.
    """

    _parts: ClassVar[tuple[str, ...]]
    """The parameters that name something with settings."""

    def set_params(self, **params: Any) -> Self:
        """As usual; `loss__gamma=1` sets one entry of `loss_params`."""
        inner = {key: value for key, value in params.items() if self._within(key)}
        super().set_params(**{k: v for k, v in params.items() if k not in inner})  # type: ignore[misc]
        for key, value in inner.items():
            part, _, entry = key.partition("__")
            held = getattr(self, f"{part}_params") or {}
            setattr(self, f"{part}_params", held | {entry: value})
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """As usual; `deep` also gives the entries of `loss_params`, one by one."""
        held: dict[str, Any] = super().get_params(deep=deep)  # type: ignore[misc]
        return held | (dict(self._entries()) if deep else {})

    def _within(self, key: str) -> bool:
        part, inside, _ = key.partition("__")
        return bool(inside) and part in self._parts

    def _entries(self) -> Iterator[tuple[str, Any]]:
        for part in self._parts:
            held = getattr(self, f"{part}_params")
            for entry in held if isinstance(held, dict) else ():
                yield f"{part}__{entry}", held[entry]

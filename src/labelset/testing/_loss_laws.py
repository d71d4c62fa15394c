"""The laws of losses, by name, and `check_loss`, which holds a loss to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from labelset.testing import _backend_laws, _link_laws, _machine_laws, _value_laws
from labelset.testing._cases import hold_to

__all__ = ["LOSS_LAWS", "check_loss"]

LOSS_LAWS: dict[str, Callable[[Any], None]] = {
    law.__name__: law
    for law in (
        _value_laws.gradient,
        _value_laws.unknown,
        _value_laws.row_order,
        _value_laws.reductions,
        _value_laws.soft_labels,
        _value_laws.epochs,
        _value_laws.nothing_known,
        _value_laws.finite,
        _value_laws.confident_miss,
        _value_laws.limits,
        _value_laws.sparse,
        _value_laws.label_types,
        _machine_laws.precision,
        _machine_laws.autocast,
        _machine_laws.compiled,
        _machine_laws.functional,
        _machine_laws.refuses,
        _backend_laws.implementations,
        _link_laws.link,
        _link_laws.properness,
    )
}


def check_loss(loss: Any, laws: Iterable[str] | None = None) -> None:
    """Hold a loss to the laws, all or those named; the first that is broken raises `LawBroken`."""
    hold_to(LOSS_LAWS, laws, loss, type(loss).__name__)

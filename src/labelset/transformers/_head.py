"""The classifier of a model swapped for one of our heads, and such a model loaded again."""

from __future__ import annotations

from typing import Any

import transformers
from torch import nn
from transformers import AutoConfig, PreTrainedModel

from labelset import heads
from labelset.heads import Head
from labelset.transformers._config import KEY, held

__all__ = ["from_pretrained", "swap_head"]

HUB = {"cache_dir", "revision", "token", "subfolder", "local_files_only", "force_download"}
"""Settings that say where files are, and so hold for the config, too."""
DAMAGE = (AttributeError, KeyError, TypeError, ValueError)
USUAL = ("classifier", "score", "out_proj", "head", "dense", "fc", "logits_proj", "summary")
"""How models call their last layer, or the last word of it."""


def swap_head(model: Any, name: str = "dft", *, at: str | None = None, **settings: Any) -> Head:
    """Replace the model's last linear layer by a head of the catalogue, in place.

    The layer is found by its width (`config.num_labels`) and its name; `at` names it where that
    is not enough. Features and labels need no stating. `config.labelset` then says what was put
    where, so that `from_pretrained` of this module builds the same model again.

    >>> from transformers import BertConfig, BertForSequenceClassification
    >>> small = BertConfig(vocab_size=20, hidden_size=16, num_hidden_layers=1, num_labels=50,
    ...                    num_attention_heads=2, intermediate_size=16)
    >>> swap_head(BertForSequenceClassification(small), "dft", k=3).matrix()[0].shape
    torch.Size([50, 7])
    """
    at = _place(model, model.config.num_labels) if at is None else at
    head = _put(model, at, name, settings)
    kept = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in settings.items()}
    kept.pop("order", None)  # a tensor of the model, saved with the others
    about = {**held(model.config), "head": {"name": name, "at": at, "settings": kept}}
    setattr(model.config, KEY, about)
    model.config.problem_type = "multi_label_classification"
    return head


def from_pretrained(path: Any, cls: type | None = None, **settings: Any) -> Any:
    """The model that `save_pretrained` wrote, with the head that its config says.

    `cls` is the class of the model, that of `config.architectures` if None. Settings are those of
    transformers' own `from_pretrained`.
    """
    config = settings.pop("config", None)
    if config is None:
        config = AutoConfig.from_pretrained(path, **{k: settings[k] for k in HUB & set(settings)})
    cls = _class_in(config, path) if cls is None else cls
    model = _with_head(cls).from_pretrained(path, config=config, **settings)  # type: ignore[attr-defined]
    for module in model.modules():
        if isinstance(module, Head):
            # the fixed part of a head is in no file, and loading leaves it as it found it
            module.to(next(module.parameters()).device)
    model.__class__ = cls
    return model


def _class_in(config: Any, path: Any) -> type:
    names = getattr(config, "architectures", None) or [""]
    cls = getattr(transformers, str(names[0]), None)
    if not (isinstance(cls, type) and issubclass(cls, PreTrainedModel)):
        raise ValueError(f"{path}: the config names no model that transformers has; give `cls`")
    return cls


def _with_head(cls: type) -> type:
    """The class of model whose last layer is the head that its config says."""

    def build(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__(self, config, *args, **kwargs)  # type: ignore[misc]
        about = held(config).get("head")
        if about is None:
            return
        try:
            _put(self, about["at"], about["name"], about["settings"])
        except DAMAGE as error:
            raise ValueError(f"config.labelset describes no head of this model: {error}") from None

    return type(cls.__name__, (cls,), {"__init__": build, "__module__": cls.__module__})


def _put(model: Any, at: str, name: str, settings: dict[str, Any]) -> Head:
    old = model.get_submodule(at)
    features, labels = _sizes(old, at)
    head = heads.build(name, features=features, labels=labels, **settings)
    weight = next(old.parameters())
    head.to(device=weight.device, dtype=weight.dtype)
    parent, _, last = at.rpartition(".")
    setattr(model.get_submodule(parent), last, head)
    return head


def _sizes(old: Any, at: str) -> tuple[int, int]:
    if isinstance(old, Head):
        return old.settings["features"], old.settings["labels"]
    if isinstance(old, nn.Linear):
        return old.in_features, old.out_features
    raise ValueError(f"{at} must be a linear layer, got {type(old).__name__}; name another with at")


def _place(model: Any, labels: int) -> str:
    """The name of the last layer."""
    known = [name for name, m in model.named_modules() if isinstance(m, Head)]
    if known:
        return str(known[-1])
    found = [
        name
        for name, m in model.named_modules()
        if isinstance(m, nn.Linear) and m.out_features == labels
    ]
    outside = [name for name in found if not name.startswith(f"{model.base_model_prefix}.")]
    usual = [name for name in outside or found if name.rpartition(".")[2] in USUAL]
    for names in (outside, usual, found):
        if len(names) == 1:
            return str(names[0])
    raise ValueError(
        f"cannot tell which layer gives the {labels} scores: {found or 'none has that width'}; "
        'name it, such as at="classifier"'
    )

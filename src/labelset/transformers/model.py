"""What a model's scores mean, its head, and the pipeline that answers with label sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers
from torch import nn
from transformers import (
    AutoConfig,
    AutoTokenizer,
    Pipeline,
    PreTrainedModel,
    TextClassificationPipeline,
)

from labelset import heads
from labelset.decide import Rule
from labelset.heads import Head
from labelset.losses import describe_loss, read_loss
from labelset.model import Predictor

KEY = "labelset"


def store(model: Any, loss: Any = None, map: Any = None, rule: Any = None) -> Predictor:
    """Write the loss, the map to probabilities and the rule into `model.config`.

    `save_pretrained` then saves them, and `labelset.transformers.pipeline` uses them. Without a
    map, probabilities are the link of the loss; without a rule, a label is on from 0.5.
    """
    loss = read_loss(loss)
    means = Predictor.of(loss, map, rule)
    _refuse_joint_rule(means.rule)
    about = {**written(model.config), "loss": describe_loss(loss), "predictor": means.as_json()}
    setattr(model.config, KEY, about)
    model.config.problem_type = "multi_label_classification"
    return means


def predictor(model: Any) -> Predictor:
    """What `store` wrote; of a model of which nothing is written, an error."""
    about = written(model.config)
    if "predictor" not in about:
        raise ValueError(
            "the model's config does not say what its scores mean; write it with "
            "labelset.transformers.store(model, loss=..., map=..., rule=...)"
        )
    return Predictor.from_json(about["predictor"])


def _refuse_joint_rule(rule: Rule) -> None:
    if not rule.row_by_row:
        raise ValueError(
            f"the rule {rule.name!r} decides for many rows together, and rows that come one at a "
            "time cannot be decided so; fit it, or take another, such as 'per-class'"
        )


def written(config: Any) -> dict[str, Any]:
    """What labelset has written into a config."""
    about = getattr(config, KEY, None)
    return dict(about) if about else {}


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
    about = {**written(model.config), "head": {"name": name, "at": at, "settings": kept}}
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
        about = written(config).get("head")
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


class LabelSetPipeline(TextClassificationPipeline):  # type: ignore[misc, unused-ignore]
    """Texts to the labels that are on, most probable first, each with its probability.

    Probabilities and decisions are those of `labelset.transformers.store`. `top_k=3` gives the
    three most probable labels instead, whatever the thresholds, `top_k=None` all of them.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)  # type: ignore[no-untyped-call]
        self.predictor = predictor(self.model)

    def _sanitize_parameters(
        self, function_to_apply: Any = None, top_k: Any = "", **settings: Any
    ) -> Any:
        if function_to_apply is not None:
            raise ValueError(
                "function_to_apply is not taken: the model's config says what its scores mean; "
                "for another function use transformers' own pipeline"
            )
        after = {} if top_k == "" else {"top_k": top_k}
        return settings, {}, after

    def __call__(self, inputs: Any, *args: Any, **settings: Any) -> Any:
        """A list of labels for one text, a list of these for many."""
        # past its parent, which puts the answer for one text into a list of its own
        return Pipeline.__call__(self, inputs, *args, **settings)  # type: ignore[no-untyped-call]

    def postprocess(  # type: ignore[override]
        self, model_outputs: Any, top_k: Any = ""
    ) -> list[dict[str, Any]]:
        """The labels of one text."""
        p = self.predictor.probabilities(model_outputs["logits"].float())
        wanted = p[0].argsort(descending=True, stable=True).tolist()
        if top_k == "":
            on = set(self.predictor.decide(p).indices.tolist())
            wanted = [j for j in wanted if j in on]
        elif top_k is not None:
            wanted = wanted[:top_k]
        names: Any = self.model.config.id2label
        return [{"label": names[j], "score": float(p[0, j])} for j in wanted]


def pipeline(model: Any, tokenizer: Any = None, **settings: Any) -> LabelSetPipeline:
    """A pipeline of a model and its tokenizer, or of the folder (or name) where both are.

    Other settings are those of `transformers.TextClassificationPipeline`.
    """
    if isinstance(model, (str, Path)):
        tokenizer = AutoTokenizer.from_pretrained(model) if tokenizer is None else tokenizer
        model = from_pretrained(model)
    if isinstance(tokenizer, (str, Path)):
        tokenizer = AutoTokenizer.from_pretrained(tokenizer)
    if tokenizer is None:
        raise ValueError("a model needs its tokenizer: pipeline(model, tokenizer)")
    return LabelSetPipeline(model=model, tokenizer=tokenizer, **settings)

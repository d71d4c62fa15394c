"""A text pipeline that answers with label sets: the link and the thresholds are the model's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, Pipeline, TextClassificationPipeline

from labelset.transformers._config import meaning
from labelset.transformers._head import from_pretrained

__all__ = ["LabelSetPipeline", "pipeline"]


class LabelSetPipeline(TextClassificationPipeline):  # type: ignore[misc, unused-ignore]
    """Texts to the labels that are on, most probable first, each with its probability.

    Probabilities and decisions are those of `labelset.transformers.store`. `top_k=3` gives the
    three most probable labels instead, whatever the thresholds, `top_k=None` all of them.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)  # type: ignore[no-untyped-call]
        self.meaning = meaning(self.model)

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
        p = self.meaning.probabilities(model_outputs["logits"].float())
        wanted = p[0].argsort(descending=True, stable=True).tolist()
        if top_k == "":
            on = set(self.meaning.rule(p).indices.tolist())
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

"""A network that was trained with its head, as a graph: from tokens or pixels to what it gives."""

from __future__ import annotations

import copy
import io
import logging
import warnings
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from labelset.data import Schema
from labelset.encode import Encoder
from labelset.export.check import ExportFailed, far_probabilities, judge
from labelset.export.pipeline import Pipeline
from labelset.files import optional
from labelset.model import SavedModel

ROWS, TOKENS = 3, 7
CLOSE = 1e-4
"""How far a logit may be off, over 1 and the largest of its row: both add up in float32."""
TEXT = ("input_ids", "attention_mask")


class Begun(nn.Module):
    """Tokens or pixels to features, or, where the head takes tokens or patches, to scores.

    The network is a copy, with the forms of its operations that graphs know.
    """

    def __init__(self, run: SavedModel) -> None:
        super().__init__()
        self.encoder = cast(Encoder, run.encoder)
        self.reads_texts = self.encoder.table() is not None
        network: Any = copy.deepcopy(self.encoder.module)
        self.network = network.eval().requires_grad_(False)
        inner: Any = getattr(network, "inner", None)
        if hasattr(inner, "merge_and_unload"):
            inner = network.inner = inner.merge_and_unload()
        if hasattr(inner, "set_attn_implementation"):
            inner.set_attn_implementation("eager")
        self.head = None
        if run.head is not None and run.head.places:
            self.head = copy.deepcopy(run.head).eval().requires_grad_(False)
        self.shape: tuple[int, ...] = () if self.reads_texts else _picture(run)
        if self.encoder.name == "vision":  # resizing becomes two products
            across, down = (_resizing(size, network.side) for size in self.shape[:0:-1])
            network.resized = lambda x: down @ x @ across.T

    @property
    def names(self) -> tuple[str, ...]:
        """Of its inputs."""
        return TEXT if self.reads_texts else ("images",)

    def forward(self, *given: Tensor) -> Tensor:
        if self.reads_texts:
            ids, mask = given
            ids = torch.where(mask > 0, ids, -1)
            first = torch.where(mask.sum(1) > 0, ids[:, 0], 0)  # a text without any token
            ids = torch.cat([first[:, None], ids[:, 1:]], 1)
            pooled = getattr(self.network, "pooled", self.network)
            out: Tensor = pooled(ids)
        else:
            out = getattr(self.network, "features", self.network)(given[0])
        return out if self.head is None else self.head(out)

    def sample(self, rows: int, seed: int) -> tuple[Tensor, ...]:
        """Random inputs."""
        g = torch.Generator().manual_seed(seed)
        if not self.reads_texts:
            return (torch.randint(256, (rows, *self.shape), generator=g, dtype=torch.uint8),)
        table: Any = self.encoder.table()
        ids = torch.randint(table.num_embeddings - 1, (rows, TOKENS), generator=g)
        lengths = torch.randint(1, TOKENS + 1, (rows, 1), generator=g)
        return ids, (torch.arange(TOKENS) < lengths).long()


def _picture(run: SavedModel) -> tuple[int, ...]:
    """Channels, height and width."""
    saved = run.about.get("schema")
    shape = None if saved is None else Schema.from_json(saved).picture
    if shape is None:
        raise ValueError("cannot export the network: the run does not say what pictures it saw")
    return tuple(shape)


def _resizing(size: int, side: int) -> Tensor:
    """(side, size): pixels to those of a picture of another size, as the network itself does it."""
    if size == side:
        return torch.eye(size)
    one = interpolate(torch.eye(size)[None, None], (side, size), mode="bilinear", antialias=True)
    return one[0, 0]


def taken(run: SavedModel) -> str:
    """What goes into such a graph, in words."""
    if tokeniser_of(run) is not None:
        return "input_ids and attention_mask (int64) of texts, by the tokenizer.json beside"
    size = " x ".join(map(str, _picture(run)))
    return f"images (uint8) of {size}: channels, height, width"


def tokeniser_of(run: SavedModel) -> bytes | None:
    """A tokenizer.json that cuts and fills texts up as the network takes them."""
    encoder = run.encoder
    if encoder is None or encoder.table() is None:
        return None
    package = optional("tokenizers", "tokens of texts", extra="encode")
    held = package.Tokenizer.from_str(encoder.learnt["tokeniser"].numpy().tobytes().decode())
    length = int(encoder.length)  # type: ignore[attr-defined]
    held.enable_truncation(min(length, int(encoder.facts.get("places", length))))
    held.enable_padding()
    return bytes(held.to_str().encode())


def graph_of(begun: Begun, opset: int, ir: int) -> Any:
    """As an ONNX model, by torch's tracing exporter."""
    onnx = optional("onnx", "ONNX files", "onnx")
    given, file = begun.sample(ROWS, 0), io.BytesIO()
    own = {0: "rows"} | ({1: "tokens"} if begun.reads_texts else {})
    axes = dict.fromkeys(begun.names, own)
    level = logging.getLogger("torch.onnx").level
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of shapes that are taken as they are, and of itself
            torch.onnx.export(
                begun.eval(),
                given,
                file,  # type: ignore[arg-type]
                dynamo=False,
                opset_version=opset,
                input_names=[*begun.names],
                output_names=["given"],
                dynamic_axes=axes | {"given": {0: "rows"}},
            )
    except Exception as error:  # of any operation that it knows no form of
        raise ExportFailed(f"torch finds no graph for the network: {error}") from error
    finally:
        logging.getLogger("torch.onnx").setLevel(level)
    model = onnx.load_from_string(file.getvalue())
    model.ir_version = ir
    compose = optional("onnx.compose", "ONNX files", "onnx")
    return compose.add_prefix(model, "network/", rename_inputs=False, rename_outputs=False)


def joined(first: Any, second: Any) -> Any:
    """The network's graph and what comes behind it, as one."""
    behind = second.graph.input[0].name
    compose = optional("onnx.compose", "ONNX files", "onnx")
    return compose.merge_models(first, second, io_map=[("given", behind)])


@torch.no_grad()
def compare_network(
    run: SavedModel, begun: Begun, pipeline: Pipeline, exported: Any, seed: int
) -> None:
    """ExportFailed unless random texts or pictures have the run's logits, to rounding, and from
    them its probabilities and decisions."""
    for rows in (32, 1):
        given = begun.sample(rows, seed)
        got = dict(zip(pipeline.outputs, exported(*given), strict=True))
        inputs = given[0] if not begun.reads_texts else torch.where(given[1] > 0, given[0], -1)
        features = cast(nn.Module, cast(Encoder, run.encoder).module).eval()(inputs)
        due = run.scorer().of_features(features)
        off = (due.double() - got["logits"].double()).abs()
        judge("logits", ~(off <= CLOSE * (1 + due.abs().amax(1, keepdim=True))))
        judge("probabilities", far_probabilities(run, got["logits"], got["probabilities"]))
        if "decisions" in got:
            sets = run.predictor.decide(got["probabilities"]).dense() == 1
            judge("decisions", sets != got["decisions"])

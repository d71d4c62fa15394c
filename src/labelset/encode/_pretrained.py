"""Pretrained networks: where they are found, which of their layers learn, and how they are kept."""

from __future__ import annotations

import re
import socket
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from os import fspath
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from labelset import check
from labelset.catalog import hyper
from labelset.data import Dataset
from labelset.data.store import spooled
from labelset.encode._base import Encoder, Inputs, moments, standardised, through
from labelset.files import optional


def model_folder(model: str, what: str) -> str:
    """The folder with config.json; `model` names it, one above it, or a package that holds it.

    A name such as owner/model is left to Hugging Face.
    """
    if not model:
        raise ValueError(f"{what} needs `model`: a folder with config.json, or a package")
    path = Path(model)
    if path.is_file():
        raise ValueError(f"{model}: is a file; name the folder that holds config.json and weights")
    if not path.is_dir():
        package = model.replace("-", "_")  # as packages are called that are installed
        spec = find_spec(package) if package.isidentifier() else None
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not places and model[0] not in "./~" and model.count("/") == 1 and model[-1] != "/":
            return model
        if not places:
            raise ValueError(f"{model}: neither a folder nor an installed package")
        path = Path(places[0])
    configs = sorted(path.rglob("config.json"), key=lambda file: len(file.parts))
    if not configs:
        raise ValueError(f"{path}: holds no config.json, so no {what.removeprefix('a ')}")
    return str(configs[0].parent)


def downloaded(model: str, what: str, *kinds: str) -> list[Any]:
    """Objects of these kinds of transformers, such as AutoModel, in float32."""
    package = optional("transformers", f"{what.removeprefix('a ')}s", extra="encode")
    place = model_folder(model, what)
    local = Path(place).is_dir() or not _reachable()
    try:
        with _quiet(package):
            return [_read(getattr(package, kind), place, local) for kind in kinds]
    except Exception as error:  # files that are not as they should be raise anything
        if not Path(place).is_dir() and (local or isinstance(error, OSError)):
            how = "is not reached from here" if local else "has no model of that name"
            raise ValueError(
                f"{model}: no folder, and the hub {how}; give a folder with config.json, "
                "weights and tokeniser"
            ) from None
        reason = " ".join(str(error).split())
        if "trust_remote_code" in reason:
            reason = "it comes with code of its own, which is not run"
        if "backend tokenizer" in reason:
            reason = "it has no tokenizer.json; networks for pictures are vision:model=FOLDER"
        raise ValueError(f"{place}: cannot be read as {what}: {reason}") from None


def _read(kind: Any, place: str, local: bool) -> Any:
    """Weights that are not in the files would be random, and code in them is not run."""
    given: dict[str, Any] = {"local_files_only": local, "trust_remote_code": False}
    if kind.__name__ != "AutoModel":
        return kind.from_pretrained(place, **given)
    given |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
    network, found = kind.from_pretrained(place, **given)
    absent = {*found["missing_keys"], *(name for name, *_ in found["mismatched_keys"])}
    absent = {name for name in absent if not name.startswith("pooler.")}  # see without_pooler
    if absent:
        raise ValueError(
            f"{len(absent)} of its weights, such as {min(absent)}, are not in its files, or not "
            "of the size that config.json says"
        )
    return network.float()


def _reachable() -> bool:
    """Whether the hub's name is known here or to a proxy; else asking takes most of a minute."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, 443)
    except OSError:
        return bool(getproxies())
    return True


@contextmanager
def _quiet(package: Any) -> Iterator[None]:
    """Without bars of its own, and reports of layers that are not needed."""
    log = package.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def described(config: Any) -> dict[str, Any]:
    """A configuration as JSON, for `rebuilt`."""
    plain: dict[str, Any] = config.to_diff_dict()
    plain["model_type"] = config.model_type
    return {k: v for k, v in plain.items() if k not in ("auto_map", "dtype", "_name_or_path")}


def rebuilt(config: Mapping[str, Any]) -> nn.Module:
    """The network that a configuration describes, its numbers being random."""
    package = optional("transformers", "pretrained networks", extra="encode")
    kind = config.get("model_type")
    if kind not in package.CONFIG_MAPPING:
        raise ValueError(f"this version of transformers knows no networks of type {kind!r}")
    rest = {key: value for key, value in config.items() if key != "model_type"}
    built = package.AutoModel.from_config(package.AutoConfig.for_model(kind, **rest))
    return without_pooler(built.float())


def without_pooler(network: nn.Module) -> nn.Module:
    """A layer behind the last one that is of no use here, and would have no gradient."""
    if isinstance(getattr(network, "pooler", None), nn.Module) and hasattr(network, "embeddings"):
        network.pooler = None  # type: ignore[assignment]
    return network


def depths(network: nn.Module) -> tuple[dict[str, int], int]:
    """Of each parameter the layer that it is in, and how many layers there are.

    Layers are what is numbered in the names of parameters, up to the first number, in the order in
    which they stand. What comes before the first one is in layer -1, what comes after one in that.

    >>> depths(nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)))
    ({'0.weight': 0, '1.weight': 1}, 2)
    """
    found: dict[str, int] = {}
    seen: dict[str, int] = {}
    for name, _ in network.named_parameters():
        if numbered := re.match(r"(?:.*?\.)??\d+(?=\.)", name):
            found[name] = seen.setdefault(numbered[0], len(seen))
        else:
            found[name] = len(seen) - 1
    return found, len(seen)


@contextmanager
def _parameters(most: int) -> Iterator[None]:
    """ValueError where more parameters are made: a description may ask for a billion layers."""
    made = 0

    def count(*_: Any) -> None:
        nonlocal made
        made += 1
        if made > most:
            raise ValueError("the network's description asks for far more than its file holds")

    counting = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        counting.remove()


class Network(nn.Module):
    """A pretrained network, and what makes features of what it gives.

    In training, parts that are not trained are as in evaluation: they drop nothing, and statistics
    of batch norms stay as they are.
    """

    def __init__(self, inner: nn.Module, dropout: float, places: bool) -> None:
        super().__init__()
        self.inner, self.places = inner, places
        self.dropout = nn.Dropout(dropout)

    def train(self, mode: bool = True) -> Self:
        """As every module, but for what is not trained."""
        super().train(mode)
        for part in self.inner.modules():
            trained = [p.requires_grad for p in part.parameters()]
            if mode and trained and not any(trained):
                part.eval()
        return self


@dataclass(kw_only=True, eq=False)
class Pretrained(Encoder):
    """Subclasses say what rows are to the network, and how it comes from and goes to a file."""

    model: str = hyper("", "a folder with config.json, an installed package, or a name of the hub")
    layers: int | None = hyper(
        None, "how many layers are trained, the last ones; 0: none, features are computed once"
    )
    lora: int = hyper(0, "train corrections of this rank (LoRA), the network's own weights staying")
    rate: float = hyper(0.04, "learning rate of the last layer over that of the head")
    decay: float = hyper(0.8, "learning rate of a layer over that of the next one")
    places: bool = hyper(False, "give each token or patch, for the head label-attention")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model = fspath(self.model)
        if self.layers is not None:
            check.whole("layers", self.layers)
        check.whole("lora", self.lora)
        if self.lora and self.layers is not None:
            raise ValueError("lora trains corrections in all layers: leave out layers, or lora")
        if self.places and not self.learns:
            raise ValueError("places is for networks that are trained: leave out layers=0")
        check.number("rate", self.rate, low=0.0, open_low=True)
        check.number("decay", self.decay, low=0.0, high=1.0, open_low=True)
        self._frozen: nn.Module | None = None

    @property
    def network(self) -> nn.Module | None:
        """The network, once it is there."""
        return self.module if self.learns else self._frozen

    def _set(self, network: nn.Module | None) -> None:
        """Take a network, and note which of its parameters are trained."""
        assert network is not None
        self.module, self._frozen = (network, None) if self.learns else (None, network)
        layer, count = depths(network)
        if self.layers and not count:
            raise ValueError(f"{self.model}: has no numbered layers; leave out layers, or layers=0")
        first = -1 if self.layers is None else count - self.layers
        for name, p in network.named_parameters():
            corrects = not self.lora or ".lora_" in name
            p.requires_grad_(layer[name] >= first and self.learns and corrects)

    def corrected(self, inner: nn.Module) -> nn.Module:
        """With LoRA's corrections (Hu et al., 2022) beside its matrices, where they are wanted."""
        if not self.lora:
            return inner
        peft = optional("peft", "LoRA", extra="lora")
        every = [name for name, part in inner.named_modules() if isinstance(part, nn.Linear)]
        how = peft.LoraConfig(r=self.lora, lora_alpha=2 * self.lora, target_modules=every)
        with warnings.catch_warnings():  # it asks transformers by names that are to go
            warnings.simplefilter("ignore", FutureWarning)
            made: nn.Module = peft.get_peft_model(inner, how)
        return made

    @property
    def learns(self) -> bool:
        return self.layers != 0

    @property
    def device(self) -> str:
        """On the GPU where there is one."""
        return "cuda" if torch.cuda.is_available() else "cpu"

    @property
    def costly(self) -> bool:  # type: ignore[override]
        """Features of a network that is not trained."""
        return not self.learns

    @abstractmethod
    def load(self) -> nn.Module:
        """The pretrained network, from a batch of inputs to (rows, width); facts are noted."""

    @abstractmethod
    def rows(self, dataset: Dataset) -> Inputs:
        """What the network takes."""

    def fit(self, train: Dataset) -> Self:
        self.facts, self.learnt = {}, {}
        self._set(self.load())
        if not self.learns:
            self.learnt |= moments(self._embedded(train))
        return self

    def rates(self) -> dict[str, float]:
        assert self.network is not None
        layer, count = depths(self.network)
        return {name: self.rate * self.decay ** (count - 1 - at) for name, at in layer.items()}

    def prepare(self, dataset: Dataset) -> Inputs:
        if self.learns:
            return self.rows(dataset)
        x = self._embedded(dataset)
        return standardised(x, self.learnt["mean"], self.learnt["deviation"])

    def _embedded(self, dataset: Dataset) -> Tensor:
        """(rows, width) of a network that is not trained."""
        if dataset.on_disk:
            parts: Iterator[Tensor] = (self._embedded(part) for part in dataset.blocks())
            held: Tensor = spooled(parts, 0)
            return held
        rows = self.rows(dataset)
        assert self.network is not None
        features: Tensor = through(self.network, rows, self.device, 1 << 62)
        return features

    @property
    def nbytes(self) -> int:
        inner = [] if self.network is None else self.network.parameters()
        return sum(p.numel() * p.element_size() for p in inner)

    # ---- in files -------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        inner = {} if self.network is None else self.network.state_dict()
        return self.learnt | {f"network.{name}": t.detach() for name, t in inner.items()}

    def restore(self, facts: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        """Be what wrote these; what is in the file must be what the facts describe."""
        self.facts = dict(facts)
        inner = {name: t for name, t in state.items() if name.startswith("network.")}
        self.learnt = {name: t for name, t in state.items() if name not in inner}
        weights = {name.removeprefix("network."): t for name, t in inner.items()}
        with torch.device("meta"), _parameters(2 * len(weights) + 100):
            self._fits(weights, self.make())  # so a crafted description takes no memory
        network = self.make()
        assert network is not None
        network.load_state_dict(weights)
        self._set(network)
        return self

    def _fits(self, weights: Mapping[str, Tensor], empty: nn.Module | None) -> None:
        assert empty is not None
        wanted = {name: tuple(t.shape) for name, t in empty.state_dict().items()}
        got = {name: tuple(t.shape) for name, t in weights.items()}
        if wanted != got:
            odd = sorted(k for k in {*wanted, *got} if wanted.get(k) != got.get(k))[0]
            raise ValueError(f"{odd} of the network is not as its description says")
        inside = sum(t.numel() for t in weights.values())
        if sum(b.numel() for b in empty.buffers()) > 4 * inside + 1_000_000:
            raise ValueError("the network's description asks for far more than its file holds")

"""Settings for all tests: one thread each, and the same random examples on every CI run.

Triton's kernels run in its interpreter, which must be asked for before anything imports Triton.
Of files that run side by side, those that take long go first, so that none is waited for at the
end.
"""

import gc
import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

os.environ.setdefault("TRITON_INTERPRET", "1")

import hypothesis
import pytest
import torch

from labelset.runs import blend, search
from labelset.runs.search import EFFORT
from labelset.train import members

KERNELS = {Path(__file__).parent / folder for folder in ("kernels", "linear")}

LONG = [
    *("runs/test_search.py", "data/test_bounded_memory.py", "losses/test_laws.py"),
    *("distributed/test_ranks.py", "cli/test_torchrun.py", "train/test_ranks.py"),
    *("distributed/test_labels.py", "packaging/test_wheel.py", "kernels/test_batch_losses.py"),
    *("testing/test_planted.py", "kernels/test_pairs.py", "packaging/test_site.py"),
    *("report/test_sizes.py", "keras/test_carried.py", "runs/test_distil.py"),
    *("model/test_damaged.py", "runs/test_blend.py", "model/test_one_answer.py"),
    *("test_pages.py", "sklearn/test_checks.py", "kernels/test_entries.py"),
    *("cli/test_conventions.py", "runs/test_finetune.py", "train/test_safe_killed.py"),
    *("runs/test_compare.py", "train/test_members.py", "data/test_on_disk.py"),
    *("transformers/test_ranks.py", "testing/test_map_laws.py", "linear/test_linear.py"),
    *("data/test_short_rows.py", "cli/test_training.py", "sklearn/test_classifier.py"),
    *("cli/test_new_rows.py", "kernels/test_native.py", "linear/test_fused.py"),
]
"""Files of tests, the longest first."""

torch.set_num_threads(1)
multiprocessing.set_forkserver_preload(
    ["labelset.metrics.ranking", "labelset.proofs"]
)  # imported once
hypothesis.settings.register_profile("here", deadline=None, max_examples=60)
hypothesis.settings.register_profile(
    "ci", deadline=None, max_examples=60, derandomize=True, print_blob=True
)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(scope="session", autouse=True)
def usual_effort():
    """What a search takes. In tests it takes less of all that repeats itself, which is most of its
    time: fewer folds, trees, steps of networks, and deals of the nested test."""
    usual, for_shape = {**EFFORT}, members.for_shape

    def few_steps(*shape):
        settings = for_shape(*shape)
        return replace(settings, width=min(settings.width, 64), epochs=min(settings.epochs, 15))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "for_shape", few_steps)
        patch.setattr(search, "nested", partial(blend.nested, repeats=2))
        for name in ("quick", "normal"):
            patch.setitem(EFFORT, name, replace(EFFORT[name], folds=(3, 4), trees=8))
        yield usual


@pytest.fixture(scope="module")
def left_by_ranks(tmp_path_factory):
    """Where ranks leave what they found: those that a program starts, or what it runs under."""

    def run(program, *under, checks=()):
        folder = tmp_path_factory.mktemp("ranks")
        ended = subprocess.run(
            [sys.executable, *under, str(program), str(folder), *checks],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        return folder

    return run


WORDS = [
    "red",
    "green",
    "blue",
    "small",
    "large",
    "apple",
    "fork",
    "spoon",
    "table",
    "chair",
    "the",
    "a",
    "of",
    "with",
    "and",
]


@pytest.fixture(scope="session")
def text_model(tmp_path_factory):
    """A folder with a tiny transformer for texts, and its tokeniser."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("text-model")
    vocabulary = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    inner.enable_padding()  # as some are saved; it must not matter
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def picture_model(tmp_path_factory):
    """A folder with a tiny transformer for pictures of 16 x 16."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("picture-model")
    config = transformers.ViTConfig(
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=16,
        patch_size=8,
    )
    torch.manual_seed(0)
    transformers.ViTModel(config).save_pretrained(folder)
    look = {"image_mean": [0.4] * 3, "image_std": [0.2] * 3, "size": {"height": 16, "width": 16}}
    (folder / "preprocessor_config.json").write_text(json.dumps(look))
    return folder


def pytest_collection_modifyitems(items):
    """Long files first. Triton's interpreter computes in NumPy, which warns of infinity."""
    place = {Path(__file__).parent / name: at for at, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(LONG)))
    for item in items:
        if KERNELS & {*item.path.parents}:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning"))


def pytest_collection_finish():
    """What is there by now stays there: it need not be looked through for garbage again."""
    gc.collect()
    gc.freeze()

"""What tests of transformers share: a tiny model, its rows, its tokenizer; nothing is fetched."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def small():
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    spec = importlib.util.spec_from_file_location("small", Path(__file__).parent / "small.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tokenizer(small):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "apple", "bread", "cup", "dog", "egg", "fork", "goat", "hat", "ink"]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]")

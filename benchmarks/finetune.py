"""Rows per second of fine-tuning: labelset's loop, a bare one, and Hugging Face's Trainer.

    python benchmarks/finetune.py [--shapes 32x64 512x128] [--layers 6 --width 384]
        [--labels 100] [--steps 50] [--repeats 3] [--device cuda] [--precision bfloat16]
        [--out FILE]

A shape is rows of a batch x tokens of each text. All three train the same network, made here with
random weights (by default as large as MiniLM), with binary cross-entropy and AdamW, in the same
precision, on the same token ids, by turns; the best of the repeats counts. The bare loop is what
one writes by hand: the network, a mean over tokens, a linear layer, one step after the other, its
ids on the device beforehand. Tokenising is left out of all three.
"""

import argparse
import csv
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from labelset import encode
from labelset.data import Dataset
from labelset.train import Settings, train

WORDS = [f"w{i}" for i in range(5_000)]
COLUMNS = ("rows", "tokens", "device", "precision", "way", "rows_per_second", "of_bare")


def network_folder(folder, layers, width, places):
    """A transformer with random weights, and a tokeniser with one token a word."""
    import tokenizers
    import transformers

    vocabulary = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=max(1, width // 32),
        intermediate_size=4 * width,
        max_position_embeddings=places,
    )
    torch.manual_seed(0)
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(folder)


def dataset(rows, tokens, labels, steps):
    """Texts of equal length, and random labels."""
    g = torch.Generator().manual_seed(0)
    words = torch.randint(len(WORDS), (rows * steps, tokens - 2), generator=g).tolist()
    texts = [" ".join(WORDS[i] for i in row) for row in words]
    y = torch.rand(len(texts), labels, generator=g) < 0.05
    return Dataset.from_arrays(None, y, texts=texts, split=[0] * len(texts))


def synchronised(device):
    """The time, once the device has done what it was told to."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Plain(nn.Module):
    """The network as one writes it by hand."""

    def __init__(self, encoder, labels):
        super().__init__()
        self.inner = encoder.module.inner
        self.head = nn.Linear(encoder.facts["width"], labels)
        self.dropout = nn.Dropout(0.1)

    def forward(self, input_ids, attention_mask, labels=None):
        states = self.inner(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask[..., None]
        logits = self.head(self.dropout((states * mask).sum(1) / mask.sum(1)))
        if labels is None:
            return logits
        return {"loss": nn.functional.binary_cross_entropy_with_logits(logits, labels)}


def bare(data, encoder, ids, args, rows):
    """Rows per second of the loop by hand, after a few steps."""
    model = Plain(encoder, args.labels).to(args.device).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    y = data.labels.dense().to(args.device)
    ids, mask = (t.to(args.device) for t in (ids.long(), torch.ones_like(ids, dtype=torch.long)))
    narrow = args.precision == "bfloat16"

    def steps(some):
        for at in some:
            batch = slice(at * rows, (at + 1) * rows)
            with torch.autocast(args.device, torch.bfloat16, enabled=narrow):
                loss = model(ids[batch], mask[batch], y[batch])["loss"]
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()

    steps(range(min(3, args.steps)))
    began = synchronised(args.device)
    steps(range(args.steps))
    return rows * args.steps / (synchronised(args.device) - began)


def ours(data, encoder, ids, args, rows):
    """Of labelset's loop: of its second epoch, which loads nothing."""
    settings = Settings(
        epochs=2, batch=rows, lr=1e-3, device=args.device, precision=args.precision,
        optimiser="adamw", monitor=None,
    )  # fmt: skip
    done = train(data, settings, encoder=encoder, parts=())
    return len(data) / done.history[-1]["seconds"]


def trainer(data, encoder, ids, args, rows):
    """Of Hugging Face's Trainer, by its own clock, after a run that warms up."""
    import transformers

    model = Plain(encoder, args.labels)
    y = data.labels.dense()
    mask = torch.ones_like(ids[0], dtype=torch.long)
    held = [{"input_ids": ids[i].long(), "attention_mask": mask, "labels": y[i]}
            for i in range(len(ids))]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            folder, per_device_train_batch_size=rows, num_train_epochs=1, report_to=[],
            use_cpu=args.device == "cpu", bf16=args.precision == "bfloat16", disable_tqdm=True,
            save_strategy="no", logging_strategy="no", optim="adamw_torch_fused",
        )  # fmt: skip
        for _ in range(2):
            made = transformers.Trainer(model=model, args=settings, train_dataset=held)
            seconds = made.train().metrics["train_runtime"]
    return len(ids) / seconds


WAYS = {"bare": bare, "labelset": ours, "trainer": trainer}


def measured(shape, args):
    """Rows per second of each way."""
    rows, tokens = map(int, shape.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        network_folder(folder, args.layers, args.width, max(tokens, 64))
        data = dataset(rows, tokens, args.labels, args.steps)
        best = dict.fromkeys(WAYS, 0.0)
        for _ in range(args.repeats):
            for way, measure in WAYS.items():
                encoder = encode.build("transformer", model=folder, length=tokens).fit(data)
                ids = encoder.prepare(data)
                best[way] = max(best[way], measure(data, encoder, ids, args, rows))
    for way, speed in best.items():
        facts = [rows, tokens, args.device, args.precision, way]
        yield [*facts, f"{speed:.1f}", f"{speed / best['bare']:.3f}"]


def main():
    """Print and write a line for each way and shape."""
    usual = "cuda" if torch.cuda.is_available() else "cpu"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=["32x64", "512x128"])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default=usual)
    parser.add_argument("--precision", default="bfloat16" if usual == "cuda" else "float32")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    lines = []
    for shape in args.shapes:
        for line in measured(shape, args):
            print("  ".join(f"{cell!s:>9}" for cell in line), flush=True)
            lines.append(line)
    if args.out:
        with args.out.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *lines])


if __name__ == "__main__":
    main()

"""Hugging Face transformers: a tiny BERT with a DFT head, its thresholds in its config.

Nothing is fetched: model and tokenizer are made here. Run it: python examples/hf_trainer.py
"""

import tempfile
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    TrainingArguments,
)

import labelset as ls
from labelset.transformers import MultiLabelTrainer, pipeline, store, swap_head

WORDS = ["apple", "bread", "cup", "dog", "egg", "fork", "goat", "hat"]


def tokens() -> PreTrainedTokenizerFast:
    """A tokenizer of ten words."""
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["[PAD]", "[UNK]", *WORDS])}))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]")


def rows(count: int, seed: int, tokenizer: Any) -> list[dict[str, Any]]:
    """Texts of four words; the labels are the words that occur, a tenth of them unknown (NaN)."""
    g = torch.Generator().manual_seed(seed)
    said = torch.randint(0, len(WORDS), (count, 4), generator=g)
    labels = torch.zeros(count, len(WORDS)).scatter(1, said, 1.0)
    labels[torch.rand(labels.shape, generator=g) < 0.1] = torch.nan
    texts = [" ".join(WORDS[i] for i in row) for row in said]
    return [
        {"input_ids": tokenizer(text)["input_ids"], "labels": row}
        for text, row in zip(texts, labels, strict=True)
    ]


def main() -> dict[str, float]:
    """Train with accumulation, choose thresholds, save, answer."""
    torch.manual_seed(0)
    tokenizer = tokens()
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
            num_labels=len(WORDS),
            id2label=dict(enumerate(WORDS)),
            initializer_range=0.1,  # so small a model starts too flat otherwise
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    swap_head(model, "dft", k=3)
    valid = rows(100, seed=2, tokenizer=tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        trainer = MultiLabelTrainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                num_train_epochs=12,
                per_device_train_batch_size=20,
                gradient_accumulation_steps=2,
                learning_rate=0.005,
                report_to=[],
                disable_tqdm=True,
                logging_strategy="no",
                save_strategy="no",
                use_cpu=True,
            ),
            train_dataset=rows(400, seed=1, tokenizer=tokenizer),
            loss="spa",
            metrics=["map@class", "f1-micro", "ece"],
        )
        trainer.train()
        found = trainer.evaluate(rows(100, seed=3, tokenizer=tokenizer))

        scores = torch.tensor(trainer.predict(valid).predictions)
        p = ls.losses.build("spa").link(scores)
        rule = ls.decide.build("per-class").fit(p, torch.stack([row["labels"] for row in valid]))
        store(model, loss="spa", rule=rule)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        print(pipeline(folder)("apple fork apple dog"))
    return {key.removeprefix("eval_"): value for key, value in found.items()}


if __name__ == "__main__":
    print(main())

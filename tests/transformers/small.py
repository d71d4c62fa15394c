"""A tiny model, rows for it, and one run of a Trainer; under torchrun, the runs of every rank."""

import os
import sys
import tempfile
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import labelset.transformers as lt

LABELS = 6
RUNS = {  # name: loss, Trainer, whether labels are unknown here and there
    "entries": ("spa", "plain", True),
    "rows": ("spa+lpr", "ours", True),
    "columns": ("sigmoid-f1", "ours", True),
    "both": ("two-way", "ours", True),
}
ONCE = {"whole, plain": ("two-way", "plain", True)}


def model(dropout=0.0, **settings):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        num_labels=LABELS,
        problem_type="multi_label_classification",
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        **settings,
    )
    return BertForSequenceClassification(config)


def rows(unknown=False, count=24):
    """Every row has a label on; unknown ones are dealt out unevenly."""
    g = torch.Generator().manual_seed(1)
    x = torch.randint(0, 30, (count, 8), generator=g)
    y = (torch.rand(count, LABELS, generator=g) < 0.4).float()
    y[torch.arange(count), torch.arange(count) % LABELS] = 1.0
    if unknown:
        often = torch.rand(count, 1, generator=g)
        y[torch.rand(count, LABELS, generator=g) < often] = torch.nan
    return [{"input_ids": a, "labels": b} for a, b in zip(x, y, strict=True)]


def trainer(kind, batch, accumulate, *, unknown=False, loss=None, dropout=0.0, **settings):
    """A Trainer of 24 rows by plain gradient descent, so that scale shows."""
    given = {key: settings.pop(key) for key in list(settings) if hasattr(TrainingArguments, key)}
    args = TrainingArguments(
        output_dir=f"{tempfile.gettempdir()}/labelset-trainer",  # nothing is written there
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulate,
        **{
            "num_train_epochs": 1,
            "learning_rate": 0.5,
            "lr_scheduler_type": "constant",
            "optim": "sgd",
            "max_grad_norm": 0.0,
            "report_to": [],
            "use_cpu": True,
            "disable_tqdm": True,
            "logging_steps": 1,
            "save_strategy": "no",
            "dataloader_pin_memory": False,
            **given,
        },
    )
    if kind == "ours":
        settings["loss"] = loss
    elif loss is not None:
        settings["compute_loss_func"] = lt.compute_loss_func(loss)
        settings.setdefault("data_collator", lt.collator())
    cls = lt.MultiLabelTrainer if kind == "ours" else Trainer
    settings = {"train_dataset": rows(unknown), "model": model(dropout), **settings}
    return cls(args=args, **settings)


def trained(*args, **settings):
    """The parameters after training, and the loss of each step."""
    made = trainer(*args, **settings)
    made.train()
    return weights(made.model), [x["loss"] for x in made.state.log_history if "loss" in x]


def weights(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def evaluated(**settings):
    """Loss and metrics over 24 rows of which some labels are unknown."""
    settings = {
        "metrics": ["map@class", "f1-micro", "nll"],
        "per_device_eval_batch_size": 3,
    } | settings
    found = trainer("ours", 4, 1, loss="spa", eval_dataset=rows(True), **settings).evaluate()
    return {key: found[f"eval_{key}"] for key in ("loss", "map@class", "f1-micro", "nll")}


def main(folder):
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    found = {}
    for name, (loss, kind, unknown) in RUNS.items():
        found[name] = trained(kind, 3, 2, loss=loss, unknown=unknown)
    for name, (loss, kind, unknown) in ONCE.items():
        found[name] = trained(kind, 6, 1, loss=loss, unknown=unknown)
    found["evaluated"] = evaluated()
    torch.save(found, Path(folder) / f"{os.environ['RANK']}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])

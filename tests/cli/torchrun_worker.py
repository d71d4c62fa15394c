"""Runs several commands on every rank that torchrun started, each as one call of `main`."""

import json
import os
import sys
from pathlib import Path

import torch

from labelset.cli import main


def run(commands, out, rank):
    torch.set_num_threads(1)
    ended = []
    for command in commands:
        if rank == "0":
            print(f"=== {command[0]}", flush=True)
        ended.append(main(command))
    Path(out, f"{rank}.json").write_text(json.dumps(ended))


if __name__ == "__main__":
    run(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2], os.environ["RANK"])

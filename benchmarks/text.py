"""Speed of TF-IDF features against scikit-learn's, on two cores, in one run.

    python benchmarks/text.py reuters21578.jsonl.gz debtags.jsonl.gz ...

Features are words (1-2) beside characters inside words (2-5), learnt from the training rows and
made of all rows. scikit-learn runs its two vectorizers in two processes, which start before the
clock does and send back what they made. Both are timed in turn, the best time counts, and
vocabularies and weights are compared. Seconds of processor (`cpu`) are those of all threads and
processes, and do not depend on who else uses the machine.
Prints, and writes to benchmarks/text.csv, one row per data set.
"""

import argparse
import csv
import platform
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import sklearn
import torch
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer

from labelset import encode
from labelset.data import Dataset, load

USUAL = {"sublinear_tf": True, "max_features": 200_000, "dtype": np.float32}
KINDS = {
    "words": {"analyzer": "word", "ngram_range": (1, 2), "min_df": 2},
    "characters": {"analyzer": "char_wb", "ngram_range": (2, 5), "min_df": 3},
}


def by_scikit_learn(kind: str, train: list[str], every: list[str]):
    """Terms of the training texts, features of all texts, and seconds of processor."""
    start = time.process_time()
    made = TfidfVectorizer(**KINDS[kind], **USUAL).fit(train)
    x = made.transform(every)
    return list(made.get_feature_names_out()), x, time.process_time() - start


def measure(path: str, repeat: int, pool) -> dict[str, object]:
    """Seconds of both, and how far apart what they give is."""
    data: Dataset = load(path)
    train = data.part("train")
    texts = list(train.texts), list(data.texts)
    theirs, ours = [], []
    for _ in range(repeat):
        start = time.perf_counter()
        made = pool.starmap(by_scikit_learn, [(kind, *texts) for kind in KINDS])
        theirs.append((time.perf_counter() - start, sum(cpu for *_, cpu in made)))
        start, cpu = time.perf_counter(), time.process_time()
        coder = encode.build("tfidf").fit(train)
        fit = time.perf_counter() - start
        x = coder(data)
        ours.append((time.perf_counter() - start, time.process_time() - cpu, fit))
    for kind, (terms, *_) in zip(KINDS, made, strict=True):
        assert coder.terms(kind) == terms, kind
    due = hstack([x for _, x, _ in made], format="csr")
    due.sort_indices()
    assert np.array_equal(due.indices, x.indices.numpy())
    (their_seconds, their_cpu), (seconds, cpu, fit) = (
        [min(one) for one in zip(*runs, strict=True)] for runs in (theirs, ours)
    )
    return {
        "data": Path(path).name.split(".")[0],
        "rows": len(data),
        "megabytes": round(sum(map(len, texts[1])) / 1e6, 1),
        "terms": x.width,
        "stored": len(x.indices),
        "scikit_learn_s": round(their_seconds, 2),
        "labelset_s": round(seconds, 2),
        "of_which_fit_s": round(fit, 2),
        "times": round(their_seconds / seconds, 1),
        "scikit_learn_cpu_s": round(their_cpu, 2),
        "labelset_cpu_s": round(cpu, 2),
        "times_cpu": round(their_cpu / cpu, 1),
        "largest_difference": float(np.abs(due.data - x.values.numpy()).max()),
        "threads": torch.get_num_threads(),
        "sklearn": sklearn.__version__,
        "machine": platform.machine(),
    }


def main() -> None:
    """Measure every file and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", default=str(Path(__file__).with_suffix(".csv")))
    args = parser.parse_args()
    torch.set_num_threads(2)
    lines = []
    with get_context("spawn").Pool(2) as pool:
        pool.map(abs, [0, 0])
        for path in args.files:
            lines.append(measure(path, args.repeat, pool))
            print(*(f"{key} {value}" for key, value in lines[-1].items()), sep="  ", flush=True)
    with open(args.out, "w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()

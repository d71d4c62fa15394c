"""What one node of 8 GPUs and 100 nodes would do for 3 million labels and a billion rows: on paper.

    python benchmarks/scale.py            prints the tables of docs/distributed.md, "On paper"

Nothing is measured here. Every number follows from the assumptions below by the formulas in
`collectives` and `step`.
"""

import math
from dataclasses import dataclass

LABELS, ROWS, FEATURES = 3_000_000, 1_000_000_000, 768
ENCODER, TOKENS = 110e6, 128  # weights of the encoder, tokens per row (BERT-base, short texts)

PEAK, USED = 989e12, 0.40  # H100 and H200 SXM: bfloat16 operations per second; the share reached
MEMORY, HBM = 141e9, 4.8e12  # H200: bytes, and bytes per second (H100: 80e9, 3.35e12)
NVLINK = 0.8 * 450e9  # bytes per second and direction within a node, at 80 % of the wire
NETWORK = 0.8 * 50e9  # per GPU between nodes: one 400 Gbit/s InfiniBand port each, at 80 %
HOP_NEAR, HOP_FAR = 3e-6, 10e-6  # seconds until a message is there; a collective has log2(p) hops
PER_NODE = 8
ADAM = 28  # bytes moved per weight and step: read w, g, m, v and write w, m, v, in float32
STATE = 16  # bytes held per weight: w, g, m, v


@dataclass
class Collective:
    """One exchange per step: `sent` bytes per GPU if every link were equal, and what hides it."""

    name: str
    size: float  # bytes of the whole tensor
    passes: int  # 1: all-gather or reduce-scatter; 2: all-reduce
    behind: str = ""  # the work it runs behind: "backward", "all", or nothing

    def sent(self, p):
        return self.passes * (p - 1) / p * self.size

    def seconds(self, p):
        """Within the node first, then each GPU exchanges its eighth between nodes, then back."""
        near, nodes = min(p, PER_NODE), max(p // PER_NODE, 1)
        within = self.passes * (near - 1) / near * self.size / NVLINK
        between = self.passes * (nodes - 1) / nodes * self.size / near / NETWORK
        hops = HOP_NEAR * math.log2(near) + HOP_FAR * math.log2(nodes)
        return within + between + self.passes * hops


def collectives(layout, batch):
    """What a step of all ranks sends. Weights travel in float32, features in bfloat16."""
    head, encoder = 4 * LABELS * FEATURES, 4 * ENCODER
    sums = Collective("sums of the loss", 16, 2)
    if layout == "ddp":
        return [Collective("all-reduce of all slopes", head + encoder, 2, "backward"), sums]
    if layout == "fsdp":
        weights = Collective("all-gather of weights, twice", head + encoder, 2, "all")
        slopes = Collective("reduce-scatter of slopes", head + encoder, 1, "backward")
        return [weights, slopes, sums]
    features = 2 * batch * FEATURES
    return [
        Collective("all-reduce of the encoder's slopes", encoder, 2, "backward"),
        Collective("all-gather of features", features, 1),
        Collective("reduce-scatter of their slopes", features, 1),
        sums,
    ]


@dataclass
class Step:
    """Seconds of one step, and bytes per GPU."""

    compute: float
    exposed: float
    sent: float
    held: float
    scores: float

    @property
    def efficiency(self):
        return self.compute / (self.compute + self.exposed)

    def hours(self, batch):
        return ROWS / batch * (self.compute + self.exposed) / 3600


def step(layout, p, batch):
    """One step of p GPUs: 6 operations per weight and token (encoder) or row (head), and Adam."""
    rows = batch / p
    encoder = 6 * ENCODER * TOKENS * rows / (PEAK * USED)
    head = 6 * FEATURES * LABELS * rows / (PEAK * USED)
    mine = {
        "ddp": ENCODER + LABELS * FEATURES,
        "fsdp": (ENCODER + LABELS * FEATURES) / p,
        "labels": ENCODER + LABELS * FEATURES / p,
    }[layout]
    compute = encoder + head + ADAM * mine / HBM
    room = {"backward": 2 / 3 * encoder, "all": encoder + head, "": 0.0}
    exposed = sent = 0.0
    for one in collectives(layout, batch):
        taken = one.seconds(p)
        hidden = min(taken, room[one.behind])
        if one.behind:
            room = {key: max(left - hidden, 0.0) for key, left in room.items()}
        exposed, sent = exposed + taken - hidden, sent + one.sent(p)
    gathered = 8 * LABELS * FEATURES if layout == "fsdp" else 0  # the head and its slope, whole
    return Step(compute, exposed, sent, STATE * mine + gathered, 4 * rows * LABELS)


def size(count):
    """Bytes, to three digits."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"


def collective_table(batch):
    """What every exchange comes to."""
    print(f"| layout | exchange, per step of {batch:,} rows | 8 GPUs send each | 800 GPUs |")
    print("|---|---|---:|---:|")
    for layout in ("ddp", "fsdp", "labels"):
        columns = Collective("sums of a loss of columns, instead", 7 * 8 * LABELS, 2)
        for one in [*collectives(layout, batch), *[columns] * (layout != "labels")]:
            print(f"| {layout} | {one.name} | {size(one.sent(8))} | {size(one.sent(800))} |")


def step_table(cases):
    """What a step holds, and how long it takes."""
    times = "compute | exposed | efficiency | hours a pass"
    print(f"| layout | GPUs | rows per step | held | scores | {times} |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for layout, p, batch in cases:
        s = step(layout, p, batch)
        times = f"{1e3 * s.compute:.3g} ms | {1e3 * s.exposed:.3g} ms | {s.efficiency:.0%}"
        room = f"{size(s.held)} | {size(s.scores)}"
        print(f"| {layout} | {p} | {batch:,} | {room} | {times} | {s.hours(batch):.3g} |")


def most(layout, batch, least=0.5):
    """The most GPUs, in whole nodes, that are used to at least this share."""
    fine = [8 * n for n in range(1, 4097) if step(layout, 8 * n, batch).efficiency >= least]
    return max(fine, default=0)


def main():
    """Print the three tables."""
    collective_table(16_384)
    print()
    layouts = ("ddp", "fsdp", "labels")
    cases = [(way, p, batch) for p, batch in ((8, 16_384), (800, 16_384)) for way in layouts]
    step_table(cases + [(way, 800, 204_800) for way in layouts])
    print()
    print("| layout | GPUs used to at least half: 4,096 rows per step | 16,384 | 65,536 |")
    print("|---|---:|---:|---:|")
    for way in layouts:
        each = " | ".join(f"{most(way, batch):,}" for batch in (4_096, 16_384, 65_536))
        print(f"| {way} | {each} |")


if __name__ == "__main__":
    main()

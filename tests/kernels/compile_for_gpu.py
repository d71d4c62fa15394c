"""Compiles kernels for a GPU that need not be there: `python compile_for_gpu.py ways product`.

A program of its own, because Triton either compiles or interprets, and these tests interpret.
"""

import sys

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import labelset as ls
from labelset.kernels.triton import axes_kernels, head_gradient
from labelset.kernels.triton import product as products
from labelset.kernels.triton.confusion_kernels import confusion_tiles
from labelset.kernels.triton.head_gradient_kernels import (
    gradient_of_negatives,
    gradient_of_positives,
)
from labelset.kernels.triton.product_kernels import part_of_sum, product_tiles, sgd_of_product
from labelset.kernels.triton.source import compiled, source

POINTERS = {"stored": "*i32", "soft": "*fp32", "scale": "fp32", "a": "fp32", "b": "fp32"}
INTEGERS = (
    "rows",
    "n",
    "tiles",
    "groups",
    "parts",
    "chunks",
    "row_programs",
    "programs",
    "blocks",
    "steps",
)
TARGETS = {"bits": "*i1", "hard": "*i64", "soft": "*fp32", "stored": "*i32"}


def build(kernel, dtype, kind, num_warps=4, **constants):
    def kind_of(name):
        if name in constants:
            return "constexpr"
        if name in ("scores", "gradient", "column0", "column1"):
            return f"*{dtype}"
        if name == "target":
            return TARGETS[kind]
        return "i32" if name in INTEGERS else POINTERS.get(name, "*fp32")

    names = kernel.arg_names
    source = ASTSource(
        kernel,
        {name: kind_of(name) for name in names},
        {(names.index(name),): value for name, value in constants.items()},
        {
            (names.index(name),): [["tt.divisibility", 16]]
            for name in ("scores", "n")
            if name in names
        },
    )
    return triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": num_warps}
    )


def tile_of(kind):
    """As a large matrix is gone through: a warp at a time where labels are stored."""
    if kind == "stored":
        return {"HEIGHT": 2, "WIDTH": 256, "UNROLL": 1, "num_warps": 1}
    return {"HEIGHT": 4, "WIDTH": 128, "UNROLL": 2}


def confusion():
    for i, (kind, average) in enumerate(
        [("bits", "macro"), ("soft", "samples"), ("stored", "weighted"), ("hard", "micro")]
    ):
        metric = ls.losses.build("sigmoid-f1")._metric(7, torch.device("cpu"))
        soft, dtype = kind == "soft", ("fp32", "bf16")[i % 2]
        decide, slopes, ratio = (compiled(text) for text in metric.text(dtype == "bf16"))
        for phase in ("count", "apply") if average == "micro" else ("whole",):
            build(
                confusion_tiles, dtype, kind,
                decide=decide, slopes=slopes, ratio=ratio, KIND=kind, SOFT=soft, EVEN=i == 0,
                COLUMNS=0, STRIDE0=0, STRIDE1=0, AXIS=int(average == "samples"),
                MICRO=average == "micro", WEIGHT="known" if soft else "on" if i == 2 else "one",
                DIVIDE="here" if soft else "total" if i == 2 else "no",
                OPPOSITE=True, PHASE=phase, **tile_of(kind),
            )  # fmt: skip


def ways():
    cases = [
        ("two-way", "bits", True),
        ("softmax", "soft", True),
        ("multi-similarity", "stored", False),
    ]
    for i, (name, kind, both) in enumerate(cases):
        traced, dtype = ls.losses.build(name)._traced, ("fp32", "bf16")[i % 2]
        sides = {"BY_ROW": True, "BY_COLUMN": both, "MEAN": traced.reads_mean}
        labels = {"KIND": kind, "SOFT": kind == "soft", "EVEN": i == 0}
        tiles = {"SHORT": dtype == "bf16", **tile_of(kind)}
        build(axes_kernels.log_sums, dtype, kind, AXIS=int(not both), **labels, **tiles, **sides)
        build(axes_kernels.back, dtype, kind, REDUCE=True, **labels, **tiles, **sides)
        row = {"value": compiled(traced.text), "NEEDS_ON": traced.needs_on}
        build(
            axes_kernels.finish, dtype, kind,
            ROWS=8, ROW_PARTS=128, COLUMNS=256, COLUMN_PARTS=4, **row, **sides,
        )  # fmt: skip
        if i == 0:
            few = {**row, **labels, **tiles, **sides, "REDUCE": True, "GROUPS": 1024}
            build(axes_kernels.single_block, dtype, kind, **few)


def product():
    tile = {"HEIGHT": products.HEIGHT, "WIDTH": products.WIDTH, "DEPTH": products.DEPTH}
    sizes = {"DOWN": 4, "ACROSS": 9, "COLUMNS": 0, "TURNS": 2, "STEPS": 12}
    for a_turned, b_turned in ((False, True), (True, False)):
        turned = {"BIAS": b_turned, "A_TURNED": a_turned, "B_TURNED": b_turned}
        left, right = (64, 128) if a_turned else (128, 64), (256, 64) if b_turned else (64, 256)
        built_product(
            product_tiles, left, right, {**turned, **sizes, **tile},
            {"out": "tensordesc<bf16[128, 128]>", "bias": "*bf16", "scale": "fp32"},
        )  # fmt: skip
    sizes = {"ROWS": 512, "COLUMNS": 768, "DOWN": 4, "ACROSS": 3, "STEPS": 192}
    built_product(part_of_sum, (128, 64), (64, 256), {**sizes, **tile}, {"parts": "*fp32"})


def slopes():
    tile = {name: getattr(head_gradient, name) for name in ("HEIGHT", "WIDTH", "DEPTH")}
    sizes = {"DOWN": 4, "ACROSS": 9, "TURNS": 2, "STEPS": 12, "ROWS": 512, "COLUMNS": 1152}
    for name, plain in (("bce", True), ("hill", False)):
        off = ls.losses.build(name)._pair(1152, torch.device("cpu")).off
        formula = compiled(source(off.formula, off.outputs, 1, short=True))
        given = {"formula": formula, "SHARE": off.share, "BIAS": not plain, "EVEN": plain}
        made = built_product(
            gradient_of_negatives, (128, 64), (128, 64), {**given, **sizes, **tile},
            {
                "out": "tensordesc<bf16[128, 64]>", "bias": "*bf16", "partial": "*fp32",
                "place": "i32",
            },
            num_warps=4, num_stages=3,
        )  # fmt: skip
        assert head_gradient.SHARING * (made.metadata.shared + 1024) <= 233_472  # they fit together
    kernel, numbers = gradient_of_positives, ("first", "blocks", "block", "place")
    both = ls.losses.build("bce")._pair(1152, torch.device("cpu")).function(soft=True, short=True)
    given = {"formula": both, "BIAS": True, "FEATURES": 768}
    given |= {name: getattr(head_gradient, name) for name in ("LANES", "TOGETHER", "PIECE")}
    signature = dict.fromkeys(kernel.arg_names, "constexpr")
    signature |= dict.fromkeys((*numbers, "x_stride", "w_stride", "stride"), "i32")
    signature |= dict.fromkeys(("x", "w", "slopes", "bias"), "*bf16")
    places = {(kernel.arg_names.index(name),): value for name, value in given.items()}
    for starts in ("*i32", "*i64"):  # (a head of one block has the pointers of its labels)
        signature |= {"partial": "*fp32", "starts": starts, "stored": "*i32"}
        triton.compile(ASTSource(kernel, signature, places), target=GPUTarget("cuda", 90, 32))


def steps():
    tile = {"HEIGHT": products.SGD_HEIGHT, "WIDTH": products.SGD_WIDTH, "DEPTH": products.SGD_DEPTH}
    sizes = {"DOWN": 9, "ACROSS": 6, "TURNS": 2, "STEPS": 8}
    made = built_product(
        sgd_of_product, (64, 128), (64, 128), {**sizes, **tile},
        {
            "weight": "tensordesc<bf16[128, 32]>", "rate": "fp32", "shrink": "fp32",
            "seed": "i32", "first": "i32",
        },
        num_warps=products.SGD_WARPS, num_stages=products.SGD_STAGES,
    )  # fmt: skip
    assert products.SGD_SHARING * (made.metadata.shared + 1024) <= 233_472  # they fit together


def built_product(kernel, left, right, constants, others, num_warps=8, num_stages=4):
    names = kernel.arg_names
    sides = {"a": f"tensordesc<bf16{list(left)}>", "b": f"tensordesc<bf16{list(right)}>"}
    signature = dict.fromkeys(names, "constexpr") | sides | others
    given = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, signature, given)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert "wgmma" in made.asm["ptx"]  # the matrix units of that GPU are used
    assert made.metadata.shared <= 232_448  # bytes that a program may have there
    return made


if __name__ == "__main__":
    for name in sys.argv[1:]:
        {
            "confusion": confusion,
            "ways": ways,
            "product": product,
            "slopes": slopes,
            "steps": steps,
        }[name]()

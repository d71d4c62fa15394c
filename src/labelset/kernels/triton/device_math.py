"""The few special functions of the kernels, in float32: accurate, and cheap on a GPU.

Each is good to a few units in the last place: one instruction of the hardware that is good to
22 bits, and a polynomial where that would not do. The `short` ones are good to 16 bits, for scores
of which 8 or 11 are known.
"""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import torch
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
# one instruction each on an NVIDIA GPU, several with care for subnormal numbers otherwise
BARE = tl.constexpr(torch.version.hip is None and not triton.knobs.runtime.interpret)


@triton.jit
def exp2(x):
    """2^x, subnormal results flushed to 0"""
    if BARE:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1
        )
    return tl.exp2(x)


@triton.jit
def reciprocal(x):
    """1 / x"""
    if BARE:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1
        )
    return 1.0 / x


@triton.jit
def log2(x):
    """log2(x)"""
    if BARE:
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1
        )
    return tl.log2(x)


@triton.jit
def bounded_exp(x):
    """exp(x), |x| up to a few hundred: 2^(x log2 e), and what rounding took from that product."""
    t = x * LOG2_E
    rest = tl.fma(t, -LN_2, x)
    e = exp2(t)
    return tl.fma(e, rest, e)


@triton.jit
def exp(x):
    """exp(x)"""
    near = tl.minimum(tl.maximum(x, -150.0, tl.PropagateNan.ALL), 150.0, tl.PropagateNan.ALL)
    return tl.where(x > 88.8, x * float("inf"), bounded_exp(near))


@triton.jit
def decay(x):
    """exp(-|x|)"""
    return bounded_exp(-tl.minimum(tl.abs(x), 150.0, tl.PropagateNan.ALL))


@triton.jit
def decay_short(x):
    """exp(-|x|), to 16 bits"""
    return exp2(tl.abs(x) * -LOG2_E)


@triton.jit
def unit(e):
    """1 / (1 + e)"""
    return reciprocal(1.0 + e)


@triton.jit
def log1p_unit(e):
    """log(1 + e) for e in [0, 1]: e times the polynomial nearest to log(1 + e) / e (3e-8)."""
    p = tl.fma(e, 0.005232690027468886, -0.029505219919230236)
    p = tl.fma(p, e, 0.07822591750629002)
    p = tl.fma(p, e, -0.13663242502300021)
    p = tl.fma(p, e, 0.19106004994412523)
    p = tl.fma(p, e, -0.24842981692976743)
    p = tl.fma(p, e, 0.3331909673175758)
    p = tl.fma(p, e, -0.49999493136559914)
    return e * tl.fma(p, e, 1.0)


@triton.jit
def log1p_unit_short(e):
    """log(1 + e) for e in [0, 1], to 16 bits"""
    p = tl.fma(e, -0.023869155419939152, 0.1012222915168135)
    p = tl.fma(p, e, -0.21004869295915676)
    p = tl.fma(p, e, 0.3252066801432905)
    p = tl.fma(p, e, -0.499361364602642)
    return e * tl.fma(p, e, 0.9999915981921709)


@triton.jit
def log(x):
    """log(x): by the hardware away from 1, by the polynomial nearest to log(1 + f) / f near it."""
    f = x - 1.0
    p = tl.fma(f, -0.14753450651099026, 0.1651392888730273)
    p = tl.fma(p, f, -0.16511088525585196)
    p = tl.fma(p, f, 0.19870176691758318)
    p = tl.fma(p, f, -0.2500387588123946)
    p = tl.fma(p, f, 0.3333571164873717)
    p = tl.fma(p, f, -0.4999997444780885)
    return tl.where(tl.abs(f) < 0.3, f * tl.fma(p, f, 1.0), log2(x) * LN_2)


@triton.jit
def log_short(x):
    """log(x), to 16 bits"""
    f = x - 1.0
    p = tl.fma(f, -0.25, 0.3333333333333333)
    p = tl.fma(p, f, -0.5)
    return tl.where(tl.abs(f) < 0.0625, f * tl.fma(p, f, 1.0), log2(x) * LN_2)


@triton.jit
def log1p(x):
    """log(1 + x): the logarithm of the rounded sum, and what rounding took from it."""
    u = 1.0 + x
    return log(u) + tl.where(tl.abs(x) < 1.0, (x - (u - 1.0)) * reciprocal(u), 0.0)


@triton.jit
def log1p_short(x):
    """log(1 + x) for x >= 0: by the hardware, and by a series where that loses small numbers"""
    near = x * tl.fma(x, tl.fma(x, 0.3333333333333333, -0.5), 1.0)
    return tl.where(x < 0.015625, near, log2(1.0 + x) * LN_2)


@triton.jit
def power(x, exponent: tl.constexpr):
    """x^exponent for x >= 0"""
    return tl.where(x > 0, exp(exponent * log(x)), 0.0 if exponent > 0 else float("inf"))


@triton.jit
def tanh(x):
    """(1 - e) / (1 + e) with the sign of x, e = exp(-2 |x|); a series where that cancels"""
    e = decay(2.0 * x)
    p = tl.fma(x * x, -0.05396825396825397, 0.13333333333333333)
    p = tl.fma(x * x, p, -0.3333333333333333)
    near = tl.abs(x) * tl.fma(x * x, p, 1.0)
    size = tl.where(tl.abs(x) < 0.2, near, (1.0 - e) * reciprocal(1.0 + e))
    return tl.where(x < 0, -size, size)

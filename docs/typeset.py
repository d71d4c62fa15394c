"""Formulas of docstrings and pages, which are plain text on a terminal, as MathML for the site.

What is written stays as it is: `neg(v) = softplus(k- (v - b-)) / zeta-`. A browser sets MathML
without a script or a network. A paragraph that is no formula, or cannot be read as one, stays text.

>>> line("a_j = b^2 / (1 + z)")[0]
'<msub><mi>a</mi><mi>j</mi></msub>'
>>> line("x = (1 +") is None
True
"""

from __future__ import annotations

import re
from html import escape

GREEK = {
    **{name: name for name in ("tau", "beta", "eta", "gamma", "zeta", "rho", "alpha", "phi", "mu")},
    "lam": "lambda",
    "eps": "epsilon",
}
FUNCTIONS = {
    *("softplus", "sigmoid", "log", "exp", "max", "min", "logit", "pos", "neg", "link", "row"),
    *("loss", "tp", "fp", "fn", "tn", "own", "shrink", "metric", "median", "sign"),
}
SYMBOLS = {
    "*": "sdot",
    ">=": "ge",
    "<=": "le",
    "-": "minus",
    "in": "isin",
    "->": "rarr",
    "!=": "ne",
}
OPENING, CLOSING = {"(": ")", "[": "]"}, {")", "]"}
TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)
  | (?P<name>[A-Za-z]+(?:_[A-Za-z0-9]+)?'*(?:[+-](?![\w(.]))?)
  | (?P<symbol>>=|<=|->|!=|[-+*/^=<>,:;.|()\[\]`])
    )""",
    re.X,
)
NUMBERED = re.compile(r"\s{2,}(\((?:\d|Table)[^()]*\))$")


def formula(text: str) -> str | None:
    """An HTML table of the lines of a paragraph, or None where it is not one of formulas."""
    lines = [each for each in text.splitlines() if each.strip()]
    if not any(re.search(r"\S = |^minimise ", each) for each in lines):
        return None
    rows = []
    for each in lines:
        found = line(each)
        if found is None:
            return None
        left, right, number = found
        cells = f'<td class="left">{_math(left)}</td><td>{_math(right)}</td>'
        if not left:
            cells = f'<td colspan="2">{_math(right)}</td>'
        rows.append(f'<tr>{cells}<td class="number">{escape(number)}</td></tr>')
    return f'<table class="formula">{"".join(rows)}</table>'


def line(text: str) -> tuple[str, str, str] | None:
    """What stands left of the first equals sign, the rest, and the equation's number."""
    number = NUMBERED.search(text)
    body = (text[: number.start()] if number else text).strip()
    left, equals, right = ("", "", body) if body[:9] == "minimise " else body.partition(" = ")
    try:
        sides = [_Reader(side).all() for side in ((left, right) if equals else (body,))]
    except ValueError:
        return None
    if not equals:
        return "", sides[0], number[1] if number else ""
    return sides[0], f"<mo>=</mo>{sides[1]}", number[1] if number else ""


def _math(inner: str) -> str:
    return f'<math displaystyle="true"><mrow>{inner}</mrow></math>' if inner else ""


class _Reader:
    """Terms are products, side by side; a fraction takes the product before it and one factor."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            found = TOKEN.match(text, at)
            if not found:
                raise ValueError(f"no formula: {text[at:]}")
            kind = found.lastgroup or ""
            self.tokens.append((kind, found[kind]))
            at = found.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self) -> tuple[str, str]:
        self.at += 1
        return self.tokens[self.at - 1]

    def all(self) -> str:
        made = self.sequence("")
        if self.at < len(self.tokens):
            raise ValueError("a bracket is closed that was not opened")
        return made

    def sequence(self, end: str) -> str:
        """Products with signs between them, up to a closing bracket."""
        made = []
        while self.at < len(self.tokens) and self.peek() not in (*CLOSING, end):
            if self.peek() in ("+", "-", "*", "=", "<", ">", ">=", "<=", "->", "!=", "in"):
                made.append(_operator(self.take()[1]))
            elif self.peek() in (",", ":", ";", "."):
                made.append(f'<mo>{self.take()[1]}</mo><mspace width="0.35em"/>')
            elif self.peek() == "`":
                self.take()
            else:
                made.append(self.product(end))
        return "".join(made)

    def product(self, end: str) -> str:
        made: list[str] = []
        while self._goes_on(end):
            made.append(self.factor())
            if self.peek() == "/":
                self.take()
                below = self.product(end) if self.peek().startswith("sum") else self.factor()
                first = next((i for i, each in enumerate(made) if "<mtext>" not in each), 0)
                above = "".join(made[first:])
                made = [*made[:first], f"<mfrac>{_bare(above)}{_bare(below)}</mfrac>"]
        wide = any("<mtext>" in each for each in made)
        return f'<mspace width="{0.3 if wide else 0.17}em"/>'.join(made)

    def _goes_on(self, end: str) -> bool:
        if self.at >= len(self.tokens):
            return False
        kind, text = self.tokens[self.at]
        inside = end == "|" and text == "|"
        return text != "in" and not inside and (kind != "symbol" or text in ("(", "[", "|"))

    def factor(self) -> str:
        made = self.atom()
        while self.peek() == "^":
            self.take()
            made = f"<msup><mrow>{made}</mrow>{_bare(self.atom())}</msup>"
        return made

    def atom(self) -> str:
        if self.at >= len(self.tokens):
            raise ValueError("something is missing at the end")
        kind, text = self.take()
        if kind == "number":
            return f"<mn>{text}</mn>"
        if kind == "name":
            made = _name(text)
            called = self.peek() == "(" and ("<mi mathvariant" in made or len(text) == 1)
            if not called or text in ("T", "x"):
                return made
            return made + self.atom()
        if text == "|":
            inner = self.sequence("|")
            if self.peek() != "|":
                raise ValueError("a bar is not closed")
            self.take()
            return f"<mrow><mo>|</mo>{inner}<mo>|</mo></mrow>"
        if text not in OPENING:
            raise ValueError(f"{text} begins nothing")
        inner = self.sequence("")
        if self.peek() != OPENING[text]:
            raise ValueError(f"{text} is not closed")
        self.take()
        grows = "" if "<mfrac>" in inner else ' stretchy="false"'
        return f"<mrow><mo{grows}>{text}</mo>{inner}<mo{grows}>{OPENING[text]}</mo></mrow>"


def _operator(text: str) -> str:
    return f"<mo>&{SYMBOLS[text]};</mo>" if text in SYMBOLS else f"<mo>{escape(text)}</mo>"


def _bare(made: str) -> str:
    """Without the brackets that a fraction or an exponent makes needless."""
    inner = re.fullmatch(r"<mrow><mo[^>]*>\(</mo>(.*)<mo[^>]*>\)</mo></mrow>", made)
    return f"<mrow>{inner[1] if inner and _balanced(inner[1]) else made}</mrow>"


def _balanced(made: str) -> bool:
    depth = 0
    for each in re.findall(r"<mo[^>]*>([()])</mo>", made):
        depth += 1 if each == "(" else -1
        if depth < 0:
            return False
    return depth == 0


def _name(text: str) -> str:
    """A letter, a Greek one, the name of a function, or a word of plain language."""
    base, _, low = text.partition("_")
    marks = re.search(r"('*)([+-]?)$", low or base)
    assert marks
    primes, sign = marks.groups()
    cut = len(primes) + len(sign)
    base, low = (base, low[: len(low) - cut]) if low else (base[: len(base) - cut], "")
    if base == "sum":
        made = "<mo>&sum;</mo>"
    elif base in GREEK:
        made = f"<mi>&{GREEK[base]};</mi>"
    elif len(base) == 1:
        made = f"<mi>{base}</mi>"
    elif base in FUNCTIONS:
        made = f'<mi mathvariant="normal">{base}</mi>'
    else:
        return f"<mtext>{escape(text)}</mtext>"
    high = "&prime;" * len(primes) + {"+": "+", "-": "&minus;", "": ""}[sign]
    below = f"<mi>{low}</mi>"
    above = f"<mo>{high}</mo>"
    if low and primes:  # u_t': the prime belongs to the index
        return f"<msub>{made}<mrow>{below}<mo>{'&prime;' * len(primes)}</mo></mrow></msub>"
    if low:
        return (
            f"<msub>{made}{below}</msub>"
            if not sign
            else f"<msubsup>{made}{below}{above}</msubsup>"
        )
    return f"<msup>{made}{above}</msup>" if high else made

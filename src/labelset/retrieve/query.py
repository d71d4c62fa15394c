"""A query: read into a tree of names, not, and, or; and the decision diagram that weighs it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple, TypeAlias, TypeVar

PLAIN = "_-.:/+#\u200c\u200d"  # besides letters, marks and digits: the joiners of some scripts too


def is_bare(character: str) -> bool:
    """Whether a name may hold this character without quotes."""
    return character in PLAIN or unicodedata.category(character)[0] in "LMN"


@dataclass(frozen=True)
class Name:
    """One label is on."""

    text: str
    at: int | None = field(default=None, compare=False, repr=False)
    """Where it stands in the query."""

    def __str__(self) -> str:
        if self.text and all(map(is_bare, self.text)):
            return self.text
        return '"' + self.text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Formula

    def __str__(self) -> str:
        return f"!{_bracketed(self.part)}"


@dataclass(frozen=True)
class And:
    """Every part holds."""

    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        return " & ".join(map(_bracketed, self.parts))


@dataclass(frozen=True)
class Or:
    """At least one part holds."""

    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        return " | ".join(map(_bracketed, self.parts))


Formula: TypeAlias = Name | Not | And | Or


def _bracketed(part: Formula) -> str:
    return f"({part})" if isinstance(part, And | Or) else str(part)


def names_of(formula: Formula) -> list[Name]:
    """The distinct names, in the order in which they first appear."""
    found: dict[str, Name] = {}
    for name in _walk(formula):
        found.setdefault(name.text, name)
    return list(found.values())


def _walk(formula: Formula) -> Iterator[Name]:
    left = [formula]
    while left:
        top = left.pop()
        if isinstance(top, Name):
            yield top
        elif isinstance(top, Not):
            left.append(top.part)
        elif isinstance(top, And | Or):
            left.extend(reversed(top.parts))
        else:
            raise TypeError(
                f"a query must be a string, or made of Name, Not, And and Or, got "
                f"{type(top).__name__} {top!r:.80}"
            )


DEEPEST = 100  # brackets within brackets
SHOWN = 60  # characters of a long query that an error shows
QUOTED = {
    quote: re.compile(rf"{quote}((?:\\.|[^{quote}\\])*){quote}", re.DOTALL) for quote in "'\""
}


class QueryError(ValueError):
    """A query that cannot be answered: `problem` in one line, `at` its place (from 0)."""

    def __init__(self, problem: str, query: str | None = None, at: int | None = None) -> None:
        self.problem, self.query, self.at = problem, query, at
        shown = "" if query is None or at is None else f"\n{_pointer(query, at)}"
        place = f" (character {at + 1} of the query)" if shown and at is not None else ""
        super().__init__(f"{problem}{place}{shown}")


def _pointer(query: str, at: int) -> str:
    """The query and, below it, a caret at the place; only the neighbourhood if it is long."""
    first = 0 if len(query) <= SHOWN else max(0, at - SHOWN // 2)
    part = query[first : first + SHOWN]
    seen = "".join(c if c.isprintable() else " " for c in part)
    before = seen[: at - first]
    narrow = sum(not unicodedata.combining(c) for c in before)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in before)
    left, right = "..." * (first > 0), "..." * (first + SHOWN < len(query))
    return f"  {left}{seen}{right}\n  {' ' * (len(left) + narrow + wide)}^"


class _Token(NamedTuple):
    kind: str
    """`&`, `|`, `!`, `(`, `)`, `name` or `end`"""
    text: str
    at: int


def parse(query: str) -> Formula:
    """The tree of a query: `|` binds least, then `&`, then `!`; brackets group.

    A name is a run of letters, digits and `_ - . : / + #`, or anything in single or double quotes,
    where a backslash takes the next character as it is.

    >>> parse("fork & 'hot dog' & !knife")
    And(parts=(Name(text='fork'), Name(text='hot dog'), Not(part=Name(text='knife'))))
    >>> str(parse("!(a|b)&c"))
    '!(a | b) & c'
    >>> parse("fork & | knife")
    Traceback (most recent call last):
    labelset.retrieve.query.QueryError: expected a name, ! or (, got '|' (character 8 of the query)
      fork & | knife
             ^
    """
    if not isinstance(query, str):
        raise TypeError(f"query must be a string, got {type(query).__name__} {query!r}")
    reader = _Reader(query)
    if reader.next.kind == "end":
        raise QueryError("the query is empty; ask for something, such as 'dog & !beach'")
    formula = reader.either(0)
    reader.finish()
    return formula


def _tokens(query: str) -> list[_Token]:
    found, at = list[_Token](), 0
    while at < len(query):
        character = query[at]
        if character.isspace():
            at += 1
        elif character in "&|!()":
            found.append(_Token(character, character, at))
            at += 1
        else:
            text, end = _name(query, at)
            found.append(_Token("name", text, at))
            at = end
    return [*found, _Token("end", "the end of the query", len(query))]


def _name(query: str, at: int) -> tuple[str, int]:
    """The name that starts here, and where it ends."""
    if query[at] in QUOTED:
        match = QUOTED[query[at]].match(query, at)
        if match is None:
            raise QueryError(f"this quote {query[at]} is never closed", query, at)
        return re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL), match.end()
    end = at
    while end < len(query) and is_bare(query[end]):
        end += 1
    if end == at:
        raise QueryError(
            f"unexpected {query[at]!r}: queries are made of names, &, |, !, ( and ); other names "
            'go in straight quotes, such as "hot dog"',
            query,
            at,
        )
    return query[at:end], end


class _Reader:
    """One method per level of the grammar; each returns the tree of what it read."""

    def __init__(self, query: str) -> None:
        self.query, self.tokens, self.place = query, _tokens(query), 0

    @property
    def next(self) -> _Token:
        return self.tokens[self.place]

    def take(self) -> _Token:
        self.place += 1
        return self.tokens[self.place - 1]

    def either(self, depth: int) -> Formula:
        parts = [self.both(depth)]
        while self.next.kind == "|":
            self.take()
            parts.append(self.both(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def both(self, depth: int) -> Formula:
        parts = [self.single(depth)]
        while self.next.kind == "&":
            self.take()
            parts.append(self.single(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def single(self, depth: int) -> Formula:
        negated = False
        while self.next.kind == "!":  # in a loop, so that a thousand of them need no depth
            self.take()
            negated = not negated
        token = self.take()
        if token.kind == "name":
            part: Formula = Name(token.text, token.at)
        elif token.kind == "(":
            part = self.group(token, depth + 1)
        else:
            got = token.text if token.kind == "end" else repr(token.text)
            raise self.error(f"expected a name, ! or (, got {got}", token)
        return Not(part) if negated else part

    def group(self, opening: _Token, depth: int) -> Formula:
        if depth > DEEPEST:
            raise self.error(f"brackets within brackets go {DEEPEST} deep at most", opening)
        inside = self.either(depth)
        if self.next.kind == "end":
            raise self.error("this bracket is never closed", opening)
        if self.next.kind != ")":
            self.finish()
        self.take()
        return inside

    def finish(self) -> None:
        """Nothing may follow a whole query."""
        token = self.next
        if token.kind == ")":
            raise self.error("this bracket was never opened", token)
        if token.kind == "name":
            raise self.error(
                f"expected & or | before {token.text!r}; names with spaces go in quotes", token
            )
        if token.kind != "end":
            raise self.error(f"expected & or | before {token.text!r}", token)

    def error(self, problem: str, token: _Token) -> QueryError:
        return QueryError(problem, self.query, token.at)


FALSE, TRUE = 0, 1
MOST = 20_000  # nodes, and a tenth of the joins on the way; a few dozen are usual
V = TypeVar("V")


class Diagram:
    """A reduced, ordered decision diagram over the names in the order of the query.

    A node (name, low, high) means: if the name is on go to `high`, else to `low`; nodes 0 and 1 are
    false and true. Equal functions are the same node, so a query that can never hold is node 0,
    and repeated names count once.
    """

    def __init__(self, formula: Formula) -> None:
        self.names = names_of(formula)
        self._place = {name.text: i for i, name in enumerate(self.names)}
        end = len(self.names)
        self._nodes = [(end, FALSE, FALSE), (end, TRUE, TRUE)]
        self._known: dict[tuple[int, int, int], int] = {}
        self._joined: dict[tuple[bool, int, int], int] = {}
        try:
            self.root = self._build(formula, True)
        except RecursionError:
            raise QueryError("the query is too deep; ask in several queries") from None

    def _build(self, formula: Formula, holds: bool) -> int:
        """The node of the formula, or of its negation: de Morgan takes `!` down to the names."""
        if isinstance(formula, Name):
            ends = (FALSE, TRUE) if holds else (TRUE, FALSE)
            return self._node(self._place[formula.text], *ends)
        if isinstance(formula, Not):
            return self._build(formula.part, not holds)
        every = isinstance(formula, And) == holds
        # from the last part to the first, so that each name meets only later ones, and no deeper
        parts = (self._build(part, holds) for part in reversed(formula.parts))
        return reduce(lambda rest, part: self._join(every, part, rest), parts, int(every))

    def _node(self, name: int, low: int, high: int) -> int:
        if low == high:
            return low
        key = (name, low, high)
        if key not in self._known:
            self._known[key] = len(self._nodes)
            self._nodes.append(key)
        return self._known[key]

    def _join(self, every: bool, f: int, g: int) -> int:
        """f and g (`every`), or f or g."""
        neutral, decisive = (TRUE, FALSE) if every else (FALSE, TRUE)
        if decisive in (f, g):
            return decisive
        if f in (neutral, g):
            return g
        if g == neutral:
            return f
        key = (every, min(f, g), max(f, g))
        if key not in self._joined:
            name = min(self._nodes[f][0], self._nodes[g][0])
            (low_f, high_f), (low_g, high_g) = self._split(f, name), self._split(g, name)
            low, high = self._join(every, low_f, low_g), self._join(every, high_f, high_g)
            self._joined[key] = self._node(name, low, high)
            if len(self._nodes) > MOST or len(self._joined) > 10 * MOST:
                raise QueryError(
                    f"the query is too entangled (over {MOST:,} cases): put names that belong "
                    "together next to each other, or ask in several queries"
                )
        return self._joined[key]

    def _split(self, f: int, name: int) -> tuple[int, int]:
        top, low, high = self._nodes[f]
        return (low, high) if top == name else (f, f)

    @property
    def certain(self) -> bool | None:
        """False if the query can never hold, True if it always does, else None."""
        return bool(self.root) if self.root in (FALSE, TRUE) else None

    def steps(self) -> list[tuple[int, tuple[int, int, int]]]:
        """The nodes that the root needs, children first."""
        needed, left = set[int](), [self.root]
        while left:
            node = left.pop()
            if node > TRUE and node not in needed:
                needed.add(node)
                left.extend(self._nodes[node][1:])
        return [(node, self._nodes[node]) for node in sorted(needed)]

    def weigh(
        self,
        on: Sequence[V],
        off: Sequence[V],
        times: Callable[[V, V], V],
        plus: Callable[[V, V], V],
        end: int = TRUE,
    ) -> V:
        """on * high + off * low from the leaves up: what the ways to `end` weigh together.

        With `on` = p and `off` = 1 - p this is the probability that the query holds, and for
        `end=FALSE` that it does not, labels being independent. All terms are positive, so nothing
        cancels. For a conjunction it is the product (23).
        """
        weight: dict[int, V] = {}
        for node, (name, low, high) in self.steps():
            terms = [
                side if child == end else times(side, weight[child])
                for side, child in ((on[name], high), (off[name], low))
                if child == end or child > TRUE
            ]
            weight[node] = reduce(plus, terms)
        return weight[self.root]

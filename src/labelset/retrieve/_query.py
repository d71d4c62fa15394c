"""Reading a query: `fork & apple & !knife`, with `|`, brackets and quoted names."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from labelset.retrieve._formula import And, Formula, Name, Not, Or, is_bare

__all__ = ["QueryError", "parse"]

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
    labelset.retrieve._query.QueryError: expected a name, ! or (, got '|' (character 8 of the query)
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

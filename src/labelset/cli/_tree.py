"""The verbs as a tree of parsers: each verb, and the options that it has."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

__all__ = ["chosen", "is_flag", "key", "leaves", "options"]

OWN = ("help", "config", "print_config")
"""Options that every verb has, and that say nothing about its work."""


def leaves(
    parser: argparse.ArgumentParser, name: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every verb with its parser; `data inspect` is one.

    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_subparsers().add_parser("list")
    >>> [name for name, _ in leaves(parser)]
    ['list']
    """
    inner = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not inner:
        yield name, parser
    for choices in inner:
        for verb, found in choices.items():
            yield from leaves(found, f"{name} {verb}".strip())


def chosen(
    parser: argparse.ArgumentParser, argv: Sequence[str]
) -> tuple[str, argparse.ArgumentParser] | None:
    """The verb that a command line begins with, if any."""
    for name, verb in leaves(parser):
        if list(argv[: len(name.split())]) == name.split():
            return name, verb
    return None


def options(verb: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Key -> option or argument: all that a command line can say about the work of a verb."""
    shown = [a for a in verb._actions if a.dest not in OWN and a.help != argparse.SUPPRESS]
    return {key(action): action for action in shown}


def key(action: argparse.Action) -> str:
    """The long option without its dashes; of an argument its name."""
    long = [text for text in action.option_strings if text.startswith("--")]
    return long[0].removeprefix("--") if long else action.dest


def is_flag(action: argparse.Action) -> bool:
    """It takes no value, and is off unless given."""
    return action.nargs == 0 and action.const is True and action.dest not in OWN

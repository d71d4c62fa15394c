"""`--config FILE` and `--print-config`: the options of a verb, in a TOML or YAML file.

A file holds the options of one verb, or a table for each verb. Keys are the long options without
their dashes, and the names of what has no dashes (`model`, `source`). What the command line says
comes on top: a value replaces the file's, a KEY=VALUE is added to the file's.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from labelset import check
from labelset.files import optional

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


def add_config(verb: argparse.ArgumentParser) -> None:
    """The two options, and for each flag, unseen in the help, the one that takes it back."""
    for flag in [a for a in verb._actions if is_flag(a)]:
        name = key(flag)
        back = name.removeprefix("no-") if name.startswith("no-") else f"no-{name}"
        verb.add_argument(
            f"--{back}",
            dest=flag.dest,
            action="store_false",
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )
    verb.add_argument("--config", metavar="FILE", help="options from this TOML or YAML file")
    verb.add_argument(
        "--print-config", action="store_true", help="print all options as TOML, and stop"
    )


def with_file(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """What the file of `--config` says becomes the defaults of the verb in `argv`."""
    look = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    look.add_argument("--config")
    try:
        path = look.parse_known_args(argv)[0].config
    except argparse.ArgumentError:
        return  # it has no value: the parser of the verb says so
    found = chosen(parser, argv)
    if path is not None and found is not None:
        name, verb = found
        known = [name.split()[0] for name, _ in leaves(parser)]
        _set(verb, _of_verb(read(path), name.split()[0], known, path), path)


def read(path: str) -> dict[str, Any]:
    """What a TOML file says, or a YAML file where PyYAML is installed."""
    kind = Path(path).suffix.lower()
    if kind not in (".toml", ".yaml", ".yml"):
        raise ValueError(f"{path}: a configuration is a file .toml, .yaml or .yml")
    found = _read_toml(path) if kind == ".toml" else _read_yaml(path)
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{path}: expected options by name, got {_short(found)}")
    return found


def _read_toml(path: str) -> Any:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_yaml(path: str) -> Any:
    yaml = optional("yaml", "YAML files", "yaml")
    try:
        return yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {error}") from None


def _of_verb(found: dict[str, Any], verb: str, known: list[str], path: str) -> dict[str, Any]:
    """The options for this verb: all there are, or those in its table."""
    tables = [name for name, value in found.items() if name in known and isinstance(value, dict)]
    if not found or len(tables) < len(found):
        return found
    if verb not in found:
        raise ValueError(f"{path}: has tables for {', '.join(tables)}, none for {verb}")
    return dict(found[verb])


def _set(verb: argparse.ArgumentParser, given: Mapping[str, Any], path: str) -> None:
    known = options(verb)
    for name, value in given.items():
        action = known.get(str(name).replace("_", "-"), known.get(name))
        if action is None:
            raise ValueError(
                f"{path}: {verb.prog} has no option {name!r}: {check.nearest(str(name), known)}; "
                "a file holds the options of one verb, or a table for each verb"
            )
        try:
            action.default = _value(action, value)
        except ValueError as error:
            raise ValueError(f"{path}: {name}: {error}") from None
        action.required = False
        if not action.option_strings and action.nargs is None:
            action.nargs = "?"


def _value(action: argparse.Action, value: Any) -> Any:
    """What the option would hold, had this been given on the command line."""
    if is_flag(action):
        if not isinstance(value, bool):
            raise ValueError(f"expected true or false, got {_short(value)}")
        return value
    if isinstance(action, argparse._AppendAction):
        return _pairs(value)
    if action.nargs in ("+", "*") or isinstance(action.nargs, int):
        several = value if isinstance(value, list) else [value]
        needed = action.nargs if isinstance(action.nargs, int) else None
        if len(several) != needed if needed else not several and action.nargs == "+":
            raise ValueError(f"expected {action.nargs} values, got {_short(value)}")
        return [_single(action, item) for item in several]
    return _single(action, value)


def _pairs(value: Any) -> list[str]:
    """KEY=VALUE, one or a list of them, or a table."""
    if isinstance(value, dict):
        shown = {k: v if isinstance(v, str) else json.dumps(v) for k, v in value.items()}
        return [f"{k}={v}" for k, v in shown.items()]
    several = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) for item in several):
        raise ValueError(f"expected a table, or texts KEY=VALUE, got {_short(value)}")
    return several


def _single(action: argparse.Action, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"expected a number or a text, got {_short(value)}")
    kind: Any = action.type or str
    try:
        made = kind(str(value))
    except ValueError:
        raise ValueError(f"expected {kind.__name__}, got {_short(value)}") from None
    if action.choices is not None and made not in action.choices:
        raise ValueError(f"expected one of {', '.join(action.choices)}, got {_short(value)}")
    return made


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def print_config(verb: str, parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """All options as they are in force, as a table that `--config` reads; unset ones left out."""
    print(f"[{verb}]")
    for name, action in options(parser).items():
        value = getattr(args, action.dest)
        if value is not None:
            print(f"{name} = {_toml(value)}")


def _toml(value: Any) -> str:
    r"""
    >>> print(_toml([True, 2, 1e-5, float("inf"), 'a "b"']))
    [true, 2, 1e-05, inf, "a \"b\""]
    """
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else str(value)

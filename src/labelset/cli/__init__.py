"""The command line: one file per verb."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

import labelset
from labelset import check
from labelset.cli.config import add_config, chosen, leaves, print_config, with_file

__all__ = ["main"]

LONGEST = 1000
"""Letters of a message; of a longer one the middle is left out."""
SHORT = re.compile(r" to allocate ([\d.]+ \w+)|bad_alloc")
"""What libraries say where memory is short."""
PROBLEMS = (ValueError, TypeError, ImportError, OSError, RuntimeError, MemoryError)
VERBS = {
    "compare": "which loss, head, calibration and thresholds to use on your data",
    "train": "train one model, with calibrator and decision rule",
    "tune": "search the hyperparameters of a loss, with Optuna",
    "data": "inspect, split: how a data set was parsed, how its rows are dealt",
    "report": "write the report of a comparison again, or figures for a paper",
    "pack": "make a RUN folder from scores of your own model",
    "evaluate": "the metrics of a RUN, with its calibrator and decision rule",
    "calibrate": "fit a calibrator from scores to probabilities, and save it in the RUN",
    "decide": "fit thresholds or another decision rule, and save it in the RUN",
    "predict": "label sets for new rows",
    "query": "rows that most probably have these labels and not those",
    "weights": "the words and columns that weigh most for each label of a RUN",
    "doctor": "why a RUN predicts nothing, with evidence and remedies",
    "verify": "which label sets a head can and cannot produce, with proofs",
    "export": "a RUN as ONNX, torch.export or safetensors",
    "bench": "how fast each loss is here, by each implementation",
    "list": "losses, heads, calibrators, decision rules or metrics by name, or all about one",
    "completion": "complete verbs, options and names in bash, zsh or fish",
}
"""Verb -> its line in the help. Its module is imported when it is called: ABOUT describes it, `add`
adds its options, and `run` is what it does."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; bad input prints one line and gives exit status 2."""
    # read when torch is loaded: threads that spin while they wait take the core from who they wait
    # for, where others use it as well
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads the rest
        return 0
    except PROBLEMS as error:
        if os.environ.get("LABELSET_DEBUG"):
            raise
        print(f"labelset: {_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("labelset: stopped", file=sys.stderr)
        return 130
    return status or 0


def _line(error: Exception) -> str:
    """What went wrong, in words."""
    problem = str(getattr(error, "problem", error))  # a query's, without the line that points
    if isinstance(error, OSError) and type(error).__str__ is OSError.__str__ and error.strerror:
        problem = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    short = SHORT.search(problem)
    if short or isinstance(error, MemoryError):
        asked = f", {short[1]} more were asked for at once" if short and short[1] else ""
        problem = f"there is not enough memory{asked}; give fewer rows, features or labels"
    return _shown(problem)


def _shown(message: str) -> str:
    """One line of letters that a terminal shows, however long a name in it is."""
    words = " ".join(message.split())
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
    return (
        shown if len(shown) <= LONGEST else f"{shown[: LONGEST // 2]} ... {shown[-LONGEST // 2 :]}"
    )


def _run(argv: Sequence[str]) -> int | None:
    verb = argv[0] if argv else ""
    parser = make_parser([verb] if verb in VERBS else [])
    _Parser.given = argv
    if verb and verb not in VERBS and not verb.startswith("-"):
        parser.error(f"no verb is called {verb!r}: {check.nearest(verb, VERBS)}")
    with_file(parser, argv)
    args, leaf = parser.parse_args(argv), chosen(parser, argv)
    if leaf is not None and args.print_config:
        print_config(leaf[0].split()[0], leaf[1], args)
        return 0
    args.argv = [*argv]
    status: int | None = args.run(args)
    return status


class _Parser(argparse.ArgumentParser):
    """Wrong arguments are bad input too: one line, and exit status 2; what is misspelt is asked
    back, be it an option or one of its words."""

    given: Sequence[str] = ()
    """The words of the command line."""

    def error(self, message: str) -> NoReturn:
        leaf = chosen(self, self.given) if self.given else None
        parser = self if leaf is None else leaf[1]
        choice = CHOICE.fullmatch(message)
        unknown = _unknown_option(parser, self.given)
        if unknown is not None:
            message = unknown
        elif choice is not None:
            words = re.findall(r"[^\s,']+", choice[3])
            message = f"{choice[1]}: no {choice[2]!r}: {check.nearest(choice[2], words)}"
        elif message.startswith("unrecognized arguments: "):
            message = f"{message.replace('unrecognized arguments', 'too many words')}"
        self.exit(2, f"labelset: {_shown(message)} (see {parser.prog} --help)\n")


CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)


def _unknown_option(parser: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """The first option that there is not, and the one that was perhaps meant."""
    known = [option for action in parser._actions for option in action.option_strings]
    for word in words:
        name = word.partition("=")[0]
        if word == "--":
            break
        if name.startswith("--") and not any(option.startswith(name) for option in known):
            near = check.nearest(name, [option for option in known if option.startswith("--")])
            return f"{parser.prog} has no option {name}: {near}"
    return None


class _Help(argparse.HelpFormatter):
    """Paragraphs stay apart; one with lines set in, such as commands, stays as it is."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.split("\n\n")
        return "\n\n".join(
            part if "\n  " in f"\n{part}" else super(_Help, self)._fill_text(part, width, indent)
            for part in parts
        )


def make_parser(complete: Iterable[str] = VERBS) -> argparse.ArgumentParser:
    """The parser; of all verbs their names, of these the options too."""
    parser = _Parser(
        prog="labelset", description="Everything after the encoder in multi-label learning."
    )
    parser.add_argument("--version", action="version", version=f"labelset {labelset.__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for verb in VERBS:
        added = verbs.add_parser(verb, help=VERBS[verb], formatter_class=_Help)
        if verb in complete:
            module = importlib.import_module(f"labelset.cli.{verb}")
            added.description = getattr(module, "ABOUT", None)
            added.set_defaults(run=module.run)
            module.add(added)
            for _, leaf in leaves(added, verb):
                add_config(leaf)
    return parser

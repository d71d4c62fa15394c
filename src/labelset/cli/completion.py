"""`labelset completion`: what a shell needs to complete verbs, options and names."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from labelset import bench, calibrate, data, decide, encode, heads, losses, metrics
from labelset.cli.config import leaves

ABOUT = """Print the completion script of a shell. To use it now and in every later shell:

  bash   labelset completion bash > ~/.local/share/bash-completion/completions/labelset
  zsh    add to ~/.zshrc, after compinit:  source <(labelset completion zsh)
  fish   labelset completion fish > ~/.config/fish/completions/labelset.fish"""

NAMES: dict[str, Callable[[], list[str]]] = {
    **dict.fromkeys(("--loss", "--losses", "--baseline", "NAME"), losses.names),
    **dict.fromkeys(("--head", "--heads"), heads.names),
    **dict.fromkeys(("--optimise", "--metrics", "--per-label"), metrics.names),
    "--map": calibrate.names,
    "--rule": decide.names,
    "--encoder": encode.names,
    "--on": lambda: ["train", "valid", "test"],
    "--impl": lambda: list(bench.IMPLEMENTATIONS),
    "DATA": data.names,
}
FILES = ("pack --head",)
"""Options that take a file although others of that name take a name."""

Words = dict[str, list[str]]


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("shell", choices=SHELLS, help="whose script to print")
    verb.add_argument("--json", action="store_true", help="print JSON: what is completed where")


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    from labelset.cli import make_parser

    words = _words(make_parser())
    print(json.dumps(words, indent=1) if args.json else SHELLS[args.shell](words))


def _words(parser: argparse.ArgumentParser) -> Words:
    """What may follow: `` any verb, `VERB -` its options, `VERB --option` values, `VERB` others."""
    words: Words = {"": []}
    for name, leaf in leaves(parser):
        verb, *more = name.split()
        shown = [a for a in leaf._actions if a.help != argparse.SUPPRESS]
        options = [s for a in shown for s in a.option_strings if s[:2] == "--"]
        for place, found in (("", [verb]), (f"{verb} -", options), (verb, more)):
            words[place] = [*words.get(place, []), *found]
        for action in shown:
            place = f"{verb} {action.option_strings[-1]}" if action.option_strings else verb
            words[place] = words.get(place, []) + _values(verb, action)
    return {place: [*dict.fromkeys(found)] for place, found in words.items() if found}


def _values(verb: str, action: argparse.Action) -> list[str]:
    called = action.option_strings[-1] if action.option_strings else str(action.metavar or "NAME")
    if action.choices is not None:
        return list(map(str, action.choices))
    if f"{verb} {called}" in FILES or (called == "NAME" and action.dest != "name"):
        return []
    return NAMES[called]() if called in NAMES else []


def _cases(words: Words, line: str) -> str:
    places = {place: found for place, found in words.items() if place}
    return "\n".join(
        f"        '{place}') {line.format(' '.join(found))} ;;" for place, found in places.items()
    )


def _bash(words: Words) -> str:
    # bash cuts words at @, : and = as well: the words are those of the line, cut at spaces
    return f"""_labelset() {{
    local line="${{COMP_LINE:0:COMP_POINT}}" found="" option="" word i words
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    word="${{words[${{#words[@]}} - 1]}}"
    for (( i = 2; i < ${{#words[@]}} - 1; i++ )); do
        [[ ${{words[i]}} == --* ]] && option=" ${{words[i]}}"
    done
    [[ $word == -* ]] && option=" -"
    if (( ${{#words[@]}} <= 2 )); then found="{" ".join(words[""])}"; else
    case "${{words[1]}}$option" in
{_cases(words, 'found="{}"')}
    esac; fi
    COMPREPLY=( $(compgen -W "$found" -- "$word") )
    COMPREPLY=( "${{COMPREPLY[@]#"${{word%"${{word##*[@:=]}}"}}"}}" )
}}
complete -o default -F _labelset labelset"""


def _zsh(words: Words) -> str:
    return f"""_labelset() {{
    local option="" i
    for (( i = 3; i < CURRENT; i++ )); do
        [[ $words[i] == --* ]] && option=" $words[i]"
    done
    [[ $PREFIX == -* ]] && option=" -"
    if (( CURRENT <= 2 )); then compadd -- {" ".join(words[""])}; return; fi
    case "$words[2]$option" in
{_cases(words, "compadd -- {}")}
    esac
    [[ $option == " -" ]] || _files
}}
compdef _labelset labelset"""


def _fish(words: Words) -> str:
    return f"""function __labelset
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l option ""
    set -l found
    for other in $words[3..]
        string match -q -- "--*" $other; and set option " $other"
    end
    string match -q -- "-*" $word; and set option " -"
    if test (count $words) -lt 2
        set found {" ".join(words[""])}
    else
        switch "$words[2]$option"
{_fish_cases(words)}
        end
    end
    string match -q -- "$word*" $found; and printf "%s\\n" $found; or __fish_complete_path $word
end
complete -c labelset -f -a "(__labelset)\""""


def _fish_cases(words: Words) -> str:
    lines = [
        f"            case '{place}'\n                set found {' '.join(found)}"
        for place, found in words.items()
        if place
    ]
    return "\n".join(lines)


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}

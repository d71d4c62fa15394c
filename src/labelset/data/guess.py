"""Which columns of a table are text, labels, ids or splits, guessed from its first rows.

A guess states its reasons and the flags that say the same. Where several readings fit, it has
doubts, and the reader stops: data read in a wrong way give figures that look right."""

from __future__ import annotations

import csv
import itertools
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from labelset.data.formats import locate
from labelset.data.kinds import (
    ID_WORDS,
    Column,
    column,
    label_name,
    name_words,
    word_count,
    word_set,
)
from labelset.data.reading import kind_of, lines, rows_of
from labelset.files import optional

MOST_SHOWN = 40
"""Columns that are described."""
SAMPLE = 1000
"""Rows that are looked at."""
SINGLE = (
    *("id_column", "split_column", "group_column", "time_column"),
    *("weights", "image_column", "label_column"),
)
LISTED = (
    *("text_column", "label_columns", "ignore_columns"),
    *("feature_columns", "category_columns", "date_columns"),
)
LABELS = ("labels", "label_columns", "label_column")
TEXT_WORDS = word_set(
    "text body content contents description abstract comment review message tweet plot overview "
    "sentence document article post 文本 内容"
)
MOST_LISTED = 12
"""More label columns than this are counted in the flags, where that says the same."""


@dataclass(frozen=True)
class Doubt:
    """A question that the sample leaves open, and the keys that would answer it."""

    question: str
    answers: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Guess:
    """What the columns of a table are taken for."""

    columns: tuple[Column, ...]
    keys: dict[str, Any] = field(default_factory=dict)
    """The keys of a `Description` that say the same, without those that the user said."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why, for each of the keys."""
    doubts: tuple[Doubt, ...] = ()
    remarks: tuple[str, ...] = ()
    """What is certain enough to go on, but may surprise."""
    rows: int = 0
    """Rows that were looked at."""

    def column(self, name: str) -> Column:
        """What one column holds."""
        return next(c for c in self.columns if c.name == name)

    def flags(self, answer: Mapping[str, Any] | None = None) -> str:
        """Options that say the same, ready for a shell; `answer` replaces what was guessed.

        >>> Guess((), {"label_column": "tags", "delimiter": ";"}).flags()
        "--data label_column=tags --data 'delimiter=;'"
        """
        keys = dict(self.keys)
        if answer and set(answer) & set(LABELS):
            for key in (*LABELS, "delimiter", "labels_at"):
                keys.pop(key, None)
        if answer and "text_column" in answer:  # with a text nothing else is an input
            keys.pop("ignore_columns", None)
            if keys.get("id_column") == answer["text_column"]:
                keys.pop("id_column")
        return " ".join(
            f"--data {shlex.quote(f'{key}={_written(value)}')}"
            for key, value in (keys | dict(answer or {})).items()
        )

    def as_json(self) -> dict[str, Any]:
        """Plain words, for a report."""
        return {
            "columns": [{"name": c.name, "kind": c.kind, "why": c.why} for c in self.columns],
            "keys": self.keys,
            "reasons": self.reasons,
            "doubts": [
                {"question": d.question, "flags": [self.flags(answer) for answer in d.answers]}
                for d in self.doubts
            ],
            "flags": self.flags(),
            "described": self.described(),
            "explained": self.explained(),
        }

    def described(self) -> list[str]:
        """Lines for people: what each column holds, and why."""
        wide = max((len(c.name) for c in self.columns[:MOST_SHOWN]), default=0)
        lines = [f"{c.name:<{wide}}  {c.kind:<10}  {c.why}" for c in self.columns[:MOST_SHOWN]]
        more = len(self.columns) - MOST_SHOWN
        return [*lines, *([f"... and {more:,} more columns"] if more > 0 else [])]

    def explained(self) -> list[str]:
        """Lines for people: each key with its reason, what is left out, how to say otherwise."""
        said = [f"{key}={_written(value)}" for key, value in self.keys.items()]
        said = [s if len(s) <= 44 else f"{s[:41]}..." for s in said]
        wide = max(map(len, said), default=0)
        lines = [
            f"{s:<{wide}}  {self.reasons.get(key, '')}".rstrip()
            for s, key in zip(said, self.keys, strict=True)
        ]
        lines += [f"note: {remark}" for remark in self.remarks]
        return lines


def guess(
    names: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    *,
    said: Mapping[str, Any] | None = None,
    types: Mapping[str, str] | None = None,
    separator: str = ",",
) -> Guess:
    """What the columns are, from their names and some rows; of what the user `said` (keys of a
    `Description`) nothing is guessed. `types`: what the file states of columns ("list", "date").

    >>> table = [["a fine day at the sea", "sun;sea"], ["rain all over the north", "rain"]]
    >>> guess(["body", "tags"], table + [["sun and rain in the south", "sun;rain"]]).flags()
    "--data text_column=body --data label_column=tags --data 'delimiter=;'"
    """
    said = dict(said or {})
    keys: dict[str, Any] = {}
    doubts: list[Doubt] = []
    if types is None and "header" not in said:
        header = _has_header(names, rows)
        if header is None:
            question = "is the first line the names of the columns, or a row?"
            doubts.append(Doubt(question, ({"header": True}, {"header": False})))
        elif not header:
            keys["header"] = False
    if keys.get("header", said.get("header", True)) is False:
        rows = [list(names), *rows]
        names = [str(at) for at in range(len(names))]
    columns = tuple(
        column(
            name,
            [row[at] if at < len(row) else None for row in rows],
            declared=(types or {}).get(name),
            comma=separator == ";",
        )
        for at, name in enumerate(names)
    )
    found = _Guesser(_with_dead_labels(columns), said).guessed()
    reasons = dict(found.reasons)
    if "header" in keys:
        reasons["header"] = "the first line looks like the others"
    return replace(
        found,
        keys=keys | found.keys,
        reasons=reasons,
        doubts=(*doubts, *found.doubts),
        rows=len(rows),
    )


class Doubtful(ValueError):
    """The columns of a file can be read in several ways; `guess` says which."""

    def __init__(self, path: Path, guess: Guess) -> None:
        doubt = guess.doubts[0]
        flags = " or ".join(guess.flags(answer) for answer in doubt.answers)
        super().__init__(f"{path}: {doubt.question}{f' Say {flags}' if flags else ''}")
        self.guess = guess


def guess_file(path: Path, kind: str, said: Mapping[str, Any]) -> Guess:
    """The guess of a table's columns from its first rows; `kind`: csv, jsonl or parquet."""
    if kind == "parquet":
        head = optional("pyarrow.parquet", "Parquet files", "parquet").ParquetFile(path)
        batch = next(head.iter_batches(SAMPLE), None)
        names = head.schema_arrow.names
        lists = [] if batch is None else [column.to_pylist() for column in batch.columns]
        rows = [[_cell(cell) for cell in row] for row in zip(*lists, strict=True)]
        return guess(names, rows, said=said, types={})
    if kind == "jsonl":
        items = [json.loads(line) for _, line in itertools.islice(rows_of(path), SAMPLE)]
        items = [i for i in items if isinstance(i, dict) and i.get("header") is not True]
        names = list(dict.fromkeys(key for item in items for key in item))
        return guess(names, [[_cell(i.get(n)) for n in names] for i in items], said=said, types={})
    usual = str(said.get("separator") or ("\t" if kind_of(path) == "tsv" else ","))
    separator, others = usual, tuple[str, ...]()
    if "separator" not in said:
        first = list(itertools.islice(lines(path), SAMPLE))
        while len(first) > 1 and "".join(first).count('"') % 2:
            first.pop()  # a cell that goes on
        separator, others = separator_of(first, usual)
    table = locate.rows_of(lines(path), separator)
    cells = [row for _, row in itertools.islice(table, SAMPLE)]
    names = [cell.strip() for cell in cells[0]] if cells else []
    made = guess(names, cells[1:], said=said, separator=separator)
    if separator != usual:
        keys, why = {"separator": separator}, "with it all lines have equally many cells"
        made = replace(made, keys=keys | made.keys, reasons=made.reasons | {"separator": why})
    if others:
        question = "what stands between the cells?"
        answers = tuple({"separator": mark} for mark in (separator, *others))
        made = replace(made, doubts=(Doubt(question, answers), *made.doubts))
    return made


def _cell(value: Any) -> str | None:
    """A value as a CSV file would have it."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def separator_of(lines: Iterable[str], usual: str = ",") -> tuple[str, tuple[str, ...]]:
    """What stands between the cells of a CSV file, from its first lines: the one with which all
    have equally many cells; then others that would do as well.

    >>> separator_of(["a;b", "1,5;2,5", "0,5;1"])
    (';', ())
    """
    sample = [line for line in lines if line.strip()]
    widths: dict[str, int] = {}
    for mark in (usual, *(s for s in locate.SEPARATORS if s != usual)):
        try:
            counts = {len(row) for row in csv.reader(sample, delimiter=mark, strict=True) if row}
        except csv.Error:
            continue
        if len(counts) == 1 and (width := counts.pop()) > 1:
            widths[mark] = width
    if not widths or usual in widths:
        return usual, tuple(mark for mark in widths if mark != usual)
    best = max(widths, key=lambda mark: widths[mark])
    return best, tuple(mark for mark in widths if mark != best)


def _written(value: Any) -> str:
    """A value as `--data KEY=VALUE` reads it: JSON only where the plain text would not do."""
    if isinstance(value, list):
        plain = all(isinstance(v, str) and v and v == v.strip() and "," not in v for v in value)
        text = ",".join(value) if plain else json.dumps(value, ensure_ascii=False)
        return json.dumps(value, ensure_ascii=False) if plain and _is_json(text) else text
    if not isinstance(value, str):
        return json.dumps(value)
    return json.dumps(value, ensure_ascii=False) if _is_json(value) else value


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _has_header(names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> bool | None:
    """Whether the first line names the columns: None where it may or may not."""
    if [n.strip() for n in names] in (
        [str(at) for at in range(len(names))],
        [str(at + 1) for at in range(len(names))],
    ):
        return True
    for_names = for_row = 0
    for at, name in enumerate(names):
        cells = [row[at] if at < len(row) else None for row in rows]
        judged = column("", cells)
        kind = judged.kind
        own = column("", [name, name]) if not name.strip() else column("", [name])
        if kind in ("number", "date", "0-1 label", "vector") or _numeric(cells):
            same = own.kind == kind or _numeric([name])
            for_names, for_row = for_names + (not same), for_row + same
        elif word_count(name) > 6 or len(name) > 60:
            for_row += 2
        elif name.strip() and sum(cell == name for cell in cells if cell) >= 2:
            for_row += 1
        elif kind == "label list":
            mark = judged.delimiter or ""
            known = set(re.split(rf"[{re.escape(mark)}'\" ,\[\]]+", name)) & set(judged.values)
            for_names, for_row = for_names + (not known), for_row + bool(known)
        elif kind in ("text", "picture") and own.kind != kind:
            for_names += 1
    if for_row and for_names:
        return None
    return not for_row


def _numeric(cells: Sequence[str | None]) -> bool:
    filled = [cell for cell in cells if cell and cell.strip()]
    return bool(filled) and all(re.fullmatch(r"\s*[+-]?[\d.,]*\d[\d.,]*\s*", c) for c in filled)


def _with_dead_labels(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Constant columns of zeros among columns of zeros and ones are labels as these are."""
    out = list(columns)
    for order in (range(1, len(out)), range(len(out) - 2, -1, -1)):
        for at in order:
            beside = out[at - 1] if order.step == 1 else out[at + 1]
            before = out[at - 1].kind if at else "id"
            if out[at].kind != "constant" or not out[at].values or beside.kind != "0-1 label":
                continue
            inner = order.step == 1 or before in ("text", "id", "picture", "split")
            if inner and out[at].values[0].lower() == beside.values[0]:
                why = f"{out[at].why} looked at, beside labels"
                out[at] = replace(out[at], kind="0-1 label", why=why, values=beside.values)
    return tuple(out)


class _Guesser:
    """The choice among columns whose kinds are known."""

    def __init__(self, columns: tuple[Column, ...], said: Mapping[str, Any]) -> None:
        self.columns, self.said = columns, said
        self.keys: dict[str, Any] = {}
        self.reasons: dict[str, str] = {}
        self.doubts: list[Doubt] = []
        self.remarks: list[str] = []
        self.taken = self._said_columns()

    def guessed(self) -> Guess:
        labels = [] if set(LABELS) & set(self.said) else self._labels()
        self._said_label_column()
        self._inputs(labels)
        self._roles()
        self._rest(labels)
        for c in self.free("group"):
            self.remarks.append(
                f"{c.name!r} holds names that come back: --data group_column={_written(c.name)} "
                "keeps the rows of each on one side of every split"
            )
        order = [*("header", "text_column", "image_column"), *LABELS, "labels_at", "delimiter"]
        keys = sorted(self.keys, key=lambda k: order.index(k) if k in order else len(order))
        return Guess(
            columns=self.columns,
            keys={key: self.keys[key] for key in keys},
            reasons=self.reasons,
            doubts=tuple(self.doubts),
            remarks=tuple(self.remarks),
        )

    def _said_columns(self) -> set[str]:
        names = [c.name for c in self.columns]
        taken = {self.said[key] for key in SINGLE if self.said.get(key) is not None}
        for key in LISTED:
            patterns = self.said.get(key) or []
            patterns = patterns.split(",") if isinstance(patterns, str) else patterns
            for pattern in patterns:
                taken |= {n for n in names if n == pattern or fnmatchcase(n, pattern.strip())}
        if isinstance(self.said.get("labels"), int):
            rest = [name for name in names if name not in taken]
            count = abs(self.said["labels"])
            start = self.said.get("labels_at") == "start"
            taken |= set(rest[:count] if start else rest[max(len(rest) - count, 0) :])
        return taken

    def free(self, *kinds: str) -> list[Column]:
        """Columns of those kinds that have no role yet."""
        return [c for c in self.columns if c.kind in kinds and c.name not in self.taken]

    def take(self, key: str, chosen: Column) -> None:
        """Give a column its role."""
        listed = key in LISTED and "," in chosen.name  # commas part the names of a list
        self.keys[key] = [chosen.name] if listed else chosen.name
        self.reasons[key] = chosen.why
        self.taken.add(chosen.name)

    # ---- labels

    def _said_label_column(self) -> None:
        """The user named the column: only what stands between its labels is open."""
        name = self.said.get("label_column")
        if name is None or "delimiter" in self.said:
            return
        for chosen in self.columns:
            if chosen.name == name and chosen.kind == "label list":
                self._delimiter(chosen)

    def _delimiter(self, chosen: Column) -> None:
        assert chosen.delimiter is not None
        self.keys["delimiter"] = chosen.delimiter
        self.reasons["delimiter"] = chosen.why
        if chosen.doubt:
            answers = ({**self._column_key(chosen), "delimiter": mark} for mark in _marks(chosen))
            self.doubts.append(Doubt(f"column {chosen.name!r}: {chosen.doubt}", tuple(answers)))

    def _column_key(self, chosen: Column) -> dict[str, Any]:
        return {} if "label_column" in self.said else {"label_column": chosen.name}

    def _labels(self) -> list[str]:
        """Choose the labels, or say between what; returns columns that hold labels, all readings
        together, so that none of them becomes a feature."""
        lists = self.free("label list")
        blocks, block_doubt = self._blocks()
        classes = self._classes()
        every = [[c.name] for c in (*lists, *classes)] + blocks
        best = self._best_list(lists, blocks, classes)
        if best is not None:
            self.take("label_column", best)
            self._delimiter(best)
            return self._say_the_same(best, blocks)
        if not lists and len(blocks) == 1 and not any(label_name(c.name) for c in classes):
            self._take_block(blocks[0], block_doubt)
            return blocks[0]
        if not lists and not blocks and len(classes) == 1 and label_name(classes[0].name):
            self.take("label_column", classes[0])
            self.reasons["label_column"] += ", one in each row"
            return [classes[0].name]
        answers = [self._list_answer(c) for c in lists]
        answers += [self._block_keys(block) for block in blocks]
        answers += [{"label_column": c.name} for c in classes]
        self.doubts.append(Doubt(_which(answers), tuple(answers)))
        return [name for names in every for name in names]

    def _list_answer(self, c: Column) -> dict[str, Any]:
        return {"label_column": c.name, "delimiter": c.delimiter}

    def _best_list(
        self, lists: list[Column], blocks: list[list[str]], classes: list[Column]
    ) -> Column | None:
        """The one column of label lists, or the one that bears such a name."""
        if not lists:
            return None
        ranked = sorted(lists, key=lambda c: label_name(c.name), reverse=True)
        best, level = ranked[0], label_name(ranked[0].name)
        if len(ranked) > 1 and label_name(ranked[1].name) == level:
            return None
        if any(label_name(c.name) >= level and label_name(c.name) for c in classes):
            return None
        same = all(set(block) <= set(best.values) for block in blocks)
        if blocks and not same and (level < 2 or any(len(block) > 1 for block in blocks)):
            return None
        if level == 0 and best.doubt:
            return None
        return best

    def _say_the_same(self, best: Column, blocks: list[list[str]]) -> list[str]:
        twice = [name for block in blocks for name in block if name in best.values]
        if twice:
            some = ", ".join(twice[:3]) + (", ..." if len(twice) > 3 else "")
            self.remarks.append(f"columns {some} repeat what {best.name!r} lists: left out")
        return [best.name, *twice]

    def _classes(self) -> list[Column]:
        """Columns that may hold one label per row."""
        found = [
            c
            for c in self.free("category", "number")
            if 2 <= c.distinct <= max(20, c.rows // 3)
            and (c.kind == "category" or (c.values and label_name(c.name) == 2))
        ]
        top = max((label_name(c.name) for c in found), default=0)
        return [c for c in found if label_name(c.name) == top]

    def _blocks(self) -> tuple[list[list[str]], str]:
        """Columns of zeros and ones that may be labels together, and what speaks against it."""
        binary = self.free("0-1 label")
        if not binary:
            return [], ""
        if len(binary) == 1:
            alone = label_name(binary[0].name) == 2
            return [[binary[0].name]], "" if alone else "only one column holds 0 and 1"
        stems = _stems([c.name for c in binary])
        named = [group for stem, group in stems.items() if label_name(stem) == 2]
        if len(named) == 1:
            return named, ""
        others = [c for c in self.columns if c.name not in self.taken and c not in binary]
        inputs = [c for c in others if c.kind in ("text", "picture", "vector")]
        runs = self._runs(binary)
        if len(runs) > 1:
            every = [c.name for c in binary]
            largest = max(runs, key=len)
            written = self._column(largest[0]).values
            strays = [c for c in binary if c.name not in largest]
            if len(largest) >= 3 and all(c.values != written for c in strays):
                self.remarks.append(
                    f"{strays[0].name!r} ({strays[0].why}) is not taken for a label"
                )
                return [largest], ""
            return ([every] if len(largest) < 2 else [largest, every]), ""
        if inputs or len(stems) == 1 or not self._numbers_beside(others):
            doubt = "" if inputs or others else "every column holds 0 and 1"
            return runs, doubt
        other_stems = _stems([c.name for c in others if c.kind in ("number", "constant")])
        if len(other_stems) == 1 and not set(other_stems) & set(stems):
            return runs, ""
        return runs, "some of the columns that hold 0 and 1 may be features"

    def _numbers_beside(self, others: list[Column]) -> bool:
        return any(c.kind == "number" for c in others)

    def _runs(self, binary: list[Column]) -> list[list[str]]:
        """Neighbours that write 0 and 1 alike."""
        runs: list[list[str]] = []
        last: Column | None = None
        for c in self.columns:
            if c in binary:
                alike = last is not None and last in binary and last.values == c.values
                runs = [*runs[:-1], [*runs[-1], c.name]] if alike else [*runs, [c.name]]
            last = c
        return runs

    def _take_block(self, block: list[str], doubt: str) -> None:
        keys = self._block_keys(block)
        if doubt:
            self.doubts.append(Doubt(f"{doubt}: are these the labels?", (keys,)))
        self.keys |= keys
        first = self._column(block[0])
        some = ", ".join(block[:4]) + (", ..." if len(block) > 4 else "")
        each = f"{len(block)} columns of" if len(block) > 1 else "one column of"
        why = f"{each} {first.values[0]} or {first.values[1]}: {some}"
        self.reasons |= dict.fromkeys(keys, why)
        self.taken |= set(block)

    def _column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)

    def _block_keys(self, block: list[str]) -> dict[str, Any]:
        names = [c.name for c in self.columns]
        prefix = _prefix(block)
        if len(prefix) >= 2 and not set("*?[],") & set(prefix):
            like = [name for name in names if name.startswith(prefix)]
            if like == block and len(block) > 2:
                return {"label_columns": [f"{prefix}*"]}
        if len(block) > MOST_LISTED and names[-len(block) :] == block:
            return {"labels": len(block)}
        return {"label_columns": block}

    # ---- inputs and the rest

    def _inputs(self, labels: list[str]) -> None:
        if {"text_column", "image_column", "feature_columns", "texts", "features"} & set(self.said):
            return
        pictures = self.free("picture")
        if len(pictures) == 1:
            self.take("image_column", pictures[0])
            return
        texts = [c for c in self.free("text") if c.name not in labels]
        if not texts:
            usable = [c for c in self.free("number", "0-1 label") if c.name not in labels]
            if not usable:
                short = [c for c in self.free("category", "id") if c.name not in labels]
                short.sort(key=lambda c: (not _text_name(c.name), -c.words))
                self.doubts.append(
                    Doubt(
                        "no column holds texts or numbers: what is to be learned from?",
                        tuple({"text_column": c.name} for c in short),
                    )
                )
            return
        best = max(texts, key=lambda c: (_text_name(c.name), c.words))
        rivals = [c for c in texts if c is not best and c.words * 3 > best.words]
        rivals = [c for c in rivals if _text_name(c.name) == _text_name(best.name)]
        if rivals:
            both = [c for c in texts if c is best or c in rivals]
            several = " and ".join(repr(c.name) for c in both)
            each: list[Any] = [c.name for c in both]
            answers = tuple({"text_column": reading} for reading in (*each, each))
            self.doubts.append(Doubt(f"{several} hold texts: which is to be read?", answers))
        elif best.doubt:
            question = f"column {best.name!r}: {best.doubt}: is it the text?"
            self.doubts.append(Doubt(question, ({"text_column": best.name},)))
        self.take("text_column", best)
        more = [c.name for c in texts if c is not best and c not in rivals]
        if more:
            said = _written([best.name, *more])
            several = f"{' and '.join(map(repr, more))} hold{'s' * (len(more) == 1)} text too"
            self.remarks.append(f"{several}, not read: text_column={said} reads all as one")

    def _roles(self) -> None:
        if "id_column" not in self.said and (ids := self.free("id")):
            self.take("id_column", max(ids, key=lambda c: (_id_name(c.name), -ids.index(c))))
        if "split_column" not in self.said and "split" not in self.said:
            splits = [c for c in self.free("split") if c.distinct > 1 or c.missing == 0]
            if len(splits) == 1:
                self.take("split_column", splits[0])
            elif splits:
                answers = tuple({"split_column": c.name} for c in splits)
                self.doubts.append(Doubt("several columns name train and test rows", answers))

    def _rest(self, labels: list[str]) -> None:
        """Columns that no reader of numbers can take are left out by name."""
        inputs = self.keys | dict(self.said)
        if inputs.get("text_column") or inputs.get("image_column") or "feature_columns" in inputs:
            return
        plain = ("0", "0.0")
        out = [
            c
            for c in self.columns
            if c.name not in self.taken
            and (
                c.name in labels
                or c.kind in ("category", "date", "text", "id", "split", "group", "picture")
                or c.kind in ("label list", "vector")
                or (c.kind == "0-1 label" and c.values[0] not in plain)
                or (c.kind == "constant" and not _numeric(c.values))
            )
        ]
        if out and "ignore_columns" not in self.said:
            self.keys["ignore_columns"] = [c.name for c in out]
            kinds = dict.fromkeys(c.kind for c in out)
            for kind, key in (("category", "category_columns"), ("date", "date_columns")):
                some = [c.name for c in out if c.kind == kind and c.name not in labels]
                if some:
                    self.remarks.append(f"--data {key}={_written(some)} reads these as well")
            self.reasons["ignore_columns"] = f"neither numbers nor labels ({', '.join(kinds)})"
        if any(c.comma for c in self.columns if c.name not in self.taken and c not in out):
            doubts = [c for c in self.columns if c.comma and c.doubt]
            if doubts:
                question = f"column {doubts[0].name!r}: {doubts[0].doubt}"
                answers = ({"decimal": ","}, {"ignore_columns": [c.name for c in doubts]})
                self.doubts.append(Doubt(question, answers))
            elif "decimal" not in self.said:
                self.keys["decimal"] = ","
                self.reasons["decimal"] = "numbers are written with a decimal comma"


def _marks(chosen: Column) -> list[str]:
    """Delimiters that the cells of a column may have, the likeliest first."""
    named = [mark for mark in ("|", ";", ",", "/") if repr(mark) in chosen.doubt]
    own = chosen.delimiter or "|"
    return list(dict.fromkeys([own, *(named or ["|"])]))  # "|" leaves such cells whole


def _which(answers: Sequence[Mapping[str, Any]]) -> str:
    if not answers:
        return (
            "no column looks like labels: neither lists of names, nor columns of 0 and 1, nor few "
            "values; say which with label_column or label_columns"
        )
    if len(answers) == 1:
        return "is this the column (or columns) with the labels?"
    return f"{len(answers)} readings are possible: which are the labels?"


def _prefix(names: Sequence[str]) -> str:
    """The characters with which all names start."""
    first, last = min(names), max(names)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return first[:same]


def _stems(names: Sequence[str]) -> dict[str, list[str]]:
    """Names by what they start with: `label_a, label_b`, `Class1, Class2`, `tag:x`.

    >>> _stems(["Class1", "Class2", "y_a", "rain"])
    {'Class': ['Class1', 'Class2'], 'y': ['y_a'], 'rain': ['rain']}
    """
    out: dict[str, list[str]] = {}
    for name in names:
        head = re.match(r"(.+?)(?:[_:.\- ].*|\d+)$", name)
        out.setdefault(head[1] if head else name, []).append(name)
    return out


def _text_name(name: str) -> bool:
    return bool(set(name_words(name)) & TEXT_WORDS)


def _id_name(name: str) -> int:
    words = name_words(name)
    return 2 if words in (["id"], []) else int(bool(set(words) & ID_WORDS))

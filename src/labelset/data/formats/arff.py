"""ARFF files (Weka, Mulan, MEKA): features and labels from attributes; Mulan's XML of labels.

A numeric or {0, 1} attribute is one feature; a nominal one with values a, b, c is two, "name=b" and
"name=c" (a sparse row leaves the first value out, so it is the one without a column). Strings are
left out unless they are the text or the row's name. Kept our own: scipy reads no sparse rows, and
neither it nor liac-arff streams.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from torch import Tensor

from labelset.data.columns import Columns, Piece, gathered, is_full, truth
from labelset.data.dataset import part_numbers, unique_names
from labelset.data.description import Description
from labelset.data.reading import as_number, lines, reading
from labelset.data.sparse import SparseRows
from labelset.labels import Labels

WORD = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
ATTRIBUTE = re.compile(rf"@attribute\s+({WORD}|[^\s{{]+)\s*(.*)", re.IGNORECASE | re.DOTALL)
CELL = re.compile(rf"\s*({WORD}|[^,'\"]*?)\s*(?:,|$)")
NUMERIC = ("numeric", "real", "integer")


@dataclass(frozen=True)
class Attribute:
    """One column: its name, its kind, and its values if it is nominal."""

    name: str
    kind: str
    values: tuple[str, ...] = ()

    @property
    def binary(self) -> bool:
        """Whether its values are the numbers 0 and 1."""
        return set(self.values) == {"0", "1"}


def attribute(line: str) -> Attribute:
    """From a line `@attribute NAME TYPE`.

    >>> attribute("@ATTRIBUTE 'with blank' {0, 1}")
    Attribute(name='with blank', kind='nominal', values=('0', '1'))
    """
    match = ATTRIBUTE.fullmatch(line)
    if match is None or not match[2]:
        raise ValueError("expected @attribute NAME TYPE")
    name, kind = unquoted(match[1]), match[2].strip()
    if kind.startswith("{"):
        if not kind.endswith("}"):
            raise ValueError(f"the values of attribute {name!r} do not end with }}")
        values = tuple(cells(kind[1:-1]))
        if len(set(values)) < len(values):
            raise ValueError(f"attribute {name!r} has a value twice")
        return Attribute(name, "nominal", values)
    word = kind.split()[0].lower()
    if word in NUMERIC:
        return Attribute(name, "numeric")
    if word in ("string", "date"):
        return Attribute(name, "string")
    raise ValueError(f"attribute {name!r} has type {kind!r}; known: numeric, nominal, string")


def cells(text: str) -> Iterator[str]:
    """The cells of a line, between commas, quotes taken off.

    >>> list(cells("1, 'a, b' ,?"))
    ['1', 'a, b', '?']
    """
    at = 0
    while True:
        match = CELL.match(text, at)
        if match is None:
            raise ValueError(f"cannot read {text[at : at + 30]!r}: a quote is not closed")
        yield unquoted(match[1])
        at = match.end()
        if at >= len(text) and not match[0].endswith(","):
            return


def unquoted(word: str) -> str:
    """Without quotes; a backslash guards a quote, a percent sign and itself."""
    if len(word) > 1 and word[0] in "'\"" and word[-1] == word[0]:
        return re.sub(r"\\(['\"%\\])", r"\1", word[1:-1])
    return word


def meka_labels(relation: str) -> tuple[int, str] | None:
    """MEKA keeps the number of labels in the relation's name: -C 14 first, -C -14 last.

    >>> meka_labels("'yeast: -C 14'"), meka_labels("'x: -C -3 -S 1'"), meka_labels("plain")
    ((14, 'start'), (3, 'end'), None)
    """
    match = re.search(r"-C\s+(-?\d+)\b", relation, re.IGNORECASE)
    if match is None or int(match[1]) == 0:
        return None
    count = int(match[1])
    return abs(count), "start" if count > 0 else "end"


@dataclass
class Rows:
    """Rows of an ARFF file as numbers: a nominal cell is the place of its value, ? is NaN."""

    relation: str = ""
    attributes: list[Attribute] = field(default_factory=list)
    sparse: bool | None = None
    lines: list[int] = field(default_factory=list)
    """Line of each row."""
    codes: array[float] = field(default_factory=lambda: array("f"))
    places: array[int] = field(default_factory=lambda: array("q"))
    """Sparse rows only: the attribute of each code."""
    lengths: list[int] = field(default_factory=list)
    """Sparse rows only: codes of each row."""
    strings: dict[int, list[str]] = field(default_factory=dict)
    letters: int = 0
    """Of the strings."""

    def dense(self) -> np.ndarray[Any, Any]:
        """(rows, attributes) float32."""
        return np.asarray(self.codes, dtype=np.float32).reshape(len(self.lines), -1)


def head(path: Path) -> Rows:
    """What stands before the rows."""
    table = Rows()
    with reading(path):
        _read_head(table, _statements(path))
    return table


def parsed(path: Path) -> Iterator[Rows]:
    """The rows, some at a time."""
    table = Rows()
    with reading(path):
        source = _statements(path)
        _read_head(table, source)
        plain = all(a.kind == "numeric" or a.values == ("0", "1") for a in table.attributes)
        for number, line in source:
            try:
                _row(table, line, plain)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"line {number}: {error}") from None
            table.lines.append(number)
            if is_full(len(table.lines), len(table.codes) + table.letters):
                _refuse_bad(table)
                yield table
                table = Rows(table.relation, table.attributes, table.sparse)
        if table.lines:
            _refuse_bad(table)
            yield table


def _statements(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines(path), 1):
        text = line.strip()
        if text and not text.startswith("%"):
            yield number, text


def _read_head(table: Rows, source: Iterator[tuple[int, str]]) -> None:
    """Everything up to @data."""
    number = 0
    for number, line in source:
        word = line.split()[0].lower()
        if word == "@data":
            if not table.attributes:
                raise ValueError(f"line {number}: @data comes before any @attribute")
            return
        if word == "@relation":
            table.relation = line[len("@relation") :].strip()
        elif word == "@attribute":
            try:
                table.attributes.append(attribute(line))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
        else:
            start = line[:30]
            raise ValueError(
                f"line {number}: expected @relation, @attribute or @data, got {start!r}"
            )
    raise ValueError(f"line {number}: the file ends before @data" if number else "is empty")


def _row(table: Rows, line: str, plain: bool) -> None:
    sparse = line.startswith("{")
    if table.sparse is None:
        table.sparse = sparse
    if sparse != table.sparse:
        raise ValueError("sparse and dense rows in one file")
    if sparse:
        _sparse_row(table, line, plain)
    else:
        _dense_row(table, line, plain)


def _dense_row(table: Rows, line: str, plain: bool) -> None:
    quoted = "'" in line or '"' in line
    row = list(cells(line)) if quoted else line.split(",")
    if len(row) != len(table.attributes):
        raise ValueError(f"expected {len(table.attributes)} cells, got {len(row)}")
    if plain and "_" not in line:
        try:
            table.codes.extend(list(map(float, row)))
            return
        except ValueError:
            pass  # a ? or a bad cell: look at each
    for at, (about, cell) in enumerate(zip(table.attributes, row, strict=True)):
        if about.kind == "string":
            table.strings.setdefault(at, []).append(cell.strip())
            table.letters += len(cell)
            table.codes.append(0.0)
        else:
            table.codes.append(_code(about, cell.strip()))


def _sparse_row(table: Rows, line: str, plain: bool) -> None:
    if not line.endswith("}"):
        raise ValueError("a sparse row does not end with }")
    body, count = line[1:-1].strip(), 0
    if plain and _plain_pairs(table, body):
        return
    for pair in cells_of_pairs(body):
        place, _, cell = pair.partition(" ")
        if not (place.isascii() and place.isdigit() and int(place) < len(table.attributes)):
            most = len(table.attributes) - 1
            raise ValueError(f"expected an attribute number in 0..{most}, got {place!r}")
        about = table.attributes[int(place)]
        if about.kind == "string":
            raise ValueError(f"string attribute {about.name!r} in a sparse row")
        table.places.append(int(place))
        quoted = cell[:1] in ("'", '"')
        table.codes.append(_code(about, next(cells(cell)) if quoted else cell))
        count += 1
    used = table.places[len(table.places) - count :]
    if len(set(used)) < count:
        raise ValueError("an attribute appears twice")
    table.lengths.append(count)


def _plain_pairs(table: Rows, body: str) -> bool:
    """Add a row of nothing but pairs of numbers; whether it was one: else each is to be seen."""
    if "_" in body:
        return False
    try:
        places, codes = zip(*map(str.split, body.split(",")), strict=True)
        numbers, values = list(map(int, places)), list(map(float, codes))
    except ValueError:
        return False
    digits = "".join(places)
    known = digits.isascii() and digits.isdigit() and max(numbers) < len(table.attributes)
    if not known or len(set(numbers)) < len(numbers):
        return False
    table.places.extend(numbers)
    table.codes.extend(values)
    table.lengths.append(len(numbers))
    return True


def cells_of_pairs(body: str) -> list[str]:
    """`3 1, 7 'a, b'` -> `3 1` and `7 'a, b'`."""
    if not body:
        return []
    if "'" not in body and '"' not in body:
        return [" ".join(pair.split()) for pair in body.split(",")]
    out, start, quote = [], 0, ""
    for at, letter in enumerate(body):
        if quote:
            quote = "" if letter == quote and body[at - 1] != "\\" else quote
        elif letter in "'\"":
            quote = letter
        elif letter == ",":
            out.append(body[start:at].strip())
            start = at + 1
    return [*out, body[start:].strip()]


def _code(about: Attribute, cell: str) -> float:
    if cell == "?":
        return float("nan")
    if about.kind == "numeric" or (about.binary and cell in ("0", "1")):
        try:
            return as_number(cell)
        except ValueError:
            raise ValueError(f"attribute {about.name!r}: expected a number, got {cell!r}") from None
    if cell in about.values:
        return float(about.values.index(cell))
    known = ", ".join(about.values[:10])
    raise ValueError(f"attribute {about.name!r}: expected one of {known}, got {cell!r}")


def _refuse_bad(table: Rows) -> None:
    """No infinite number, and nothing but 0 and 1 where only these are declared."""
    binary = np.array([a.binary for a in table.attributes])
    if table.sparse:
        places, codes = np.asarray(table.places), np.asarray(table.codes)
        two = binary[places]
    else:
        codes, two = table.dense(), binary
    bad = np.isinf(codes) | (two & (codes != 0) & (codes != 1) & ~np.isnan(codes))
    if not bad.any():
        return
    at = int(bad.argmax())
    if table.sparse:
        row, place = int(np.searchsorted(np.cumsum(table.lengths), at, side="right")), places[at]
    else:
        row, place = divmod(at, len(table.attributes))
    about = table.attributes[int(place)]
    wanted = "0 or 1" if about.binary else "finite in float32"
    got = codes.reshape(-1)[at]
    raise ValueError(
        f"line {table.lines[row]}: attribute {about.name!r} must be {wanted}, got {got:g}"
    )


def label_names(path: Path) -> list[str]:
    """The names, in the order of the file; labels within labels (a hierarchy) are listed too."""
    with reading(path):
        try:
            root = ElementTree.fromstring(path.read_bytes())
        except ElementTree.ParseError as error:
            raise ValueError(f"line {error.position[0]}: not XML ({error})") from None
        elements = [e for e in root.iter() if e.tag.rpartition("}")[2] == "label"]
        names = [e.get("name") for e in elements]
        if not names or None in names:
            raise ValueError('expected <label name="..."/> elements, one per label')
        found = [name for name in names if name is not None]
        unique_names(found)
        return found


Array = np.ndarray[Any, Any]


def read(
    paths: Sequence[Path], ask: Description, role: str, names: list[str] | None = None
) -> list[Piece]:
    """`names`: which attributes are labels, from Mulan's XML."""
    first = head(paths[0])
    pieces = []
    for path in paths:
        with reading(path):
            if head(path).attributes != first.attributes:
                raise ValueError(f"its attributes are not those of {paths[0]}")
            pieces.append(gathered(blocks(path, ask, role, names), ask.memory << 20))
    return pieces


def blocks(
    path: Path, ask: Description, role: str, names: list[str] | None = None
) -> Iterator[Piece]:
    """The rows, some at a time."""
    with reading(path):
        before = head(path)
        ask, notes = _located(before.relation, ask, names)
        columns = Columns.of([a.name for a in before.attributes], ask, role, names)
        words = {at for at, a in enumerate(before.attributes) if a.kind == "string"}
        used = [at for at in columns.features if at not in words]
        lost = [before.attributes[at].name for at in columns.features if at in words]
        columns = replace(columns, features=used, left_out=columns.left_out + lost)
        for table in parsed(path):
            yield _piece(path, table, columns, ask, notes + columns.note())


def _piece(
    path: Path, table: Rows, columns: Columns, ask: Description, notes: tuple[str, ...]
) -> Piece:
    text, ids, split = (
        None if at is None else _strings(table, at)
        for at in (next(iter(columns.texts), None), columns.id, columns.split)
    )
    used = [table.attributes[at] for at in columns.features]
    values = {a.name: list(a.values[1:]) for a in used if _in_words(a)}
    if ask.schema is not None:
        values |= {name: ask.schema.categories.get(name, values[name]) for name in values}
    return Piece(
        path=path,
        rows=len(table.lines),
        features=_features(table, columns.features, values) if columns.features else None,
        columns=[table.attributes[at].name for at in columns.features],
        facts={"categories": values},
        labels=_labels(table, columns.labels, ask.unknown) if columns.labels else None,
        names=[table.attributes[at].name for at in columns.labels] or None,
        texts=text,
        ids=ids,
        split=None if split is None else part_numbers(split, table.lines),
        notes=notes,
    )


def _located(
    relation: str, ask: Description, names: list[str] | None
) -> tuple[Description, tuple[str, ...]]:
    """Where the labels are if only the relation's name says so."""
    meka = meka_labels(relation)
    told = names is not None or ask.label_columns is not None or isinstance(ask.labels, str)
    if meka is None or told:
        return ask, ()
    count, where = meka
    if ask.labels is None:
        found = replace(ask, labels=count, labels_at=where)
        return found, (f"labels: the {count} attributes at the {where}, as the relation says",)
    if ask.labels_at is None and abs(int(ask.labels)) == count:
        return replace(ask, labels_at=where), (f"labels lie at the {where}, as the relation says",)
    return ask, ()


def _strings(table: Rows, at: int) -> list[str]:
    if at in table.strings:
        return table.strings[at]
    about = table.attributes[at]
    if table.sparse:
        raise ValueError(f"attribute {about.name!r} of sparse rows cannot be read as words")
    codes = table.dense()[:, at]
    if about.kind == "numeric" or about.binary:
        return [f"{code:g}" for code in codes]
    return ["?" if np.isnan(code) else about.values[int(code)] for code in codes]


def _labels(table: Rows, columns: list[int], unknown: int | None) -> Labels:
    if not table.sparse:
        block = table.dense()[:, columns]
        for label, at in enumerate(columns):
            if _in_words(table.attributes[at]):
                block[:, label] = _truths(table.attributes[at], block[:, label])
        return Labels.from_dense(_checked(table, block, lambda at: at // len(columns), unknown))
    number = np.full(len(table.attributes), -1)
    number[columns] = np.arange(len(columns))
    rows, places, codes = (part[number[np.asarray(table.places)] >= 0] for part in _entries(table))
    for at in columns:
        about = table.attributes[at]
        if about.values and truth(about.values[0]) != 0:
            left_out = about.values[0]
            raise ValueError(f"label {about.name!r}: sparse rows leave out {left_out!r}, not 0")
        if _in_words(about):
            codes[places == at] = _truths(about, codes[places == at])
    known = _checked(table, codes, lambda at: int(rows[at]), unknown)
    return Labels.from_csr(_starts(rows, len(table.lines)), number[places], len(columns), known)


def _in_words(about: Attribute) -> bool:
    return about.kind == "nominal" and not about.binary


def _truths(about: Attribute, codes: Array) -> Array:
    """Places of yes, no and the like -> 1 and 0; NaN stays."""
    meaning = np.array([truth(value) for value in about.values], dtype=np.float32)
    known = ~np.isnan(codes)
    return np.where(known, meaning[np.where(known, codes, 0).astype(np.int64)], np.nan)


def _checked(
    table: Rows, values: Array, row_of: Callable[[int], int], unknown: int | None
) -> Array:
    """Values in [0, 1], NaN where unknown; the line of the first bad one is named."""
    if unknown is not None:
        values = np.where(values == unknown, np.nan, values)
    bad = ~(((values >= 0) & (values <= 1)) | np.isnan(values))
    if bad.any():
        at = int(bad.argmax())
        line, got = table.lines[row_of(at)], values.reshape(-1)[at]
        raise ValueError(f"line {line}: a label must be 0 or 1 (?: unknown), got {got:g}")
    return values


def _features(table: Rows, columns: list[int], values: dict[str, list[str]]) -> Tensor | SparseRows:
    """`values`: of each attribute in words those that are a feature each."""
    every = table.attributes
    widths = [len(values.get(every[at].name, "1")) for at in columns]
    first = np.concatenate([[0], np.cumsum(widths)])
    if not table.sparse:
        codes = table.dense()
        if not values:
            return torch.from_numpy(codes[:, columns])
        blocks = [_block(every[at], codes[:, at], values) for at in columns]
        return torch.from_numpy(np.concatenate(blocks, axis=1, dtype=np.float32))
    rows, places, codes = _entries(table)
    start = np.full(len(every), -1)
    start[columns] = first[:-1]
    keep = start[places] >= 0
    rows, places, codes = rows[keep], places[keep], codes[keep]
    at_feature, numbers = start[places], codes.copy()
    for at in columns:
        name, known = every[at].name, every[at].values
        if known == ("1", "0"):
            raise ValueError(f"attribute {name!r}: sparse rows leave out 1; declare it as {{0,1}}")
        if known and known[0] in values.get(name, ()):
            raise ValueError(
                f"attribute {name!r}: sparse rows leave out {known[0]!r}, which was not left out "
                "where the model was trained; give dense rows"
            )
        if name in values:
            here = places == at
            if np.isnan(codes[here]).any():
                raise ValueError(
                    "? in a nominal attribute of sparse rows; only numeric ones may miss"
                )
            shift = np.array([values[name].index(v) if v in values[name] else -1 for v in known])
            shift = shift[codes[here].astype(np.int64)]
            at_feature[here] += shift
            numbers[here] = shift >= 0
    keep = numbers != 0  # a word that is no feature of its own
    return SparseRows.from_csr(
        _starts(rows[keep], len(table.lines)), at_feature[keep], int(first[-1]), numbers[keep]
    )


def _block(about: Attribute, codes: Array, values: dict[str, list[str]]) -> Array:
    """(rows, width): the column itself, or one column per word."""
    if about.name not in values:
        return codes[:, None]
    known = [about.values.index(v) if v in about.values else -1 for v in values[about.name]]
    each: Array = (codes[:, None] == np.array(known)).astype(np.float32)
    each[np.isnan(codes)] = np.nan
    return each


def _entries(table: Rows) -> tuple[Array, Array, Array]:
    """(row, attribute, code) of everything that sparse rows hold."""
    rows = np.repeat(np.arange(len(table.lines)), np.array(table.lengths, dtype=np.int64))
    return rows, np.asarray(table.places), np.asarray(table.codes, dtype=np.float32)


def _starts(rows: Array, count: int) -> Array:
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])

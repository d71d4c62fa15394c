"""ARFF files (Weka, Mulan, MEKA): features and labels from attributes; Mulan's XML of labels.

A numeric or {0, 1} attribute is one feature; a nominal one with values a, b, c is two, "name=b" and
"name=c" (a sparse row leaves the first value out, so it is the one without a column). Strings are
left out unless they are the text or the row's name. Kept our own: scipy reads no sparse rows, and
neither it nor liac-arff streams.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from labelset.data.columns import Columns, Piece, gathered, is_full, truth
from labelset.data.dataset import unique_names
from labelset.data.description import Description
from labelset.data.formats.arrow import Batch, piece_of
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
    def number(self) -> bool:
        """Whether its cells are read as numbers: those of 0 and 1 are."""
        return self.kind == "numeric" or set(self.values) == {"0", "1"}

    @property
    def words(self) -> bool:
        return self.kind == "nominal" and not self.number

    def read(self, cell: str) -> Any:
        """A number, or a word; NaN or None where nothing is known."""
        if self.kind == "string":
            return cell
        if cell == "?":
            return float("nan") if self.number else None
        if self.kind == "nominal" and cell not in self.values:
            known = ", ".join(self.values[:10])
            raise ValueError(f"attribute {self.name!r}: expected one of {known}, got {cell!r}")
        try:
            return as_number(cell) if self.number else cell
        except ValueError:
            raise ValueError(f"attribute {self.name!r}: expected a number, got {cell!r}") from None


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
class ArffRows:
    """Some rows: of dense ones all cells; of sparse ones what is not left out."""

    lines: list[int] = field(default_factory=list)
    """Line of each row."""
    cells: list[list[str]] = field(default_factory=list)
    """Of dense rows those that are not numbers alone."""
    numbers: array[float] = field(default_factory=lambda: array("d"))
    """Dense rows of numbers alone, one after the other; or what sparse rows hold, a word by its
    place among the values."""
    places: array[int] = field(default_factory=lambda: array("q"))
    """Sparse rows only: the attribute of each number."""
    lengths: list[int] = field(default_factory=list)
    """Sparse rows only: numbers of each row."""
    weight: int = 0


class ArffTable:
    """The attributes of a file, and its rows."""

    def __init__(self, path: Path) -> None:
        self.source = _statements(path)
        self.relation, self.attributes = _head(self.source)
        self.plain = all(a.number for a in self.attributes)
        self.sparse: bool | None = None

    def rows(self) -> Iterator[ArffRows]:
        """Some at a time."""
        some = ArffRows()
        for number, line in self.source:
            sparse_row = line.startswith("{")
            if self.sparse not in (None, sparse_row):
                raise ValueError(f"line {number}: sparse and dense rows in one file")
            self.sparse = sparse_row
            try:
                self._sparse(some, line) if sparse_row else self._dense(some, line)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"line {number}: {error}") from None
            some.lines.append(number)
            if is_full(len(some.lines), len(some.numbers) + some.weight):
                yield self._checked(some)
                some = ArffRows()
        if some.lines:
            yield self._checked(some)

    def _dense(self, some: ArffRows, line: str) -> None:
        quoted = "'" in line or '"' in line
        row = list(cells(line)) if quoted else line.split(",")
        if len(row) != len(self.attributes):
            raise ValueError(f"expected {len(self.attributes)} cells, got {len(row)}")
        if self.plain:
            try:
                if "_" in line:
                    raise ValueError
                some.numbers.extend(list(map(float, row)))
            except ValueError:  # a ? or a bad cell: look at each
                each = zip(self.attributes, row, strict=True)
                some.numbers.extend([about.read(cell.strip()) for about, cell in each])
            return
        some.cells.append(row)
        some.weight += len(line)

    def columns(self, some: ArffRows) -> dict[int, Any]:
        """Of dense rows: numbers of numpy, or lists of words."""
        if not some.cells:
            return dict(enumerate(np.asarray(some.numbers).reshape(len(some.lines), -1).T))
        held = dict[int, Any]()
        for at, cells in enumerate(zip(*some.cells, strict=True)):
            about, column = self.attributes[at], [cell.strip() for cell in cells]
            held[at] = column
            try:  # all at once; else each cell is looked at
                if about.number and "_" not in "".join(column):
                    held[at] = np.array(list(map(float, column)))
                elif about.number or (about.words and not {*column} <= {*about.values}):
                    raise ValueError
            except ValueError:
                read = list[Any]()
                for row, cell in enumerate(column):
                    try:
                        read.append(about.read(cell))
                    except ValueError as error:
                        raise ValueError(f"line {some.lines[row]}: {error}") from None
                held[at] = np.array(read) if about.number else read
        return held

    def _sparse(self, some: ArffRows, line: str) -> None:
        if not line.endswith("}"):
            raise ValueError("a sparse row does not end with }")
        before = len(some.places)
        if self.plain and "_" not in line and self._plain_pairs(some, line[1:-1]):
            return
        for pair in pairs(line[1:-1].strip()):
            place, _, cell = pair.partition(" ")
            if not (place.isascii() and place.isdigit() and int(place) < len(self.attributes)):
                most = len(self.attributes) - 1
                raise ValueError(f"expected an attribute number in 0..{most}, got {place!r}")
            about = self.attributes[int(place)]
            if about.kind == "string":
                raise ValueError(f"string attribute {about.name!r} in a sparse row")
            some.places.append(int(place))
            read = about.read(next(cells(cell)) if cell[:1] in ("'", '"') else cell)
            if about.words:
                read = float("nan") if read is None else about.values.index(read)
            some.numbers.append(read)
        used = some.places[before:]
        if len(set(used)) < len(used):
            raise ValueError("an attribute appears twice")
        some.lengths.append(len(used))

    def _plain_pairs(self, some: ArffRows, body: str) -> bool:
        """Add a row of nothing but pairs of numbers; whether it was one: else each is looked at."""
        try:
            places, codes = zip(*map(str.split, body.split(",")), strict=True)
            numbers, values = list(map(int, places)), list(map(float, codes))
        except ValueError:
            return False
        digits = "".join(places)
        known = digits.isascii() and digits.isdigit() and max(numbers) < len(self.attributes)
        if not known or len(set(numbers)) < len(numbers):
            return False
        some.places.extend(numbers)
        some.numbers.extend(values)
        some.lengths.append(len(numbers))
        return True

    def _checked(self, some: ArffRows) -> ArffRows:
        """Numbers are finite, and 0 or 1 where only these are declared."""
        numbers, width = np.asarray(some.numbers), len(self.attributes)
        binary = np.array([a.number and a.kind == "nominal" for a in self.attributes])
        places = np.asarray(some.places) if self.sparse else np.arange(len(numbers)) % width
        with np.errstate(over="ignore"):
            bad = np.isinf(numbers.astype(np.float32))
        bad |= binary[places] & (numbers != 0) & (numbers != 1) & ~np.isnan(numbers)
        if bad.any():
            at = int(bad.argmax())
            ends = np.cumsum(some.lengths) if self.sparse else np.arange(1, len(bad) + 1) * width
            row = int(np.searchsorted(ends, at, side="right"))
            about = self.attributes[int(places[at])]
            numeric = about.kind == "numeric"
            wanted = " must be finite in float32" if numeric else ": expected one of 0, 1"
            raise ValueError(
                f"line {some.lines[row]}: attribute {about.name!r}{wanted}, got {numbers[at]:g}"
            )
        return some


def _statements(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines(path), 1):
        text = line.strip()
        if text and not text.startswith("%"):
            yield number, text


def _head(source: Iterator[tuple[int, str]]) -> tuple[str, list[Attribute]]:
    """Everything up to @data: the relation and its attributes."""
    number, relation, attributes = 0, "", list[Attribute]()
    for number, line in source:
        word = line.split()[0].lower()
        if word == "@data":
            if not attributes:
                raise ValueError(f"line {number}: @data comes before any @attribute")
            return relation, attributes
        if word == "@relation":
            relation = line[len("@relation") :].strip()
        elif word == "@attribute":
            try:
                attributes.append(attribute(line))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
        else:
            start = line[:30]
            raise ValueError(
                f"line {number}: expected @relation, @attribute or @data, got {start!r}"
            )
    raise ValueError(f"line {number}: the file ends before @data" if number else "is empty")


def pairs(body: str) -> list[str]:
    """
    >>> pairs("3 1, 7 'a, b'")
    ['3 1', "7 'a, b'"]
    """
    if not body:
        return []
    if "'" not in body and '"' not in body:
        return [" ".join(pair.split()) for pair in body.split(",")]
    return [pair.strip() for pair in re.findall(rf"(?:{WORD}|[^,])+", body)]


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


def read(
    paths: Sequence[Path], ask: Description, role: str, names: list[str] | None = None
) -> list[Piece]:
    """`names`: which attributes are labels, from Mulan's XML."""
    pieces = []
    for path in paths:
        with reading(path):
            if ArffTable(path).attributes != ArffTable(paths[0]).attributes:
                raise ValueError(f"its attributes are not those of {paths[0]}")
            pieces.append(gathered(blocks(path, ask, role, names), ask.memory << 20))
    return pieces


def blocks(
    path: Path, ask: Description, role: str, names: list[str] | None = None
) -> Iterator[Piece]:
    """The rows, some at a time."""
    with reading(path):
        table = ArffTable(path)
        ask, notes = _located(table.relation, ask, names)
        every = table.attributes
        columns = Columns.of([a.name for a in every], ask, role, names)
        dates = {*columns.dates}
        lost = [at for at in columns.features if every[at].kind == "string" and at not in dates]
        used = [at for at in columns.features if at not in lost]
        left_out = columns.left_out + [every[at].name for at in lost]
        columns = replace(columns, features=used, left_out=left_out)
        words = {every[at].name: list(every[at].values[1:]) for at in used if every[at].words}
        if ask.schema is not None:
            words |= {k: ask.schema.categories[k] for k in words if k in ask.schema.categories}
        for some in table.rows():
            whole = _sparse_piece if table.sparse else _dense_piece
            piece = whole(path, table, some, columns, ask, words)
            yield replace(piece, notes=notes + columns.note(), facts={"categories": words})


def _dense_piece(
    path: Path,
    table: ArffTable,
    some: ArffRows,
    columns: Columns,
    ask: Description,
    words: dict[str, list[str]],
) -> Piece:
    held, names = table.columns(some), [a.name for a in table.attributes]
    batch = Batch(names, len(some.lines), 0, held, None, some.lines, "?", "attribute")
    return piece_of(path, batch, columns, ask, words)


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


def _sparse_piece(
    path: Path,
    table: ArffTable,
    some: ArffRows,
    columns: Columns,
    ask: Description,
    words: dict[str, list[str]],
) -> Piece:
    """Sparse rows leave out 0, and the first value of a nominal attribute."""
    from scipy import sparse

    every = table.attributes
    for at in (
        *columns.texts,
        columns.id,
        columns.split,
        columns.group,
        columns.time,
        columns.weight,
    ):
        if at is not None:
            name = every[at].name
            raise ValueError(f"attribute {name!r} of sparse rows cannot be read as words")
    starts = np.concatenate([[0], np.cumsum(some.lengths, dtype=np.int64)])
    held = (np.asarray(some.numbers, dtype=np.float32), np.asarray(some.places), starts)
    matrix = sparse.csr_array(held, shape=(len(some.lines), len(every)))
    return Piece(
        path=path,
        rows=len(some.lines),
        features=_features(matrix, every, columns.features, words) if columns.features else None,
        columns=[every[at].name for at in columns.features],
        labels=_labels(matrix, every, columns.labels, some, ask) if columns.labels else None,
        names=[every[at].name for at in columns.labels] or None,
    )


def _labels(
    matrix: Any, every: list[Attribute], places: list[int], some: ArffRows, ask: Description
) -> Labels:
    held = matrix[:, places]
    values = held.data
    for label, at in enumerate(places):
        about = every[at]
        if about.values and truth(about.values[0]) != 0:
            left_out = about.values[0]
            raise ValueError(f"label {about.name!r}: sparse rows leave out {left_out!r}, not 0")
        if about.words:
            here = (held.indices == label) & ~np.isnan(values)
            truths = np.array([truth(value) for value in about.values])
            values[here] = truths[values[here].astype(np.int64)]
    values[values == (np.nan if ask.unknown is None else ask.unknown)] = np.nan
    bad = ~(((values >= 0) & (values <= 1)) | np.isnan(values))
    if bad.any():
        row = int(np.searchsorted(held.indptr, bad.argmax(), side="right")) - 1
        got = values[bad.argmax()]
        raise ValueError(
            f"line {some.lines[row]}: a label must be 0 or 1 (?: unknown), got {got:g}"
        )
    return Labels.from_csr(held.indptr, held.indices, len(places), values)


def _features(
    matrix: Any, every: list[Attribute], places: list[int], words: dict[str, list[str]]
) -> SparseRows:
    """Columns of numbers as they are, and one for each word but the first."""
    from scipy import sparse

    plain, parts = list[int](), list[Any]()
    for at in places:
        name, values = every[at].name, every[at].values
        if values == ("1", "0"):
            raise ValueError(f"attribute {name!r}: sparse rows leave out 1; declare it as {{0,1}}")
        if name not in words:
            plain.append(at)
            continue
        if values[0] in words[name]:
            raise ValueError(
                f"attribute {name!r}: sparse rows leave out {values[0]!r}, which was not left out "
                "where the model was trained; give dense rows"
            )
        parts += [matrix[:, plain]] if plain else []
        column, plain = matrix[:, [at]].tocoo(), []
        if np.isnan(column.data).any():
            raise ValueError("? in a nominal attribute of sparse rows; only numeric ones may miss")
        codes = {value: code for code, value in enumerate(words[name])}
        along = np.array([codes.get(value, -1) for value in values])[column.data.astype(np.int64)]
        kept = column.coords[0][along >= 0], along[along >= 0]
        ones = np.ones(len(kept[0]), dtype=np.float32)
        parts.append(sparse.coo_array((ones, kept), shape=(len(matrix.indptr) - 1, len(codes))))
    parts += [matrix[:, plain]] if plain else []
    return SparseRows.from_scipy(sparse.hstack(parts, format="csr") if len(parts) > 1 else parts[0])

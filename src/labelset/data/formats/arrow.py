"""Tables through pyarrow: CSV, Parquet and Arrow files, and whatever hands over Arrow batches.

CSV is cut into blocks of whole rows here, in which each column has the type that it is used as.
What pyarrow would misread, a quote out of place, or refuses, `locate` reads row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv, ipc

from labelset.data.columns import BLOCK, WEIGHT, Columns, Piece, gathered, truth
from labelset.data.dataset import dense_features, part_numbers
from labelset.data.description import Description
from labelset.data.formats import locate
from labelset.data.kinds import object_name
from labelset.data.label_column import from_names, names_in
from labelset.data.reading import chunks, decoded, files_of, kind_of, reading
from labelset.labels import Labels

Array = np.ndarray[Any, Any]
BYTES = 1 << 18
"""Of CSV that are taken apart together."""
WIDE = 200
"""From so many columns on, pyarrow takes longer for a block of CSV than Python's own reader."""
MISSING = sorted({f(cell) for cell in locate.MISSING for f in (str, str.upper, str.title)})


@dataclass
class Batch:
    """Some rows of a table."""

    names: list[str]
    rows: int
    first: int
    """The number of the first row."""
    columns: dict[int, Any]
    """Arrow arrays of those columns that are used."""
    numbers: Array | None = None
    """(rows, features) where these have been read already."""
    lines: Sequence[int] | None = None
    """The line of each row, in text."""
    missing: str = "null"

    def where(self, row: int) -> str:
        return f"row {self.first + row}" if self.lines is None else f"line {self.lines[row]}"


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """One piece per file; labels in one column are numbered alike in all of them."""
    return numbered([(path, blocks(path, ask, role)) for path in paths], ask)


def numbered(sources: Iterable[tuple[Path, Iterator[Piece]]], ask: Description) -> list[Piece]:
    """The pieces of each source as one; labels in one column are numbered alike in all."""
    pieces = list[Piece]()
    for path, parts in sources:
        with reading(path):
            pieces.append(gathered(parts, ask.memory << 20, ask.delimiter))
            if _used(pieces[-1]) != _used(pieces[0]):
                raise ValueError(f"its columns are not those of {pieces[0].path}")
    listings = [piece.listing for piece in pieces if piece.listing is not None]
    if not listings:
        return pieces
    with reading(pieces[0].path):
        named, names = from_names(listings, names_in(ask.label_names))
    return [
        replace(piece, labels=y, names=names, listing=None)
        for piece, y in zip(pieces, named, strict=True)
    ]


def _used(piece: Piece) -> list[list[str] | None]:
    return [piece.columns, piece.names]


def blocks(path: Path, ask: Description, role: str) -> Iterator[Piece]:
    """The rows, some at a time; labels in one column are listed, not numbered."""
    used = None
    for file in files_of(path):
        with reading(file):
            kind = ask.format if ask.format is not None and role == "data" else kind_of(file)
            read_batches = {"csv": _csv, "tsv": _csv, "arrow": _ipc, "feather": _ipc, "ipc": _ipc}
            try:
                for batch, columns in read_batches.get(kind, _parquet)(file, ask, role):
                    piece = piece_of(path, batch, columns, ask)
                    if _used(piece) != (used or _used(piece)):
                        raise ValueError(
                            f"its columns are not those of {files_of(path)[0]}, or not in the same "
                            "order; write all files alike, or name them in feature_columns"
                        )
                    used = _used(piece)
                    yield piece
            except pa.ArrowException as error:
                raise ValueError(f"damaged or not a .{kind} file ({error})") from None


# ---- CSV -----------------------------------------------------------------------------------------


def _csv(path: Path, ask: Description, role: str) -> Iterator[tuple[Batch, Columns]]:
    separator = ask.separator or ("\t" if kind_of(path) == "tsv" else ",")
    names, columns, first = list[str](), None, 0
    for block in _cut(path, separator):
        rows: Any = None
        if columns is None:
            rows = locate.rows_of(block.lines(path), separator, block.line - 1)
            head = next(rows, None)
            if head is None:
                continue
            names = [cell.strip() for cell in head[1]]
            if not ask.header:
                names = [str(at) for at in range(len(names))]
                rows = chain([head], rows)
            columns = Columns.of(names, ask, role)
            if ask.header and block.rest is None:
                block, rows = block.below(head[0]), None
        batches = None if rows or block.rest else _converted(block, names, columns, ask, separator)
        if batches is not None:
            for batch in batches:
                yield replace(batch, first=first), columns
                first += batch.rows
            continue
        rows = rows or locate.rows_of(block.lines(path), separator, block.line - 1)
        used = _places(columns)
        for lines, some, numbers in locate.blocks(rows, names, columns.features, ask.decimal):
            cells = {at: pa.array([row[at] for row in some], pa.large_string()) for at in used}
            yield Batch(names, len(lines), first, cells, numbers, lines, "empty or ?"), columns
            first += len(lines)
    if columns is None:
        raise ValueError("is empty")


def _places(columns: Columns) -> list[int]:
    """Of the columns that are used, features aside."""
    single = (columns.label_list, columns.text, columns.id, columns.split, columns.image)
    return [*columns.labels, *(at for at in single if at is not None)]


@dataclass
class _Block:
    """Whole rows of CSV, as bytes."""

    line: int
    data: bytes
    ends: Array = field(default_factory=lambda: np.empty(0, np.int64))
    """The last byte of each row, which ends its line."""
    rest: Iterator[bytes] | None = None
    """All that follows, where nobody knows which quotes open and which close."""

    def below(self, line: int) -> _Block:
        """The rows after this line."""
        place = int(np.flatnonzero(np.frombuffer(self.data, np.uint8) == 10)[line - self.line]) + 1
        return _Block(line + 1, self.data[place:], self.ends[self.ends >= place] - place)

    def lines(self, path: Path) -> Iterator[str]:
        """Decoded, each with its end."""
        return _lines(chain([self.data], self.rest or ()), path, self.line)


def _lines(parts: Iterable[bytes], path: Path, number: int = 1) -> Iterator[str]:
    last = b""
    for part in parts:
        *whole, last = (last + part).split(b"\n")
        for at, raw in enumerate(whole, number):
            yield decoded(raw + b"\n", at, path)
        number += len(whole)
    if last:
        yield decoded(last, number, path)


def _cut(path: Path, separator: str) -> Iterator[_Block]:
    """Blocks that end where a row ends: at the end of a line up to which quotes are closed."""
    parts, data, line = chunks(path, BYTES), b"", 1
    plain = len(separator) == 1 and separator.isascii()
    while True:
        part = next(parts, b"")
        if not part and not data:
            return
        data += part if part or data.endswith(b"\n") else b"\n"
        found = np.frombuffer(data, np.uint8)
        ends = newlines = np.flatnonzero(found == 10)
        if b'"' in data:
            quotes = np.flatnonzero(found == 34)
            if not _sound(found, quotes, separator):
                plain = False
            ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
        alone = data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else 0
        if not plain or alone > data.endswith(b"\r"):
            yield _Block(line, data, rest=parts)
            return
        if len(ends) and (part or len(data) == ends[-1] + 1):
            end = int(ends[-1]) + 1
            yield _Block(line, data[:end], ends)
            line += int(np.searchsorted(newlines, end))
            data = data[end:]
        elif not part:  # `locate` names the line of the quote
            yield _Block(line, data, rest=parts)
            return
        if len(data) > locate.LONGEST:
            raise ValueError(f"line {line}: {locate.TOO_LONG}")
        if not part:
            return


def _sound(found: Array, quotes: Array, separator: str) -> bool:
    """Whether each cell with a quote starts and ends with one, and has others only doubled."""
    opening, closing = quotes[::2], quotes[1::2]
    before = found[opening[opening > 0] - 1]
    after = found[closing[closing < len(found) - 1] + 1]
    edges = [ord(separator), 10, 34] if separator.isascii() and len(separator) == 1 else [10, 34]
    return bool(np.isin(before, edges).all() and np.isin(after, [*edges, 13]).all())


def _converted(
    block: _Block, names: list[str], columns: Columns, ask: Description, separator: str
) -> list[Batch] | None:
    """By pyarrow; None where it refuses, or reads other rows than there are lines."""
    if not block.data:
        return []
    starts = np.concatenate([[0], block.ends[:-1] + 1])
    found = np.frombuffer(block.data, np.uint8)
    blank = (block.ends == starts) | ((block.ends == starts + 1) & (found[starts] == 13))
    if len(names) > WIDE or blank.all():
        return None if len(names) > WIDE else []
    codes = pa.dictionary(pa.int32(), pa.large_string())
    types = {str(at): pa.float64() for at in columns.features}
    types |= dict.fromkeys(map(str, columns.labels), codes)
    types |= {str(at): pa.large_string() for at in _places(columns)[len(columns.labels) :]}
    try:
        table = csv.read_csv(
            pa.BufferReader(block.data),
            csv.ReadOptions(
                use_threads=False,
                block_size=len(block.data) + 1,
                column_names=[str(at) for at in range(len(names))],
            ),
            csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            csv.ConvertOptions(
                column_types=types or {"0": pa.large_string()},
                include_columns=list(types) or ["0"],
                null_values=MISSING,
                decimal_point=ask.decimal,
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    every = np.flatnonzero(found == 10)
    lines = block.line + np.searchsorted(every, block.ends[~blank])
    if table.num_rows != len(lines):
        return None
    places, batches, row = [int(name) for name in table.column_names], list[Batch](), 0
    for some in table.to_batches(BLOCK):
        of = lines[row : row + some.num_rows].tolist()
        used = dict(zip(places, some.columns, strict=True))
        batches.append(Batch(names, len(of), 0, used, lines=of, missing="empty or ?"))
        row += len(of)
    return batches


# ---- Parquet and Arrow ---------------------------------------------------------------------------


def _parquet(path: Path, ask: Description, role: str) -> Iterator[tuple[Batch, Columns]]:
    from pyarrow import parquet

    file = parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    about = file.metadata
    size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    width = max(about.num_columns, size // max(about.num_rows, 1) // 4)  # lists make a row wide
    batches = file.iter_batches(max(1, min(BLOCK, WEIGHT // width)))
    return batches_of(file.schema_arrow.names, batches, ask, role)


def _ipc(path: Path, ask: Description, role: str) -> Iterator[tuple[Batch, Columns]]:
    """Read by position, not mapped: pages of a mapped file would count as memory."""
    with pa.OSFile(str(path)) as source:
        if source.read(6) == b"ARROW1":
            file = ipc.open_file(source)
            some = (file.get_batch(at) for at in range(file.num_record_batches))
        else:
            source.seek(0)
            file = some = ipc.open_stream(source)
        yield from batches_of(file.schema.names, some, ask, role)


def batches_of(
    names: list[str], batches: Iterable[Any], ask: Description, role: str
) -> Iterator[tuple[Batch, Columns]]:
    """Record batches, cut where they are too large."""
    columns, first = Columns.of(names, ask, role), 0
    used = [*columns.features, *_places(columns)]
    for batch in batches:
        weight = sum(batch.column(at).nbytes for at in used) // 4
        size = max(1, min(BLOCK, WEIGHT * batch.num_rows // max(weight, 1)))
        for start in range(0, batch.num_rows, size):
            some = batch.slice(start, size)
            arrays = {at: some.column(at) for at in used}
            yield Batch(names, some.num_rows, first + start, arrays), columns
        first += batch.num_rows


# ---- columns -> pieces ---------------------------------------------------------------------------


def piece_of(path: Path, batch: Batch, columns: Columns, ask: Description) -> Piece:
    """What some rows say, each column as what it is used."""
    words = {
        what: _words(batch, at, what)
        for what in ("text", "id", "split", "image")
        if (at := getattr(columns, what)) is not None
    }
    listed = None if columns.label_list is None else _lists(batch.columns[columns.label_list])
    labels = _labels(batch, columns.labels, ask.unknown) if columns.labels else None
    return Piece(
        path=path,
        rows=batch.rows,
        features=_features(batch, columns.features) if columns.features else None,
        labels=labels,
        names=[batch.names[at] for at in columns.labels] or None,
        texts=words.get("text"),
        ids=words.get("id"),
        split=part_numbers(words["split"], batch.lines, batch.first) if "split" in words else None,
        files=[name.strip() for name in words["image"]] if "image" in words else None,
        listed=listed,
        lines=None if listed is None or batch.lines is None else list(batch.lines),
        notes=columns.note(),
        columns=[batch.names[at] for at in columns.features],
    )


def _words(batch: Batch, at: int, what: str) -> list[str]:
    column, name = batch.columns[at], batch.names[at]
    words: list[Any] = column.to_pylist()
    if what == "text":
        words = ["" if word is None else word for word in words]
        bad = next((row for row, word in enumerate(words) if not isinstance(word, str)), None)
        if bad is not None:
            where = batch.where(bad)
            raise ValueError(f"{where}: column {name!r} must hold texts, got {column.type}")
        return words
    return [str(word) for word in words]


def _lists(column: Any) -> list[Any]:
    """A list of names per row, or a word that holds them; null: nothing is known."""
    cells = column.to_pylist()
    if any(isinstance(cell, list) for cell in cells):
        return [
            None if cell is None else [str(object_name(name)) for name in cell] for cell in cells
        ]
    return [cell if cell is None else str(cell) for cell in cells]


def _features(batch: Batch, places: Sequence[int]) -> Any:
    block = batch.numbers
    if block is None:
        parts = [_numbers(batch.columns[at], batch.names[at]) for at in places]
        block = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    with np.errstate(over="ignore"):
        bad = np.isinf(block.astype(np.float32))
    if bad.any():
        row, column = divmod(int(bad.argmax()), block.shape[1])
        name = batch.names[places[column]] if len(places) == block.shape[1] else "features"
        raise ValueError(
            f"{batch.where(row)}: column {name!r} must be finite in float32 "
            f"({batch.missing}: missing)"
        )
    return dense_features(block)


def _numbers(column: Any, name: str) -> Array:
    """(rows, 1), or (rows, d) of a column of equally long lists; null is NaN."""
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
        if not len(lengths) or (lengths != lengths[0]).any():
            raise ValueError(f"column {name!r} holds lists of different lengths")
        return _numbers(compute.list_flatten(column), name).reshape(len(lengths), -1)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_null(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ValueError(
            f"column {name!r} must hold numbers, got {kind}; if it is no feature, list it "
            "in ignore_columns or say what it is (label_columns, text_column, ...)"
        )
    values = column.to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)[:, None]


def _labels(batch: Batch, places: Sequence[int], unknown: int | None) -> Labels:
    """Of columns of 0 and 1, or words for them; NaN is unknown."""
    block = np.empty((batch.rows, len(places)), dtype=np.float32)
    for label, at in enumerate(places):
        column, name = batch.columns[at], batch.names[at]
        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            block[:, label] = _truths(_numbers(column, name)[:, 0], unknown, batch, name)
            continue
        coded = column if pa.types.is_dictionary(kind) else column.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        each = np.full(len(coded.dictionary) + 1, np.nan)  # the last one is null
        for code, word in enumerate(coded.dictionary.to_pylist()):
            try:
                each[code] = truth(str(word), unknown)
            except ValueError as error:
                where = batch.where(int((codes == code).argmax()))
                raise ValueError(f"{where}: column {name!r}: {error}") from None
        block[:, label] = each[codes]
    return Labels.from_dense(block)


def _truths(values: Array, unknown: int | None, batch: Batch, name: str) -> Array:
    if unknown is not None:
        values = np.where(values == unknown, np.nan, values)
    bad = ~(((values >= 0) & (values <= 1)) | np.isnan(values))
    if bad.any():
        row = int(bad.argmax())
        wanted = f"a label must be 0 or 1 ({batch.missing}: unknown)"
        raise ValueError(f"{batch.where(row)}: column {name!r}: {wanted}, got {values[row]:g}")
    return values

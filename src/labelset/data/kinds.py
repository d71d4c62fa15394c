"""What one column of a table holds, judged by a sample of its cells: a kind, and why."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal[
    "number",
    "category",
    "date",
    "text",
    "id",
    "split",
    "group",
    "picture",
    "label list",
    "0-1 label",
    "vector",
    "constant",
]
MISSING = frozenset(("", "?", "nan", "na", "n/a", "null", "none"))
SPLITS = frozenset(("train", "training", "valid", "validation", "val", "dev", "test", "testing"))
PICTURES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")
BINARY = (
    *(("0", "1"), ("0.0", "1.0"), ("false", "true"), ("f", "t")),
    *(("no", "yes"), ("n", "y"), ("off", "on")),
)
DELIMITERS = ("|", ";", ",", "\t", *"\u3001\uff1b\uff0c")
"""The last three are a comma, a semicolon and a comma as Chinese and Japanese write them."""
WEAK_DELIMITERS = ("/", " ")
"""Considered only where no other delimiter fits: they stand within names at least as often."""
LISTS = "list"
"""As a delimiter: every cell is a list as JSON, Python and numpy write it."""
ANGLES = "<>"
"""As a delimiter: names in angle brackets, `<python><pandas>`."""
CERTAIN, POSSIBLE = 0.6, 0.3
"""Share of the names in cells with several that occur in another cell too: label lists, maybe."""


def word_set(text: str) -> frozenset[str]:
    """The words of a line as a set."""
    return frozenset(text.split())


LABEL_WORDS = word_set(
    "label labels tag tags target targets class classes categories genres topics emotions y "
    "annotation annotations 标签"
)
MAYBE_LABEL_WORDS = word_set(
    "category topic genre type subject subjects sentiment section keyword keywords emotion theme "
    "themes code codes skill skills outcome outcomes diagnosis diagnoses hallmarks terms 类别 分类"
)
ID_WORDS = word_set("id ids uuid guid index idx key doi isbn pmid sku asin rowid")
GROUP_WORDS = word_set(
    "user author patient subject session customer speaker thread conversation group site hospital "
    "student account device rater annotator reviewer writer"
)
DATE_WORDS = word_set("date time timestamp created updated published utc datetime day")
SPLIT_WORDS = word_set("split part partition subset set fold")

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf", re.ASCII)
_COMMA_NUMBER = re.compile(r"[+-]?\d+(?:,\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_HASH = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{16,}")
_ZONE = r"(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})?"
_TIME = rf"(?:[T ,]+\d{{1,2}}:\d\d(?::\d\d(?:\.\d+)?)?\s*(?:[AaPp][Mm])?\s*{_ZONE})?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_DATES = (
    ("year first", re.compile(rf"(?:1[5-9]|20|21)\d\d([-/.])\d{{1,2}}\1\d{{1,2}}{_TIME}")),
    ("day or month first", re.compile(rf"([0-3]?\d)([-/.])([0-3]?\d)\2(?:\d{{4}}|\d\d){_TIME}")),
    (
        "month by name",
        re.compile(
            rf"(?:[A-Z][a-z]{{2,8}},? )?(?:\d{{1,2}}(?:st|nd|rd|th|\.)?[ -]{_MONTH},?[ -]\d{{2,4}}"
            rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}){_TIME}"
        ),
    ),
    ("year, month, day", re.compile(r"\d{4}年\d{1,2}月\d{1,2}日")),
)
_QUOTED = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s,'"\[\]]+))\s*(,?)""")
_OBJECTS = re.compile(r"\[?\s*\{")
_NO_BLANKS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


@dataclass(frozen=True)
class Column:
    """What a sample of one column holds."""

    name: str
    kind: Kind
    why: str
    rows: int
    distinct: int
    """Different cells, missing ones aside."""
    missing: int
    delimiter: str | None = None
    """What stands between the labels of a cell; also where that is only possible (`doubt`)."""
    doubt: str = ""
    """Why the kind may be another."""
    words: float = 0.0
    """Per cell, on average; in scripts without blanks two characters count as one."""
    values: tuple[str, ...] = ()
    """Labels, the commonest first; of other columns with few different cells the commonest ten."""
    comma: bool = False
    """Whether the numbers have a decimal comma."""


def name_words(name: str) -> list[str]:
    """The words of a column's name.

    >>> name_words("Movie_genres"), name_words("parentId")
    (['movie', 'genres'], ['parent', 'id'])
    """
    return [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+", name)]


def label_name(name: str) -> int:
    """How much a name sounds like labels: 2 (tags), 1 (category), 0 (body)."""
    words = set(name_words(name))
    return 2 if words & LABEL_WORDS else 1 if words & MAYBE_LABEL_WORDS else 0


def list_items(cell: str) -> list[Any] | None:
    """The items of a cell that is a list as JSON, Python or numpy writes it; else None.

    >>> list_items('["a", "b, c"]'), list_items("['a', 'b']"), list_items("['a' 'b']")
    (['a', 'b, c'], ['a', 'b'], ['a', 'b'])
    >>> list_items('[{"id": 1, "name": "a"}]'), list_items("[{'id': 1, 'name': 'a'}]")
    (['a'], ['a'])
    >>> list_items("[2 27]"), list_items("[news, sport]"), list_items("[]"), list_items("a")
    ([2, 27], ['news', 'sport'], [], None)
    """
    cell = cell.strip()
    if not (cell.startswith("[") and cell.endswith("]")):
        return None
    try:
        items = json.loads(cell)
    except (ValueError, RecursionError):
        if not _OBJECTS.match(cell):
            return _loose_items(cell[1:-1])
        try:
            items = ast.literal_eval(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None
    items = [object_name(item) for item in items]
    return items if not any(isinstance(x, (list, tuple, dict, set)) for x in items) else None


def object_name(item: Any) -> Any:
    """The name of a label that is written as an object; other things as they are.

    >>> object_name({"id": 28, "name": "Action"}), object_name("Action")
    ('Action', 'Action')
    """
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) and name.strip() else item


def _loose_items(inside: str) -> list[Any] | None:
    items: list[Any] = []
    bare: list[bool] = []
    at = 0
    while at < len(inside.rstrip()):
        match = _QUOTED.match(inside, at)
        if match is None:
            return None
        single, double, word, comma = match.groups()
        quoted = single if single is not None else double
        if quoted is not None:
            items.append(re.sub(r"\\(.)", r"\1", quoted))
        elif _WHOLE.fullmatch(word):
            items.append(int(word))
        else:
            items.append(float(word) if _NUMBER.fullmatch(word) else word)
        bare.append(quoted is None and isinstance(items[-1], str))
        if any(bare) and not comma and inside[match.end() :].strip():
            return [part.strip() for part in inside.split(",")] if "'" not in inside else None
        at = match.end()
    return items


def angle_items(cell: str) -> list[str] | None:
    """
    >>> angle_items("<python><pandas>"), angle_items("python")
    (['python', 'pandas'], None)
    """
    cell = cell.strip()
    return re.findall(r"<([^<>]*)>", cell) if re.fullmatch(r"(?:<[^<>]+>\s*)+", cell) else None


def column(
    name: str, cells: Sequence[str | None], *, declared: str | None = None, comma: bool = False
) -> Column:
    """What a column holds. `declared`: the type that the file states ("list", "date", ...);
    `comma`: whether cells stand between semicolons, so that a decimal comma is likely.

    >>> column("tags", ["red;blue", "red", "blue;green", "green"]).delimiter
    ';'
    """
    return _Sample(name, cells, declared, comma).judged()


class _Sample:
    """The cells of one column and what is counted of them."""

    def __init__(
        self, name: str, cells: Sequence[str | None], declared: str | None, comma: bool
    ) -> None:
        self.name, self.declared, self.comma = name, declared, comma
        self.words = name_words(name)
        self.rows = len(cells)
        stripped = [(cell or "").strip() for cell in cells]
        self.cells = [cell for cell in stripped if cell.lower() not in MISSING]
        self.counts = Counter(self.cells)
        self.length = _mean([word_count(cell) for cell in self.counts])

    def judged(self) -> Column:
        for judge in (
            self._nothing,
            self._list,
            self._objects,
            self._binary,
            self._constant,
            self._picture,
            self._split,
            self._date,
            self._number,
            self._code,
            self._delimited,
            self._prose,
        ):
            column = judge()
            if column is not None:
                return column
        return self._category()

    def make(self, kind: Kind, why: str, **more: Any) -> Column:
        return Column(
            name=self.name,
            kind=kind,
            why=why,
            rows=self.rows,
            distinct=len(self.counts),
            missing=self.rows - len(self.cells),
            words=self.length,
            **more,
        )

    def called(self, *sets: frozenset[str]) -> bool:
        return any(set(self.words) & words for words in sets)

    @property
    def unique(self) -> bool:
        return len(self.counts) == len(self.cells) == self.rows and self.rows > 1

    def _nothing(self) -> Column | None:
        return None if self.cells else self.make("constant", "every cell is empty")

    def _constant(self) -> Column | None:
        if len(self.counts) > 1 or self.rows < 2:
            return None
        only = next(iter(self.counts))
        empty = f" or empty ({self.rows - len(self.cells):,} rows)" if self._holes else ""
        return self.make("constant", f"every cell is {short(only)}{empty}", values=(only,))

    @property
    def _holes(self) -> bool:
        return len(self.cells) < self.rows

    def _list(self) -> Column | None:
        """Cells that are lists by how they are written."""
        for delimiter, read in ((LISTS, list_items), (ANGLES, angle_items)):
            lists: dict[str, list[Any]] = {}
            for cell in self.counts:
                items = read(cell)
                if items is None:
                    break
                lists[cell] = items
            if len(lists) < len(self.counts):
                continue
            every = [item for cell in self.cells for item in lists[cell]]
            if delimiter == LISTS:
                vector = self._vector(every, [len(lists[cell]) for cell in self.cells])
                if vector is not None:
                    return vector
            often = Counter(map(str, every))
            look = "lists such as" if delimiter == LISTS else "names in angle brackets such as"
            return self.make(
                "label list",
                f"{look} {short(max(self.counts, key=len))}, {_names(often)}",
                delimiter=delimiter,
                values=tuple(name for name, _ in often.most_common()),
            )
        return None

    def _objects(self) -> Column | None:
        """Cells that hold objects without names: neither a text nor names between commas."""
        if not all(_OBJECTS.match(cell) or cell == "[]" for cell in self.counts):
            return None
        return self.make("vector", f"objects such as {short(max(self.counts, key=len))}")

    def _vector(self, items: list[Any], lengths: list[int]) -> Column | None:
        if not items or any(isinstance(x, (str, bool)) or x is None for x in items):
            return None
        equal = len(set(lengths)) == 1
        if equal and lengths[0] >= 3 and set(items) <= {0, 1}:
            return self.make(
                "vector",
                f"lists of {lengths[0]} zeros and ones",
                doubt="lists of zeros and ones: give each label a column of its own",
            )
        whole = all(isinstance(x, int) for x in items)
        if not whole or (equal and lengths[0] >= 8):
            return self.make("vector", f"lists of {lengths[0] if equal else 'several'} numbers")
        return None

    def _binary(self) -> Column | None:
        cells = {cell.lower() for cell in self.counts}
        for off, on in BINARY:
            if cells == {off, on}:
                share = sum(n for cell, n in self.counts.items() if cell.lower() == on)
                why = f"{short(off)} or {short(on)}, {share / len(self.cells):.1%} {short(on)}"
                return self.make("0-1 label", why, values=(off, on))
        return None

    def _picture(self) -> Column | None:
        named = sum(cell.lower().endswith(PICTURES) for cell in self.cells)
        if named < 0.9 * len(self.cells):
            return None
        return self.make("picture", f"file names such as {short(self.cells[0])}")

    def _split(self) -> Column | None:
        values = {cell.lower() for cell in self.counts}
        if values <= SPLITS:
            sizes = ", ".join(f"{cell} {n:,}" for cell, n in self.counts.most_common())
            return self.make("split", sizes, values=tuple(self.counts))
        if self.called(SPLIT_WORDS - {"fold", "set"}) and values in ({"0", "1", "2"}, {"0", "2"}):
            return self.make("split", "0, 1 and 2 under such a name: train, valid and test")
        return None

    def _date(self) -> Column | None:
        if self.declared == "date":
            return self.make("date", "dates by the type of the column")
        if max(map(len, self.counts)) > 60:
            return None
        for how, pattern in _DATES:
            matches = [pattern.fullmatch(cell) for cell in self.counts]
            if sum(m is not None for m in matches) < 0.95 * len(matches):
                continue
            if how == "day or month first":
                first = [int(m[1]) for m in matches if m]
                second = [int(m[3]) for m in matches if m]
                if min(max(first), max(second)) > 12:
                    continue
                orders = [w for w, x in (("day", second), ("month", first)) if max(x) <= 12]
                how = f"{' or '.join(orders)} first"
            return self.make("date", f"dates such as {short(self.cells[0])} ({how})")
        if self.called(DATE_WORDS) and all(_WHOLE.fullmatch(cell) for cell in self.counts):
            lengths = {len(cell) for cell in self.counts}
            if lengths == {10} or lengths == {13}:
                unit = "seconds" if lengths == {10} else "milliseconds"
                return self.make("date", f"{unit} since 1970, by name and size")
            if lengths == {8} and all(cell[:2] in ("19", "20") for cell in self.counts):
                return self.make("date", f"dates such as {self.cells[0]} (year first)")
        return None

    def _number(self) -> Column | None:
        if not all(_NUMBER.fullmatch(cell) for cell in self.counts):
            return self._comma_number()
        whole = all(_WHOLE.fullmatch(cell) for cell in self.counts)
        if whole and self.called(ID_WORDS, GROUP_WORDS) and label_name(self.name) < 2:
            return self._identifier("whole numbers")
        if self.words == ["id"] and self.unique:  # 0704.0001, as arXiv has it
            return self._identifier("numbers")
        if whole and self.unique and self.rows >= 20:
            numbers = [int(cell) for cell in self.cells]
            if numbers == list(range(numbers[0], numbers[0] + self.rows)):
                return self.make("id", "counts the rows")
        if whole and not self.name.strip() and self.unique:
            return self.make("id", "whole numbers without a name, different in each row")
        low, high = min(map(float, self.counts)), max(map(float, self.counts))
        kind = "whole numbers" if whole else "numbers"
        few = tuple(name for name, _ in self.counts.most_common(10)) if whole else ()
        return self.make("number", f"{kind} from {low:g} to {high:g}", values=few)

    def _comma_number(self) -> Column | None:
        """`1,5` is a number or two labels: the name and the cells' separator decide, or nobody."""
        if not all(_COMMA_NUMBER.fullmatch(cell) for cell in self.counts):
            return None
        if label_name(self.name) == 2:
            return None
        doubt = "" if self.comma else "numbers with a comma may be lists of two"
        if all(_THOUSANDS.fullmatch(cell) for cell in self.counts if "," in cell):
            doubt = "a comma before three digits may stand between thousands"
        if doubt:
            return self.make("number", f"numbers such as {self.cells[0]}", doubt=doubt, comma=True)
        return self.make("number", f"numbers with a decimal comma: {self.cells[0]}", comma=True)

    def _code(self) -> Column | None:
        """Names of rows and of what rows belong to."""
        if all(_HASH.fullmatch(cell) for cell in self.counts):
            return self._identifier("hashes or UUIDs")
        if any(" " in cell for cell in self.counts) and self.length > 2:
            return None
        if self.length > 4 and all(_NO_BLANKS.search(cell) for cell in self.counts):
            return None
        web = all(cell.startswith(("http://", "https://", "www.")) for cell in self.counts)
        if web:
            return self._identifier("web addresses")
        if self.called(ID_WORDS, GROUP_WORDS) and label_name(self.name) < 2:
            return self._identifier("short names")
        digits = all(any(c.isdigit() for c in cell) and " " not in cell for cell in self.counts)
        if self.unique and self.rows >= 5 and digits:
            return self.make("id", f"codes such as {short(self.cells[0])}, one per row")
        return None

    def _identifier(self, what: str) -> Column:
        if self.unique:
            return self.make("id", f"{what}, different in each row")
        return self.make("group", f"{what} that come back: {len(self.counts):,} different")

    def _delimited(self) -> Column | None:
        """Several short names in a cell, which come back in other cells."""
        level = label_name(self.name)
        few = Counter(dict(itertools.islice(self.counts.items(), 100)))
        if all(s is None or s.words > 12 for d in DELIMITERS for s in [split_by(few, d)]):
            tried = []  # texts, and many of them: a look at some is enough
        else:
            tried = self._splits(DELIMITERS)
        if not tried and level:
            tried = [s for s in self._splits(WEAK_DELIMITERS) if s.looks_like_words]
        if len(self.cells) < 20 and level:  # few rows repeat little: the name decides
            tried += [
                s
                for d in "|;"
                if (s := split_by(self.counts, d)) is not None
                and s.words <= 3.5
                and all(s.delimiter != t.delimiter for t in tried)
            ]
        if not tried:
            return None
        best = min(tried, key=lambda s: s.names)
        why = (
            f"lists of up to {best.most} names between {_shown(best.delimiter)}, "
            f"{_names(best.often)}"
        )
        return self.make(
            "label list",
            why,
            delimiter=best.delimiter,
            doubt=self._delimiter_doubt(best, tried, level),
            values=tuple(name for name, _ in best.often.most_common()),
        )

    def _splits(self, delimiters: Sequence[str]) -> list[Delimited]:
        """Cells cut at each delimiter, where short names come back, or long ones all the time."""
        splits = [s for d in delimiters if (s := split_by(self.counts, d)) is not None]
        return [
            s
            for s in splits
            if (s.shared >= POSSIBLE and s.words <= 3.5 and s.longest <= 60)
            or (s.shared >= 0.9 and s.words <= 10 and s.often.total() >= 5 * s.names)
        ]

    def _delimiter_doubt(self, best: Delimited, tried: list[Delimited], level: int) -> str:
        for other in tried:
            inner = split_by(Counter(list(best.often)), other.delimiter)
            if other is not best and inner is not None and inner.shared >= POSSIBLE:
                name = next(name for name in best.often if other.delimiter in name)
                return (
                    f"both {_shown(best.delimiter)} and {_shown(other.delimiter)} may stand "
                    f"between labels, as in {short(name)}"
                )
        if best.delimiter == " ":
            return "blanks may stand between labels or within their names"
        if best.delimiter == "/":
            return "a slash may stand between labels or within a name"
        if best.equal and level < 2:
            return f"each cell holds {best.most} names, as parts of one name would be"
        if best.shared < CERTAIN and not level:
            return f"only {best.shared:.0%} of the names in lists occur in another cell"
        return ""

    def _prose(self) -> Column | None:
        varied = len(self.counts) / max(len(self.cells), 1)
        if self.length >= 6 or (self.length >= 2.5 and varied >= 0.5):
            doubt = "few of its cells differ" if varied < 0.2 and len(self.cells) >= 20 else ""
            return self.make("text", f"{self.length:.0f} words on average", doubt=doubt)
        return None

    def _category(self) -> Column:
        if self.unique and self.rows >= 3:
            return self.make("id", f"short names such as {short(self.cells[0])}, one per row")
        common = self.counts.most_common(10)
        few = ", ".join(short(cell) for cell, _ in common[:4])
        more = ", ..." if len(self.counts) > 4 else ""
        values = tuple(cell for cell, _ in common)
        return self.make("category", f"{len(self.counts):,} values: {few}{more}", values=values)


@dataclass(frozen=True)
class Delimited:
    """The cells of a column, cut at one delimiter."""

    delimiter: str
    often: Counter[str]
    """How many rows have each name."""
    most: int
    """Names in the longest cell."""
    equal: bool
    """Whether all cells have equally many, as "Paris, France" has."""
    shared: float
    """Of the names in cells with several, the share that occurs in another cell too."""

    @property
    def names(self) -> int:
        return len(self.often)

    @property
    def words(self) -> float:
        return _mean([word_count(name) for name in self.often])

    @property
    def longest(self) -> int:
        return max(map(len, self.often))

    @property
    def looks_like_words(self) -> bool:
        """Names as tags have them: no sentence's punctuation, no words that only sentences have."""
        stop = {"the", "a", "of", "and", "is", "to", "in", "i", "it", "for"}
        bad = sum(n for name, n in self.often.items() if name.lower() in stop or name[-1] in ".!?,")
        return bad < 0.02 * self.often.total()


def split_by(counts: Counter[str], delimiter: str) -> Delimited | None:
    """Different cells and how often each occurs, cut at `delimiter`; None where none holds it."""
    lists = {cell: [w for part in cell.split(delimiter) if (w := part.strip())] for cell in counts}
    several = [set(items) for items in lists.values() if len(items) > 1]
    if not several:
        return None
    cells = Counter(name for items in lists.values() for name in set(items))
    often: Counter[str] = Counter()
    for cell, items in lists.items():
        for name in set(items):
            often[name] += counts[cell]
    sizes = {len(items) for items in lists.values()}
    inside = [name for items in several for name in items]
    return Delimited(
        delimiter=delimiter,
        often=often,
        most=max(sizes),
        equal=len(sizes) == 1 and len(several) >= 3,
        shared=sum(cells[name] > 1 for name in inside) / len(inside),
    )


def word_count(cell: str) -> float:
    """Words of a cell; where a script has no blanks, two characters count as one.

    >>> word_count("two words"), word_count("今天天气很好")
    (2.0, 3.0)
    """
    dense = len(_NO_BLANKS.findall(cell))
    return dense / 2 + len(_NO_BLANKS.sub(" ", cell).split() if dense else cell.split())


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _names(often: Counter[str]) -> str:
    common = ", ".join(short(name) for name, _ in often.most_common(3))
    return f"{len(often):,} different ({common}{', ...' if len(often) > 3 else ''})"


def short(cell: str) -> str:
    """Quoted, and cut where it is long."""
    return repr(cell) if len(cell) <= 40 else repr(cell[:37] + "...")


def _shown(delimiter: str) -> str:
    return {" ": "blanks", "\t": "tabs"}.get(delimiter, repr(delimiter))

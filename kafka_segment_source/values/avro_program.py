"""A writer's and a reader's schema → the program that the kernel runs for the writer's values.

As in the specification of Avro 1.12, section "Schema Resolution": fields by name or alias, defaults, promotion, enum
defaults. Of a union of the reader, the branch of the same type is taken before one that the value can be promoted to,
as in Java. What cannot be resolved is an error at once; a branch of a writer's union that cannot be is one for the
rows that have it.

Times of both schemas are converted by the writer's unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kafka_segment_source.kernels import avro
from kafka_segment_source.values.avro_columns import ValueColumn, is_simple_union
from kafka_segment_source.values.avro_defaults import bad_default, default_bits, default_bytes, encode_text, halves
from kafka_segment_source.values.avro_matching import check_match, find_branch, find_factor, find_field, is_inside
from kafka_segment_source.values.avro_schema import AvroError, Type, shorten

MOST_STEPS = 100_000  # of one writer
_LARGEST_LEAST = 2**31
_MOST_DEPTH = 128


class TooLargeError(AvroError):
    """A schema that stands for more than this package takes."""


_STEPS = {
    ("boolean", "boolean"): avro.BOOLEAN,
    ("int", "int"): avro.INT,
    ("int", "long"): avro.INT_TO_LONG,
    ("int", "float"): avro.INT_TO_FLOAT,
    ("int", "double"): avro.INT_TO_DOUBLE,
    ("long", "long"): avro.LONG,
    ("long", "float"): avro.LONG_TO_FLOAT,
    ("long", "double"): avro.LONG_TO_DOUBLE,
    ("float", "float"): avro.FLOAT,
    ("float", "double"): avro.FLOAT_TO_DOUBLE,
    ("double", "double"): avro.DOUBLE,
    ("bytes", "bytes"): avro.BYTES,
    ("string", "bytes"): avro.STRING,  # what passes over it checks it, too
    ("bytes", "string"): avro.STRING,
    ("string", "string"): avro.STRING,
}
_LEAST = {"null": 0, "float": 4, "double": 8}  # bytes; other types have at least one


@dataclass
class Programs:
    """The programs of all writers of a column. They are made once, and each row runs one.

    columns: of the reader.
    starts: the first step of each program.
    raw: the writers' types of the texts of JSON.
    """

    columns: ValueColumn
    steps: npt.NDArray[np.int64]
    lists: npt.NDArray[np.int64]
    texts: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    raw: list[Type] = field(default_factory=list)


def make_programs(
    writers: Sequence[Type | None], reader: Type, columns: ValueColumn, takes_rest: bool = False
) -> tuple[Programs, list[str]]:
    """Makes a program for each writer. None stands for a writer whose values nobody can decode.

    takes_rest: values of the type bytes have no length, but are all the bytes that are left, as Confluent's serializer
    writes them (`AbstractKafkaAvroSerializer`).

    Returns them, and for each writer why its values cannot be read, "" where they can.
    """
    maker = _Maker(columns)
    starts, reasons = [], []
    for writer in writers:
        starts.append(len(maker.steps))
        reason = "" if writer is not None else "nobody can decode its values"
        if writer is not None:
            try:
                maker.make(writer, reader, takes_rest)
            except (AvroError, RecursionError) as error:
                reason = str(error) if isinstance(error, AvroError) else "its types are too deep inside one another"
                del maker.steps[starts[-1] :]
        if reason:
            maker.add(avro.REFUSE)
        reasons.append(reason)
    return maker.finish(starts), reasons


class _Maker:
    """Adds steps. Numbers of steps are known only when they are added, so some steps are filled in later."""

    def __init__(self, root: ValueColumn) -> None:
        self.steps: list[list[int]] = []
        self._root = root
        self._lists: list[int] = [0, 0]
        self._texts = bytearray()
        self._raw: list[Type] = []
        self._calls: list[tuple[int, Type]] = []  # steps that call what skips a type
        self._work = 0
        self._depth = 0
        self._least: dict[Type, int] = {}
        self._circles: dict[Type, bool] = {}
        self._lists[0:2] = self._list_empty(root)

    def finish(self, starts: list[int]) -> Programs:
        steps = np.zeros((len(self.steps), avro.WORDS), np.int64)
        for at, step in enumerate(self.steps):
            steps[at, : len(step)] = step
        texts = np.frombuffer(bytearray(self._texts) or bytearray(1), np.uint8)
        return Programs(
            self._root, steps, np.array(self._lists, np.int64), texts, np.array(starts, np.int64), self._raw
        )

    def make(self, writer: Type, reader: Type, takes_rest: bool) -> None:
        """Adds the program of one writer."""
        self._work, self._depth, self._calls = 0, 0, []
        if takes_rest and writer.kind == "bytes":
            if self._root.kind != avro.TEXT or reader.kind != "bytes":
                raise AvroError(f"bytes without a length are not {reader.label}")
            self.add(avro.REST, self._root.number)
        else:
            self._resolve(writer, reader, self._root)
        self.add(avro.END)
        made: dict[Type, int] = {}
        while self._calls:
            at, kind = self._calls.pop()
            if kind not in made:
                made[kind] = len(self.steps)
                self._skip(kind, whole=True)
                self.add(avro.RETURN)
            self.steps[at][1] = made[kind]

    def add(self, *step: int) -> int:
        """Adds a step. Returns its number."""
        self.steps.append(list(step))
        return len(self.steps) - 1

    # ---- a value into a column ----

    def _enter(self) -> None:
        """Counts a type that is looked at. A short schema can stand for very many, one inside the other."""
        self._depth += 1
        self._work += 1
        if self._depth > _MOST_DEPTH:
            raise TooLargeError(f"it has more than {_MOST_DEPTH} types inside one another")
        if self._work > MOST_STEPS:
            raise TooLargeError(f"its values take more than {MOST_STEPS:,} steps")

    def _resolve(self, writer: Type, reader: Type, column: ValueColumn) -> None:
        self._enter()
        try:
            if column.is_json and reader.kind != "union":
                self._keep_raw(writer, column)
            elif writer.kind == "union":
                self._resolve_writers_union(writer, reader, column)
            elif reader.kind == "union":
                self._resolve_readers_union(writer, reader, column)
            else:
                check_match(writer, reader)
                self._resolve_same(writer, reader, column)
        finally:
            self._depth -= 1

    def _resolve_writers_union(self, writer: Type, reader: Type, column: ValueColumn) -> None:
        kinds = [branch.kind for branch in writer.branches]
        null = find_branch(Type("null"), reader) if reader.kind == "union" else None
        if len(kinds) == 2 and "null" in kinds and null is not None:  # noqa: PLR2004  # most unions are these
            at = kinds.index("null")
            option = self.add(avro.OPTION, at, *self._list_empty(column))
            self._resolve_branch(writer.branches[1 - at], reader, column)
            self.steps[option].append(len(self.steps))
            return
        table = self._reserve(len(kinds))
        self.add(avro.UNION, len(kinds), table)
        jumps = []
        for at, branch in enumerate(writer.branches):
            self._lists[table + at] = len(self.steps)
            self._resolve_branch(branch, reader, column)
            jumps.append(self.add(avro.JUMP))
        for jump in jumps:
            self.steps[jump].append(len(self.steps))

    def _resolve_branch(self, branch: Type, reader: Type, column: ValueColumn) -> None:
        """Adds the steps of a branch of a writer's union, or of an item. Only rows that have one need that it can be
        resolved."""
        begin, calls = len(self.steps), len(self._calls)
        try:
            self._resolve(branch, reader, column)
        except TooLargeError:
            raise
        except AvroError:
            del self.steps[begin:], self._calls[calls:]
            self.add(avro.REFUSE)

    def _resolve_readers_union(self, writer: Type, reader: Type, column: ValueColumn) -> None:
        branch = find_branch(writer, reader)
        if branch is None:
            raise AvroError(f"{writer.label} is none of {', '.join(branch.label for branch in reader.branches[:20])}")
        simple = is_simple_union(reader)
        if branch.kind == "null":
            self.add(avro.NULLS, *self._list_empty(column))
        elif simple is not None:
            self._resolve(writer, simple, column)
        else:
            members = [branch for branch in reader.branches if branch.kind != "null"]
            chosen = f"member{members.index(branch)}"
            for name, child in zip(column.names, column.children, strict=True):
                if name == chosen:
                    self._resolve(writer, branch, child)
                else:
                    self.add(avro.NULLS, *self._list_empty(child))
            if chosen not in column.names:
                self._skip(writer)
            self.add(avro.PRESENT, column.number)

    def _resolve_same(self, writer: Type, reader: Type, column: ValueColumn) -> None:
        number = column.number
        if writer.kind == "record":
            self._resolve_record(writer, reader, column)
        elif writer.kind in ("array", "map"):
            self._add_items(writer, lambda: self._resolve_branch(writer.item, reader.item, column.children[-1]), column)
            self.add(avro.END_LIST, number)
        elif writer.kind == "null":
            self.add(avro.PRESENT, number)
        elif writer.kind == "enum":
            self._resolve_enum(writer, reader, number)
        elif column.kind == avro.SIXTEEN:
            if writer.logical == "decimal" and writer.scale != reader.scale:
                raise AvroError(f"it has a decimal of scale {writer.scale}, expected {reader.scale}")
            code = avro.DECIMAL_FIXED if writer.kind == "fixed" else avro.DECIMAL
            low, high = halves(10**reader.precision)
            self.add(code, number, writer.size, high, low)
        elif writer.kind == "fixed":
            code = avro.UUID_FIXED if reader.logical == "uuid" else avro.FIXED
            self.add(code, number, writer.size)
        else:
            self.add(_STEPS[writer.kind, reader.kind], number, find_factor(writer, reader))

    def _resolve_record(self, writer: Type, reader: Type, column: ValueColumn) -> None:
        left = {field.name: field for field in reader.fields}
        for of_writer in writer.fields:
            of_reader = find_field(of_writer, reader)
            child = None if of_reader is None else column.child(of_reader.name)
            if of_reader is None or of_reader.name not in left:
                self._skip(of_writer.type)
                continue
            del left[of_reader.name]
            try:
                if child is None:
                    self._skip(of_writer.type)
                else:
                    self._resolve(of_writer.type, of_reader.type, child)
            except AvroError as error:
                raise AvroError(f"field {shorten(of_reader.name)}: {error}") from error
        for name, missing in left.items():
            if not missing.has_default:
                raise AvroError(
                    f"{reader.label} wants the field {shorten(name)}, which it has not, and which has no default"
                )
            child = column.child(name)
            if child is not None:
                self._add_default(missing.default, missing.type, child)
        self.add(avro.PRESENT, column.number)

    def _resolve_enum(self, writer: Type, reader: Type, number: int) -> None:
        table = self._reserve(2 * len(writer.symbols))
        known = set(reader.symbols)
        for at, symbol in enumerate(writer.symbols):
            text = symbol if symbol in known else reader.default_symbol
            place = (0, -1) if text is None else self._keep_text(text.encode())
            self._lists[table + 2 * at : table + 2 * at + 2] = place
        self.add(avro.ENUM, number, len(writer.symbols), table)

    def _keep_raw(self, writer: Type, column: ValueColumn) -> None:
        """Keeps the bytes of a value, with the number of its type. `avro_json.py` makes JSON of them."""
        if writer not in self._raw:
            self._raw.append(writer)
        self.add(avro.BEGIN_RAW)
        self._skip(writer)
        self.add(avro.END_RAW, column.number, self._raw.index(writer))

    # ---- defaults ----

    def _add_default(self, value: object, of: Type, column: ValueColumn) -> None:
        """Adds the steps of a default, a value of JSON."""
        self._enter()
        try:
            if column.is_json:
                raise AvroError("it has a default inside a type that refers to itself")
            if of.kind == "union":
                self._add_default_of_union(value, of, column)
            elif of.kind == "record":
                if not isinstance(value, dict):
                    raise bad_default(value, of)
                for field in of.fields:
                    child = column.child(field.name)
                    if field.name not in value and not field.has_default:
                        raise bad_default(value, of)
                    if child is not None:
                        self._add_default(value.get(field.name, field.default), field.type, child)
                self.add(avro.PRESENT, column.number)
            elif of.kind in ("array", "map"):
                self._add_default_items(value, of, column)
            elif of.kind == "null":
                self.add(avro.PRESENT, column.number)
            else:
                self._add_constant(value, of, column)
        finally:
            self._depth -= 1

    def _add_default_of_union(self, value: object, of: Type, column: ValueColumn) -> None:
        """Adds a default of a union: of the first branch, as the specification says, or else of one that it fits."""
        for branch in of.branches:
            begin = len(self.steps)
            try:
                if branch.kind == "null":
                    if value is not None:
                        continue
                    self.add(avro.NULLS, *self._list_empty(column))
                    return
                if value is None:
                    continue
                simple = is_simple_union(of)
                if simple is not None:
                    self._add_default(value, simple, column)
                    return
                members = [branch for branch in of.branches if branch.kind != "null"]
                for at, member in enumerate(members):
                    child = column.child(f"member{at}")
                    if child is not None and member is branch:
                        self._add_default(value, branch, child)
                    elif child is not None:
                        self.add(avro.NULLS, *self._list_empty(child))
                self.add(avro.PRESENT, column.number)
                return
            except TooLargeError:
                raise
            except AvroError:
                del self.steps[begin:]
        raise bad_default(value, of)

    def _add_default_items(self, value: object, of: Type, column: ValueColumn) -> None:
        if not isinstance(value, list if of.kind == "array" else dict):
            raise bad_default(value, of)
        assert isinstance(value, (list, dict))
        for item in value:
            if isinstance(value, dict):
                self.add(avro.CONSTANT_BYTES, column.children[0].number, *self._keep_text(encode_text(item)))
            self._add_default(value[item] if isinstance(value, dict) else item, of.item, column.children[-1])
        self.add(avro.END_LIST, column.number)

    def _add_constant(self, value: object, of: Type, column: ValueColumn) -> None:
        if column.kind == avro.TEXT:
            data = default_bytes(value, of)
            if of.kind == "fixed" and of.logical == "uuid":
                digits = data.hex()
                data = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])).encode()
            self.add(avro.CONSTANT_BYTES, column.number, *self._keep_text(data))
        elif column.kind == avro.SIXTEEN:
            number = int.from_bytes(default_bytes(value, of), "big", signed=True)
            if abs(number) >= 10**of.precision:
                raise bad_default(value, of)
            self.add(avro.CONSTANT, column.number, *halves(number))
        else:
            self.add(avro.CONSTANT, column.number, default_bits(value, of))

    # ---- values that nobody wants ----

    def _skip(self, of: Type, whole: bool = False) -> None:
        """Adds steps that pass over a value, and check it. whole: do not call, for a type that refers to itself."""
        self._enter()
        try:
            if of.kind == "record" and not whole and self._refers_to_itself(of):
                self._calls.append((self.add(avro.CALL, 0), of))
            elif of.kind == "record":
                for field in of.fields:
                    self._skip(field.type)
            elif of.kind == "union":
                self._skip_union(of)
            elif of.kind in ("array", "map"):
                self._add_items(of, lambda: self._skip(of.item), None)
            elif of.kind != "null":
                self.add(*_find_skip(of))
        finally:
            self._depth -= 1

    def _skip_union(self, of: Type) -> None:
        table = self._reserve(len(of.branches))
        self.add(avro.UNION, len(of.branches), table)
        jumps = []
        for at, branch in enumerate(of.branches):
            self._lists[table + at] = len(self.steps)
            self._skip(branch)
            jumps.append(self.add(avro.JUMP))
        for jump in jumps:
            self.steps[jump].append(len(self.steps))

    # ---- parts of steps ----

    def _find_least(self, of: Type) -> int:
        """The least bytes that a value of a type has."""
        if of not in self._least:
            self._least[of] = 0  # of a record inside itself
            if of.kind == "record":
                self._least[of] = min(sum(self._find_least(field.type) for field in of.fields), _LARGEST_LEAST)
            else:
                self._least[of] = of.size if of.kind == "fixed" else _LEAST.get(of.kind, 1)
        return self._least[of]

    def _refers_to_itself(self, of: Type) -> bool:
        if of not in self._circles:
            self._circles[of] = is_inside(of, of)
        return self._circles[of]

    def _add_items(self, of: Type, add_item: Callable[[], None], column: ValueColumn | None) -> None:
        """Adds the loop over the items of an array or a map. column: for its keys, None where they are not wanted."""
        least = self._find_least(of.item) + (1 if of.kind == "map" else 0)
        items = self.add(avro.ITEMS, 0, least)
        if of.kind == "map" and column is not None:
            self.add(avro.STRING, column.children[0].number)
        elif of.kind == "map":
            self.add(avro.SKIP_BYTES, 1)
        add_item()
        self.add(avro.NEXT_ITEM, items + 1, least)
        self.steps[items].append(len(self.steps))

    def _list_empty(self, column: ValueColumn) -> tuple[int, int]:
        """Keeps the numbers of the columns that get an empty element where `column` does. Returns place and size."""
        numbers = [neighbour.number for neighbour in column.beside()]
        return self._keep_list(numbers), len(numbers)

    def _keep_list(self, numbers: list[int]) -> int:
        self._lists += numbers
        return len(self._lists) - len(numbers)

    def _reserve(self, count: int) -> int:
        return self._keep_list([0] * count)

    def _keep_text(self, text: bytes) -> tuple[int, int]:
        self._texts += text
        return len(self._texts) - len(text), len(text)


def _find_skip(of: Type) -> tuple[int, int]:
    """The step that passes over a value of a type without parts."""
    return {
        "boolean": (avro.SKIP_BOOLEAN, 0),
        "int": (avro.SKIP_INT, 0),
        "long": (avro.SKIP_LONG, 0),
        "float": (avro.SKIP_FIXED, 4),
        "double": (avro.SKIP_FIXED, 8),
        "bytes": (avro.SKIP_BYTES, 0),
        "string": (avro.SKIP_BYTES, 1),
        "fixed": (avro.SKIP_FIXED, of.size),
        "enum": (avro.SKIP_ENUM, len(of.symbols)),
    }[of.kind]

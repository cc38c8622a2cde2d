"""The fingerprint of an Avro schema, by which single objects name their writer: CRC-64-AVRO of its canonical form.

As in the specification of Avro 1.12, sections "Parsing Canonical Form" and "Schema Fingerprints".
"""

from __future__ import annotations

import json

from kafka_segment_source.values.avro_schema import Type

_EMPTY = 0xC15D213AA4D7A795


def _make_table() -> list[int]:
    table = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = (value >> 1) ^ (_EMPTY & -(value & 1))
        table.append(value)
    return table


def fingerprint(schema: Type) -> int:
    """Returns the fingerprint as a signed number of 64 bits."""
    table, value = _make_table(), _EMPTY
    for byte in canonical_form(schema).encode():
        value = (value >> 8) ^ table[(value ^ byte) & 0xFF]
    return value - 2**64 if value >= 2**63 else value


def canonical_form(schema: Type, seen: set[Type] | None = None) -> str:  # noqa: PLR0911  # one for each kind
    """Returns the Parsing Canonical Form. seen: types that were written before, of which the name is enough."""
    seen = set() if seen is None else seen
    if schema.name:
        if schema in seen:
            return _quote(schema.name)
        seen.add(schema)
    if schema.kind == "union":
        return "[" + ",".join(canonical_form(branch, seen) for branch in schema.branches) + "]"
    if schema.kind == "array":
        return '{"type":"array","items":' + canonical_form(schema.item, seen) + "}"
    if schema.kind == "map":
        return '{"type":"map","values":' + canonical_form(schema.item, seen) + "}"
    if not schema.name:
        return _quote(schema.kind)
    head = f'{{"name":{_quote(schema.name)},"type":"{schema.kind}"'
    if schema.kind == "enum":
        return head + ',"symbols":[' + ",".join(map(_quote, schema.symbols)) + "]}"
    if schema.kind == "fixed":
        return f'{head},"size":{schema.size}}}'
    fields = (f'{{"name":{_quote(field.name)},"type":{canonical_form(field.type, seen)}}}' for field in schema.fields)
    return head + ',"fields":[' + ",".join(fields) + "]}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

"""The schemas that a read knows: those of a topic, of an export of it, or of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kafka_segment_source.errors import OptionError
from kafka_segment_source.reporting import Warnings, name_some
from kafka_segment_source.schema_registry.registry_messages import Schema, SubjectVersion, split_subject
from kafka_segment_source.schema_registry.replay import Registered

_MOST_REFERENCES = 1000  # of one schema, and of those that it uses
_MOST_NAMED = 10  # subjects in a message


@dataclass
class Registry:
    """Schemas by id and by subject.

    words: what a message calls it, with the offset up to which it was read.
    warnings: of reading it.
    is_of_files: whether it is made of files, which have no references.
    """

    words: str
    by_id: dict[tuple[str, int], Registered] = field(default_factory=dict)
    by_place: dict[SubjectVersion, Registered] = field(default_factory=dict)
    warnings: Warnings = field(default_factory=Warnings)
    is_of_files: bool = False

    @classmethod
    def of(cls, words: str, everything: Iterable[Registered]) -> Registry:
        """Makes the registry of schemas in log order. Of two texts with one id the first counts, as in Confluent's."""
        made = cls(words)
        for entry in everything:
            place = entry.schema.place
            first = made.by_id.setdefault((place.context, entry.schema.id), entry)
            if first.schema.text != entry.schema.text:
                made.warnings.add(
                    f"{words} has two schemas of id {entry.schema.id}: that of {name_place(first.schema.place)} counts, and"
                    f" that of {name_place(place)} does not"
                )
            made.by_place[place] = entry
        return made

    def of_context(self, context: str) -> Iterator[Schema]:
        """Yields the schemas of a context, one for each id."""
        for (of, _), registered in self.by_id.items():
            if of == context:
                yield registered.schema

    def find_id(self, context: str, number: int) -> Schema | None:
        registered = self.by_id.get((context, number))
        return None if registered is None else registered.schema

    def find_latest(self, context: str, subject: str) -> Schema | None:
        """Finds the newest version of a subject. A deleted one counts only if all are deleted."""
        versions = self._versions(context, subject)
        there = [version for version in versions if not version.is_deleted] or versions
        return max((entry.schema for entry in there), key=lambda schema: schema.place.version, default=None)

    def find_version(self, context: str, subject: str, version: int) -> Schema | None:
        registered = self.by_place.get(SubjectVersion(context, subject, version))
        return None if registered is None else registered.schema

    def name_subjects(self, context: str) -> str:
        """The subjects of a context, for a message."""
        names = sorted({place.subject for place in self.by_place if place.context == context})
        return name_some(names, _MOST_NAMED) or "no subject"

    def find_references(self, schema: Schema) -> list[Schema]:
        """Finds what a schema uses, those first that the others need, each once. Raises OptionError for one that is
        missing."""
        references: dict[SubjectVersion, Schema] = {}
        self._add_references(schema, references, ())
        return list(references.values())

    def find_imports(self, schema: Schema) -> dict[str, Schema]:
        """Finds what a schema uses, by the names that it and those that it uses have for it. Raises OptionError for one
        that is missing, and for a name of two schemas."""
        imports: dict[str, Schema] = {}
        for user in (schema, *self.find_references(schema)):
            for reference in user.references:
                place = SubjectVersion(*split_subject(reference.subject, user.place.context), reference.version)
                used = self.by_place[place].schema
                if imports.setdefault(reference.name, used).text != used.text:
                    raise OptionError(f"it uses two schemas under the name {reference.name!r}")
        return imports

    def _add_references(
        self, schema: Schema, references: dict[SubjectVersion, Schema], inside: tuple[SubjectVersion, ...]
    ) -> None:
        for reference in schema.references:
            context, subject = split_subject(reference.subject, schema.place.context)
            place = SubjectVersion(context, subject, reference.version)
            if place in references:
                continue
            registered = self.by_place.get(place)
            if registered is None:
                raise OptionError(f"it uses {name_place(place)}, which {self.words} does not have")
            if place in inside or len(inside) + len(references) > _MOST_REFERENCES:
                raise OptionError(f"it uses {name_place(place)} in a circle, or too many others")
            if len(inside) > 100:  # noqa: PLR2004  # far below Python's own limit
                raise OptionError("its references are more than 100 deep")
            self._add_references(registered.schema, references, (*inside, place))
            references[place] = registered.schema

    def _versions(self, context: str, subject: str) -> list[Registered]:
        return [
            registered
            for place, registered in self.by_place.items()
            if place.context == context and place.subject == subject
        ]


def name_place(place: SubjectVersion) -> str:
    """What a message calls a version."""
    context = "" if place.context == "." else f":{place.context}:"
    return f"{context}{place.subject} version {place.version}"

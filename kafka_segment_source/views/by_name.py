"""Every view by its name: `table_of` gives its columns, `view_of` what plans and reads it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kafka_segment_source import option_values as values
from kafka_segment_source.decoding.tables import SPLIT_TABLES
from kafka_segment_source.schema import Table

if TYPE_CHECKING:
    from kafka_segment_source.views.view import View

_MODULES: dict[str, str] = {
    values.TRANSACTIONS: "views.transactions",
    values.SEGMENTS: "views.segments",
    values.OFFSET_INDEX: "views.offset_index",
    values.TIME_INDEX: "views.time_index",
    values.ABORTED_TRANSACTIONS: "views.aborted_transactions",
    values.CONSUMER_OFFSETS: "views.consumer_offsets",
    values.SHARE_OFFSETS: "views.share_offsets",
    values.TRANSACTIONAL_IDS: "views.transactional_ids",
    values.TOPICS: "views.topics",
    values.SCHEMAS: "views.schemas",
}
"""The module of each view that is not made of splits. It has the name VIEW. It is loaded when it is asked for."""


def view_of(name: str) -> View | None:
    """Returns the view of this name. None for the views whose rows lie in splits."""
    if name in SPLIT_TABLES:
        return None
    view: View = import_module(f"kafka_segment_source.{_MODULES[name]}").VIEW
    return view


def table_of(name: str) -> Table:
    """Returns the columns of a view."""
    view = view_of(name)
    return SPLIT_TABLES[name] if view is None else view.table

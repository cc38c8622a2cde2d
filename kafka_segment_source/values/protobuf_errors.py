"""What is wrong with a schema of Protobuf, and what is said where Google's library is not installed."""

from __future__ import annotations

NEEDS_PROTOBUF = "format protobuf needs the package protobuf: pip install 'kafka-segment-source[protobuf]'"


class ProtobufError(ValueError):
    """A schema of Protobuf that cannot be used."""

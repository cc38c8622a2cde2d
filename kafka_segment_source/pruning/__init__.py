"""Finds the bytes of a segment that can hold a wanted row, by its index files and by `timestampDisorder`.

Each rule has a proof.
"""

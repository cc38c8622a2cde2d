"""Looking at a log instead of reading it: what is there (`summary`), and whether it is whole (`verify`).
Values; no printing."""

from collections.abc import Callable

Advance = Callable[[int], None]
"""Told how many bytes more have been looked at."""

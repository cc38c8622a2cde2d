"""Inspection of a log without reading its rows: its content, its health, and the offset of a time.

The functions return values and print nothing.
"""

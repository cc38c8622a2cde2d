"""Reads the rows of a partition across its segments.

It follows files that change, and replaces damaged batches from other copies.
"""

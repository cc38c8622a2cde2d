"""Reads the rows of a partition across its segments.

It follows files that change, replaces damaged batches from other copies, and leaves out aborted transactions.
"""

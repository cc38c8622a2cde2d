"""Transactions: markers, the walk over a log's batches that finds them, and what they say of the producers' data."""

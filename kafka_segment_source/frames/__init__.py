"""Lazy tables for DuckDB, Polars and pyarrow: their columns and predicates reach the plan of a read."""

"""Opt-in comparisons with Kafka's own tools; run as scripts, never collected by pytest."""

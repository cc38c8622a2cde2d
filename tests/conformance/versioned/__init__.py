"""What `tests.conformance.versions` runs with brokers of each version."""

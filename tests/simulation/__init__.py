"""Reads beside a simulated broker, by the seed."""

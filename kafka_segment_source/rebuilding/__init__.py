"""Writes the chain that a read takes as one clean log directory."""

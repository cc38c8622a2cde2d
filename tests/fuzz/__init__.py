"""Mutated real segments: right rows or one of our errors, nothing else. `test_fuzz.py` says how it is run."""

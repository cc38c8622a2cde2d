"""The parts of the soak (`tests/conformance/soak.py`): topics, ledger, load, readers, judge, tally."""

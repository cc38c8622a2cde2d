"""One split → Arrow batches. The steps: bytes of a range, batches that are proven, plain records, columns."""

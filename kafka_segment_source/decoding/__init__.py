"""One split → Arrow batches: the bytes of one range, batches that can be believed, plain records, columns."""

"""The rows of a partition across its segments: files that change, damage that other copies mend, aborted
transactions."""

"""view=latest: the newest record of each key of a partition."""

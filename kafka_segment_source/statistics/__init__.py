"""Statistics of topics: exact sums, and estimates whose error is known, in one pass and bounded memory."""

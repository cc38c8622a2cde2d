"""Zone maps: one decoding pass makes them, Parquet files keep them, and they are used only where the log proves
them."""

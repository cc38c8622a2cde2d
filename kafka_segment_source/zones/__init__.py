"""Zone maps: made by one decoding pass, kept in Parquet files, believed only where the log proves them."""

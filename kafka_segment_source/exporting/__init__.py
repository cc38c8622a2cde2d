"""`export`: what the logs have gained since the last run, into Parquet, Delta or Iceberg, each record once."""

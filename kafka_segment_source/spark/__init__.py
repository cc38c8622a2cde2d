"""The Spark edge: the only place where pyspark is imported."""

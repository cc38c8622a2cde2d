"""The data source for Spark. Only this folder imports pyspark."""

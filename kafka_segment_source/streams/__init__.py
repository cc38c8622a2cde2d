"""Reads a log piece by piece as it grows. It needs no Spark; `spark/stream_reader.py` connects it to one."""

"""Loops over flat arrays, compiled by numba; nothing here opens a file, holds an object or raises for data.

Every kernel takes arrays and integers, fills arrays it was given, and answers with a count or a status code;
`decoding/records.py` and `decoding/batches.py` turn codes into errors. Integers are signed 64-bit throughout: numba
turns int64 + uint64 into a float. Nothing of the package's own modules but `format` is imported here.
"""

"""Loops over flat arrays, compiled by numba. They open no file, hold no object and raise no error for data.

Every kernel takes arrays and integers, fills the arrays that it was given, and returns a count or a status code.
`decoding/records.py` and `decoding/batches.py` turn status codes into errors. All integers are signed 64-bit, since
numba turns int64 + uint64 into a float. Kernels import `kafka_format` only; `jit.py` also imports `storage/private.py`.
"""

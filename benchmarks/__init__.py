"""The benchmark suite: `make bench`, or `python -m benchmarks [group …] [--quick] [--long] [--kafka]`.

Off by default: nothing here is collected by pytest but `test_suite.py`, which checks the tools and times nothing.
Figures are ratios in one run wherever they can be, medians with their spread; timings never decide a test.
"""

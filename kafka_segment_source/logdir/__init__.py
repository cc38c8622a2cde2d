"""Reads the files of a log directory: file names, checkpoints, index files and batch headers. It decodes no record."""

"""Where files are: the few operations asked of a file system, open files, paths from text."""

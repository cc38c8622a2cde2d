"""Access to files: the operations that a file system must have, open files, and paths from text."""

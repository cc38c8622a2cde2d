"""Looking at a log instead of reading it: what is there, whether it is whole, which offset a time has. Values; no
printing."""

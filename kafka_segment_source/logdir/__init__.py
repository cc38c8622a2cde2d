"""What lies in a log directory: names, checkpoints, index files, batch headers. No record is decoded here."""

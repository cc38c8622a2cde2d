"""The directories of one partition → one log to read: what is there, what is missing, what each copy holds."""

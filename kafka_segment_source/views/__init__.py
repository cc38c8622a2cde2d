"""Views: tables of what a log holds besides its records. One file each; `by_name.py` knows them all."""

"""Views: tables of what a log holds besides its records. One file each; `registry.py` knows them all."""

"""Keys and values as typed columns: what their bytes mean under a schema."""

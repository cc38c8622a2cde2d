"""Search: which records have a text in their key, value, headers or a field, and where a key's bytes still lie."""

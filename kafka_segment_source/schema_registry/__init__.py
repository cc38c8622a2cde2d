"""The schemas of a cluster: what the topic `_schemas` says of them, and which of them a read uses."""

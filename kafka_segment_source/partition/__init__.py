"""Makes one log per partition: finds missing records, and merges several copies."""

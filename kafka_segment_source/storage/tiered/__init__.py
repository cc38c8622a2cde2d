"""Remote tiers (KIP-405), each shown as partition directories of Kafka's own layout."""

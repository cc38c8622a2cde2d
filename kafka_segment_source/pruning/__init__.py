"""Which bytes of a segment can hold a wanted row, by its index files and by `timestampDisorder`. Each
rule has a proof."""

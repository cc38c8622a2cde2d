"""The state of Kafka's internal topics as rows: what a broker keeps in its memory, read from its files."""

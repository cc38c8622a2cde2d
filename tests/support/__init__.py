"""The oracle of the tests: a naive decoder, a writer of Kafka's bytes, generated logs. Nothing imports the package."""

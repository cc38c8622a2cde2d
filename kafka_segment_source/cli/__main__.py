"""`python -m kafka_segment_source.cli` is `kafkaseg`."""

from kafka_segment_source.cli import main

if __name__ == "__main__":
    main()

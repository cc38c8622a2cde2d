"""Options → ReadPlan, on the driver: starting and ending offsets, the last stable offset, splits and tasks."""

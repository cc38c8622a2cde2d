"""Options → ReadPlan, on the driver. It finds starting, ending and last stable offsets, splits and tasks."""

"""Statistics that need the run's history, folded in step order. Pure: values in, values out."""

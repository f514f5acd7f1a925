"""When a run's measurements become an alert, and what it says. Pure: values in, values out."""

"""What trainers send becomes rows: all of it or nothing, committed before it is acknowledged."""

"""Who is alive: signs of life from trainers and workers, and the watch that sees when they stop."""

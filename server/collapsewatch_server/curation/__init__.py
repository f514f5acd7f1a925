"""What people do about runs: name them, put them away, delete them."""

"""Everything the service keeps, in one file, and back: rows of either database, and the blobs they name."""

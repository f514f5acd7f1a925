"""What every route shares: request bodies, access, headers."""

"""The service: ingest, queue, results, live events and the read API."""

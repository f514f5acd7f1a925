"""The API's own description: schema, examples, page."""

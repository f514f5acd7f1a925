"""Telling people: channels, what is sent to them, and how it gets there."""

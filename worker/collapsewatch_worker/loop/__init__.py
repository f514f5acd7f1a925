"""Claiming jobs and handing them to the scoring process."""

"""Leases of jobs, and the feed that suggests the next one."""

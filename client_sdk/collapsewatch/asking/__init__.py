"""What people and programs ask a running server, or one that is started on the home folder meanwhile."""

"""What people see of alerts and do to them: one item for each alert and its graver successors."""

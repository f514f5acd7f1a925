"""Starting and stopping the service's processes."""

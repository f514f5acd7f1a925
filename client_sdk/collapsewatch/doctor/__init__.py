"""`collapsewatch doctor`: looks for the commonest mistakes of an installation, and says how to mend each."""

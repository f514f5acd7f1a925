"""What people do about alerts: handling them, and rules of their own."""

"""Who may ask the service, and how much of it one client may take."""

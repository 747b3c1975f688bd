"""Where vectors live and are searched."""

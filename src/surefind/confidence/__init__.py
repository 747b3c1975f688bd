"""From evidence to numbers a user can threshold."""

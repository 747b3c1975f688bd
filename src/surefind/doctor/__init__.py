"""What this machine can do, and what is missing: everything `surefind doctor` looks at."""

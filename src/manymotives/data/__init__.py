"""What agents act in and what they did: checked once, trusted afterwards."""

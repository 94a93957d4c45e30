"""Speed, measured side by side with the named peer in one run: `make bench`."""

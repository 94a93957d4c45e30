"""Tasks that share motives: Markov chains over partitions of tasks, and over what each motive wants."""

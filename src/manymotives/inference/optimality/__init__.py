"""Monte Carlo for the policy-optimality model."""

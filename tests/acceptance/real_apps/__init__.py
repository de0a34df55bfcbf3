"""What real apps ask of rules, each with a small schema of its own."""

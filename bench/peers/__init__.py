"""Other products' servers, which benchmarks run beside Pilotis. They are installed outside the repository."""

"""Plans: named sets of limits and quotas, what apps have used of them, and what follows."""

"""The migrations: numbered plain SQL, run in order by `pilotis.db.migrations`."""

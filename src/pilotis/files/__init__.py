"""File storages: uploads in three steps, items and folders, delivery, quotas, and cleanup."""

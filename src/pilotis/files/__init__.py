"""File storages: uploads in three steps, items and folders, delivery, quotas, and the end of what is left over."""

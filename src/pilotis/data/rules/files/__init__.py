"""Rules of file storages: the same documents, about files instead of rows."""

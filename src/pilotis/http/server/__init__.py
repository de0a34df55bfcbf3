"""Code that depends on the internals of uvicorn."""

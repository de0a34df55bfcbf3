"""Functions: an app's own JavaScript, TypeScript and Python code, run by the server in sandboxes."""

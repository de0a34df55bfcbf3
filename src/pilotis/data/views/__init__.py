"""Views: saved pipelines with parameters."""

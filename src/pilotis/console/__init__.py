"""The graphical console: its files, its initial configuration, and its sessions in a browser."""

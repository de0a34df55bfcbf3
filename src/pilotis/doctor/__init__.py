"""`pilotis doctor`: whether everything is there that a server needs, and what an app's public key lets anybody do."""

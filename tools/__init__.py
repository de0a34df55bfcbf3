"""Programs for those who work on Pilotis: what makes pages of the documentation."""

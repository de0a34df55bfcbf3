"""What sign-ups ask of invitations, which `pilotis.accounts.invitations` answers."""

"""What apps use besides requests: executions, time of functions, mails."""

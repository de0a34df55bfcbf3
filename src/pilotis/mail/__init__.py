"""Mail: settings, templates, the queue and the mailbox."""

"""`pilotis serve`: from nothing to a process, or several, that answer requests; and back.

- `data_directory`: the directory, and the lock that keeps it to one server;
- `database`: the PostgreSQL to use, started and stopped where it is our own;
- `installation`: what a database needs before it serves: migrations, the master key's fingerprint, a first app;
- `welcome`: what the start prints;
- `worker`: one process that answers requests;
- `supervisor`: several of them, kept alive;
- `stopping`: how it is told to stop;
- `start`: the sequence of all that.

Importing this package imports none of them: the modules a server needs are read while PostgreSQL starts.
"""

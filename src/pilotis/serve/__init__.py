"""`pilotis serve`: from an empty machine to one or more processes that answer requests, and the orderly stop.

- `data_directory`: the directory, and the lock that restricts it to one server;
- `database`: the PostgreSQL to use, started and stopped if it is the embedded one;
- `installation`: prepares the database: migrations, the master key's fingerprint, a first app;
- `welcome`: the text that the start prints;
- `worker`: one process that answers requests;
- `supervisor`: several workers, restarted when they end;
- `stopping`: the request to stop;
- `start`: the whole sequence.

Importing this package imports none of them: a server's modules are read while PostgreSQL starts.
"""

"""The PostgreSQL that Pilotis runs itself: `EmbeddedPostgres(directory).start()`.

The server is a child process that listens only on a unix socket and dies with its parent. The modules:

- `binaries`: where PostgreSQL's programs are, which version, and whether the server's user may run them;
- `account`: which user the server runs as, and how a child of Pilotis is started;
- `cluster`: the data directory: initdb, ownership, configuration;
- `lockfile`: `postmaster.pid`: is a server running here, and where does it listen;
- `server`: start and stop;
- `beside`: the same for the time of a block, beside an event loop;
- `upgrade`, `upgrade_store`, `programs`: to a new major version: the steps, the statements, PostgreSQL's programs.
"""

from pilotis.db.embedded.binaries import find_binaries
from pilotis.db.embedded.errors import EmbeddedPostgresError
from pilotis.db.embedded.lockfile import DatabaseAddress, running_address
from pilotis.db.embedded.server import EmbeddedPostgres

__all__ = ["DatabaseAddress", "EmbeddedPostgres", "EmbeddedPostgresError", "find_binaries", "running_address"]

"""On which sockets a server with HTTPS listens."""

import socket
import subprocess
import sys

import pytest

from pilotis.serve.errors import CommandError
from pilotis.serve.listening import listening
from pilotis.settings import Settings
from tests.waiting import PATIENCE

PASSED = """
import os, socket
from pilotis.serve.listening import listening
from pilotis.settings import Settings
opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
ports = [one.getsockname()[1] for one in opened]
# As a service manager does: from descriptor 3 on, here in the other order.
kept = [os.dup2(os.dup(one.fileno()), 20 + place) for place, one in enumerate(opened)]
for one in opened:
    one.close()
os.dup2(21, 3), os.dup2(20, 4)
os.close(20), os.close(21)
os.environ.update(LISTEN_FDS="2", LISTEN_PID=PID)
settings = Settings(https_names=["api.example.com"], host="0.0.0.0", https_port=ports[0], http_port=ports[1])
with listening(settings) as found:
    print([one.fileno() for one in found.main], [one.fileno() for one in found.plain], found.ports == set(ports))
    print(os.get_inheritable(3), found.url == f"https://127.0.0.1:{ports[0]}")
"""


def passed(pid: str) -> subprocess.CompletedProcess[str]:
    code = PASSED.replace("PID)", f"{pid})")
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_sockets_of_a_service_manager_are_used_by_their_ports():
    assert passed("str(os.getpid())").stdout == "[4] [3] True\nFalse True\n"


def test_sockets_for_another_process_are_not_used():
    found = passed("str(os.getppid())")
    assert "Address already in use" in found.stderr


def test_all_addresses_are_those_of_ipv6_too():
    settings = Settings(https_names=["api.example.com"], host="0.0.0.0", https_port=0, http_port=0)
    with listening(settings) as found:
        assert len({one.getsockname()[1] for one in found.main}) == 1
        families = [one.family for one in found.main]
        assert families[0] == socket.AF_INET
        with socket.create_connection(("127.0.0.1", found.main[0].getsockname()[1]), PATIENCE):
            pass
        if socket.AF_INET6 in families:
            with socket.create_connection(("::1", found.main[0].getsockname()[1]), PATIENCE):
                pass


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings = Settings(https_names=["api.example.com"], host="127.0.0.1", https_port=port, http_port=0)
        with pytest.raises(CommandError, match=f"port {port}: Address already in use"), listening(settings):
            pass

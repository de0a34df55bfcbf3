"""Settings: where each value comes from, and that everything wrong is told at once."""

import importlib.util
import re
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.limits import EXTRAS, PER_APP, stricter, zero_is_unlimited
from pilotis.security import master_key
from pilotis.settings import Settings, SettingsError, known_names, load, variable_of

ROOT = Path(__file__).parent.parent

VALUES = {
    "host": st.sampled_from(["127.0.0.1", "0.0.0.0", "::1"]),
    "port": st.integers(0, 65535),
    "workers": st.integers(1, 64),
    "pool_size": st.integers(2, 500),
    "statement_seconds": st.floats(0.001, 3600),
    "log_format": st.sampled_from(["auto", "json", "console"]),
    "base_url": st.sampled_from(["http://localhost:1", "https://api.example.com"]),
    "trusted_proxies": st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2", "::1"]), min_size=1),
    "outgoing_networks": st.lists(st.sampled_from(["10.1.0.0/16", "fd00::/8"]), min_size=1),
    "background": st.lists(st.sampled_from(["light", "builds"]), min_size=1),
    "limits.row_bytes": st.integers(1, 10**9),
    "limits.page_rows": st.integers(1, 10**9),
}
SOME = st.fixed_dictionaries({}, optional=VALUES)


def as_text(value) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def as_toml(values: dict) -> str:
    def line(name, value):
        return f"{name} = {msgspec.json.encode(value).decode()}\n"

    own = "".join(line(name, value) for name, value in values.items() if "." not in name)
    limits = "".join(line(name.split(".")[1], value) for name, value in values.items() if "." in name)
    return f"{own}[limits]\n{limits}"


def value_of(settings: Settings, name: str):
    group, _, limit = name.partition(".")
    return getattr(settings.limits, limit) if limit else getattr(settings, group)


@given(SOME, SOME, SOME)
def test_flags_win_over_variables_over_the_file_over_defaults(flags, variables, file):
    flags = {name: value for name, value in flags.items() if "." not in name}
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as written:
        written.write(as_toml(file))
        written.flush()
        environment = {variable_of(name): as_text(value) for name, value in variables.items()}
        settings = load(flags, {"PATH": "/bin", **environment}, Path(written.name))
    expected = file | variables | flags
    for name in VALUES:
        default = value_of(Settings(), name)
        assert value_of(settings, name) == expected.get(name, default), name


@given(st.sets(st.from_regex(r"[A-Z_]{1,20}", fullmatch=True).filter(lambda n: n not in {"", "_"}), min_size=1))
def test_every_unknown_variable_is_named(names):
    unknown = {f"PILOTIS_{name}" for name in names} - {variable_of(name) for name in known_names()}
    with pytest.raises(SettingsError) as caught:
        load({}, dict.fromkeys([*unknown, "PILOTIS_LIMITS"], "1"))
    assert caught.value.problems == [f"{name} is not a setting." for name in [*unknown, "PILOTIS_LIMITS"]]


def test_a_former_name_of_a_setting_leads_to_the_new_one(tmp_path):
    file = tmp_path / "pilotis.toml"
    file.write_text("[limits]\nreseal_rows = 5\n")
    with pytest.raises(SettingsError) as caught:
        load({}, {"PILOTIS_LIMITS_RESEAL_ROWS": "5"})
    assert caught.value.problems == [
        "PILOTIS_LIMITS_RESEAL_ROWS has been renamed to PILOTIS_LIMITS_COLUMN_MIGRATION_ROWS."
    ]
    with pytest.raises(SettingsError) as caught:
        load({}, {}, file)
    assert caught.value.problems == [f"{file}: limits.reseal_rows has been renamed to limits.column_migration_rows."]


def test_every_problem_is_told_at_once_by_the_name_it_was_given_under(tmp_path):
    file = tmp_path / "x.toml"
    file.write_text('colour = "red"\npool_size = 1\nhost = 7\n[limits]\nrow_bytes = "many"\nshoes = 2\n')
    environment = {"PILOTIS_WORKERS": "0", "PILOTIS_LOG_LEVEL": "loud", "PILOTIS_MASTER_KEY": "sesame"}
    with pytest.raises(SettingsError) as caught:
        load({"port": "eighty", "base_url": "example.com/"}, environment, file)
    subjects = [re.split(r' is not|: an? |: "', problem)[0] for problem in caught.value.problems]
    assert sorted(subjects) == sorted(
        [
            f"{file}: colour",
            f"{file}: pool_size",
            f"{file}: host",
            f"{file}: limits.row_bytes",
            f"{file}: limits.shoes",
            "PILOTIS_WORKERS",
            "PILOTIS_LOG_LEVEL",
            "PILOTIS_MASTER_KEY",
            "--port",
            "--base-url",
        ]
    )
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "1e9", "", " "])
def test_a_time_is_a_positive_number(value):
    if value == "":
        assert load({}, {"PILOTIS_STATEMENT_SECONDS": value}).statement_seconds == 5
        return
    with pytest.raises(SettingsError):
        load({}, {"PILOTIS_STATEMENT_SECONDS": value})


@pytest.mark.parametrize("text", ["10.0.0.0/8", "proxy.example.com", "10.0.0.1:80", "10.0.0.256"])
def test_a_trusted_proxy_is_an_address(text):
    with pytest.raises(SettingsError) as error:
        load({}, {"PILOTIS_TRUSTED_PROXIES": f"10.0.0.1,{text}"})
    assert error.value.problems == [f"PILOTIS_TRUSTED_PROXIES: {text} is not an IP address."]


def test_a_trusted_proxy_may_be_written_in_any_form():
    assert load({}, {"PILOTIS_TRUSTED_PROXIES": "2001:DB8:0::1"}).trusted_proxies == ["2001:db8::1"]


@pytest.mark.parametrize("name", ["outgoing_networks", "egress_networks"])
@pytest.mark.parametrize("text", ["10.1.0.1/16", "10.0.0.0/33", "example.com", "10.0.0.0-10.0.0.9"])
def test_an_allowed_network_is_a_network(name, text):
    with pytest.raises(SettingsError) as error:
        load({}, {f"PILOTIS_{name.upper()}": f"fd00::/8,{text}"})
    assert error.value.problems == [
        f"PILOTIS_{name.upper()}: {text} is not a network, such as 10.1.0.0/16 or fd00::/8."
    ]


def test_a_file_of_authorities_is_one(tmp_path):
    (tmp_path / "none.pem").write_text("no certificate")
    for path in (tmp_path / "none.pem", tmp_path / "absent.pem"):
        with pytest.raises(SettingsError) as error:
            load({}, {"PILOTIS_OUTGOING_CA_FILE": str(path)})
        assert f"PILOTIS_OUTGOING_CA_FILE: {path} cannot be used" in error.value.problems[0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [("port = ", "not valid TOML"), (b"\xff", "not valid TOML"), (None, "cannot be read"), ("limits = 3", "a table")],
)
def test_a_file_that_cannot_be_used_is_told(tmp_path, content, problem):
    file = tmp_path / "x.toml"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SettingsError, match=problem):
        load({}, {}, file)


def test_the_file_in_the_working_directory_is_read_if_it_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load({}, {}) == Settings()
    (tmp_path / "pilotis.toml").write_text("port = 7\n")
    assert load({}, {}).port == 7


def test_the_master_key_is_made_once_private_and_never_replaced(tmp_path):
    settings = Settings(data_dir=str(tmp_path / "data"))
    assert master_key.existing(settings) is None
    key = master_key.load(settings)
    path = tmp_path / "data" / "master.key"
    assert len(key) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert master_key.load(settings) == key
    assert list(path.parent.iterdir()) == [path]
    assert master_key.load(Settings(data_dir=str(tmp_path / "data"), master_key="ab" * 32)) == b"\xab" * 32
    path.chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600"):
        master_key.load(settings)
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(SettingsError, match="64 hexadecimal digits"):
        master_key.load(settings)
    assert path.read_text() == "short"


def test_the_reference_of_the_configuration_is_current():
    spec = importlib.util.spec_from_file_location("configuration", ROOT / "tools" / "configuration.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.TARGET.read_text() == tool.document(), "run: python tools/configuration.py"
    assert all(variable_of(name) in tool.document() for name in known_names())


def test_zero_lifts_those_limits_whose_words_say_so():
    """An app's own 0 is stricter than the server's value only where it does not."""
    guide = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    words = dict(re.findall(r"^\| `(\w+)` \| `PILOTIS_LIMITS_\w+` \|.* \| (.*) \|$", guide, re.MULTILINE))
    assert words.keys() == EXTRAS.keys()
    lifted = {name for name, said in words.items() if re.search(r"0 = (unlimited|forever|all)", said)}
    assert lifted == {name for name in EXTRAS if zero_is_unlimited(name)}
    for name in PER_APP & lifted:
        assert (stricter(name, 120, 0), stricter(name, 0, 60), stricter(name, 120, 60)) == (120, 60, 60)

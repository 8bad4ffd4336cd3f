"""The command as a whole: version, help, errors, secrets, pipes and the demo."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

import lakedex as package
from lakedex.cli import show as show_command

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_version(lakedex):
    result = lakedex("--version")
    assert (result.exit_code, result.stdout) == (0, f"lakedex {package.__version__}\n")


def test_the_package_runs_as_the_command():
    command = [sys.executable, "-m", "lakedex", "--version"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == f"lakedex {package.__version__}\n"


@pytest.mark.parametrize(
    "command", ["show", "indexes", "metadata", "explain", "read", "verify", "demo"]
)
def test_every_command_has_help_and_json(lakedex, command):
    result = lakedex(command, "--help")
    assert result.exit_code == 0
    assert "--json" in ANSI.sub("", result.stdout)
    assert command in lakedex("--help").stdout


@pytest.mark.parametrize("command", ["show", "indexes", "verify", "read"])
def test_no_table_is_one_line_and_exit_code_2(lakedex, tmp_path, command):
    result = lakedex(command, str(tmp_path / "absent"), "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("lakedex: no Hudi table at ")


def test_interrupting_is_exit_code_130(lakedex, golden, monkeypatch):
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(show_command, "open_table", interrupted)
    result = lakedex("show", golden("v6_cow").path)
    assert (result.exit_code, result.stdout) == (130, "")


@pytest.mark.parametrize(
    "options",
    [
        ["aws_secret_access_key=S3CR3T", "aws_access_key_id=S3CR3T", "aws_region=us-east-1",
         "aws_endpoint=http://127.0.0.1:1", "aws_allow_http=true", "max_retries=0"],
        ["aws_secret_access_key=S3CR3T", "no_such_option=S3CR3T"],
        ["S3CR3T"],
        ["=S3CR3T"],
    ],
)  # fmt: skip
def test_a_secret_is_never_printed(lakedex, options):
    arguments = [part for option in options for part in ("--storage-option", option)]
    result = lakedex("show", "s3://bucket/trips", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("lakedex: ")
    assert result.stderr.count("\n") == 1
    assert "S3CR3T" not in result.stderr


def test_a_process_that_fails_shows_no_traceback_and_no_secret(lakedex_process):
    options = ("--storage-option", "aws_secret_access_key=S3CR3T", "--storage-option", "x=S3CR3T")
    process = lakedex_process("show", "s3://bucket/trips", *options)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err == "lakedex: unknown storage option 'x' for a store of kind s3\n"


@pytest.mark.parametrize("form", ["json", "table"])
def test_a_reader_that_goes_away_is_no_complaint(lakedex_process, golden, form):
    path = golden("sharded_record_index").path
    process = lakedex_process("read", path, "--limit", "2000", "--format", form)
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


def test_output_in_a_narrow_encoding_is_escaped(lakedex_process, golden):
    path = golden("cow_trips_all_indexes").path
    process = lakedex_process("read", path, "--limit", "48", PYTHONIOENCODING="ascii")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "s\\xe3o paulo" in out


def test_colour_is_left_out_where_it_is_not_wanted(lakedex, tmp_path):
    wanted = {"FORCE_COLOR": "1", "COLUMNS": "60", "TERM": "xterm-256color"}
    assert "\x1b[31m" in lakedex("show", str(tmp_path), **wanted).stderr
    assert "\x1b[31m" not in lakedex("show", str(tmp_path), NO_COLOR="1", **wanted).stderr


def test_a_narrow_terminal_folds_values_and_cuts_none(lakedex, golden):
    narrow = {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "60", "TERM": "xterm"}
    result = lakedex("indexes", golden("cow_trips_all_indexes").path, **narrow)
    assert result.exit_code == 0
    assert "…" not in result.stdout
    assert max(len(line) for line in ANSI.sub("", result.stdout).splitlines()) <= 60


def test_the_demo_finds_the_same_rows_with_indexes_and_without(lakedex_process):
    process = lakedex_process("demo", "--no-spark")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert out.count("  same rows") == 3
    assert "hudi-rs reads 48 rows with the same record keys" in out
    assert "every query found the same rows with indexes and without" in out


def test_the_demo_reads_less_with_indexes(lakedex, golden):
    result = lakedex("demo", "--table", golden("mor_trips_all_indexes").path, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    answer = json.loads(result.stdout)
    assert answer["ok"] is True
    point = answer["comparisons"][0]
    assert point["same_rows"]
    assert point["with_indexes"]["file_slices"] == 1
    assert point["without_indexes"]["file_slices"] == 5
    assert point["with_indexes"]["data_bytes"] < point["without_indexes"]["data_bytes"]


def test_the_demo_keeps_its_table_where_it_is_told(lakedex, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = lakedex("demo", "--keep", ".", "--no-spark", "--json")
    assert result.exit_code == 0
    assert (tmp_path / "cow_trips" / ".hoodie" / "hoodie.properties").is_file()
    again = lakedex("demo", "--keep", str(tmp_path))
    assert (again.exit_code, again.stdout) == (2, "")
    assert "exists already" in again.stderr
    from_here = lakedex("demo", "--table", "cow_trips", "--json")
    assert json.loads(from_here.stdout)["hudi_rs"] == {
        "installed": True,
        "rows": 48,
        "same_keys": True,
    }


def test_the_demo_without_its_table_says_what_to_do(lakedex, tmp_path, monkeypatch):
    monkeypatch.setattr("lakedex.cli.demo._FOLDERS", (tmp_path,))
    result = lakedex("demo", "--no-spark")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "pass --table PATH" in result.stderr


def test_a_table_on_which_hudi_rs_panics_is_no_failure(lakedex, golden):
    result = lakedex("demo", "--table", golden("cow_nonpartitioned").path)
    assert result.exit_code == 0
    assert "hudi-rs gives no answer for this table" in result.stdout

"""What surrounds the code: the Java check, the locks, the tree, the page of the architecture."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = ROOT / "scripts"
SH = shutil.which("sh") or "/bin/sh"
CASE_ID = r"[AB][0-9]{1,2}"
CASE_MARK = re.compile(rf"\b[Cc]ases? ({CASE_ID}(?:, {CASE_ID})*)\b")
CASE_ENTRY = re.compile(rf"^\| ({CASE_ID}) \|.*\| ([^|]+) \|$", re.MULTILINE)


def java_check(*, path: Path, java_home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(path)}
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    command = [SH, str(SCRIPTS / "check_java.sh")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def fake_java(folder: Path, answer: str, *, code: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!{SH}\necho '{answer}' >&2\nexit {code}\n", encoding="utf-8")
    java.chmod(0o755)
    return folder


def assert_one_clear_line(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    for word in ("Java 17", *words):
        assert word in result.stderr


@pytest.mark.parametrize(
    "answer",
    [
        'openjdk version "17.0.15" 2025-04-15',
        'java version "17" 2021-09-14 LTS',
        'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17-ea"',
    ],
)
def test_java_17_on_the_path_passes_silently(tmp_path, answer):
    result = java_check(path=fake_java(tmp_path, answer))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_missing_java_is_one_line_and_exit_code_2(tmp_path):
    assert_one_clear_line(java_check(path=tmp_path), "no java on PATH")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "170.1", "21.0.2"])
def test_another_java_is_one_line_that_names_its_version(tmp_path, version):
    folder = fake_java(tmp_path, f'openjdk version "{version}" 2024-01-16')
    assert_one_clear_line(java_check(path=folder), f"version {version};")


def test_a_java_that_does_not_run_is_one_line(tmp_path):
    folder = fake_java(tmp_path, "Unable to locate a Java Runtime.", code=1)
    assert_one_clear_line(java_check(path=folder), "does not run")


def test_java_home_goes_before_the_path(tmp_path):
    good = fake_java(tmp_path / "good" / "bin", 'openjdk version "17.0.1"')
    bad = fake_java(tmp_path / "bad" / "bin", 'openjdk version "11.0.1"')
    assert java_check(path=bad, java_home=good.parent).returncode == 0
    assert_one_clear_line(java_check(path=good, java_home=bad.parent), "11.0.1")


def test_java_home_without_java_is_one_line_that_names_it(tmp_path):
    good = fake_java(tmp_path / "good", 'openjdk version "17.0.1"')
    result = java_check(path=good, java_home=tmp_path / "gone")
    assert_one_clear_line(result, "JAVA_HOME", str(tmp_path / "gone"))


def test_no_suitable_python_is_one_line_and_exit_code_2(tmp_path):
    environment = {**os.environ, "PYTHON": "no-such-python"}
    command = [SH, str(SCRIPTS / "venv.sh"), str(tmp_path / "venv"), "dev"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "Python 3.11" in result.stderr
    assert not (tmp_path / "venv").exists()


HASHED = """\
demo==2.1 \\
    --hash=sha256:00
other==1.0 ; python_version < '3.12' \\
    --hash=sha256:11
"""


@pytest.mark.parametrize(
    ("text", "wanted", "problem"),
    [
        (HASHED, ["demo>=2", "Other"], None),
        (HASHED, ["demo>=3"], "demo>=3 is wanted, pinned is 2.1"),
        (HASHED, ["absent"], "absent is wanted, pinned is nothing"),
        ("demo==2.1\n", ["demo"], "demo==2.1 has no hash"),
        ("--index-url x\n" + HASHED, [], "names a host: --index-url x"),
    ],
)
def test_the_lock_check_finds_what_makes_a_lock_unfit(text, wanted, problem):
    problems = runpy.run_path(str(SCRIPTS / "check_lock.py"))["problems_of"](text, wanted)
    assert (problem in problems) if problem else problems == []


def test_the_tree_check_finds_long_files_and_machine_paths():
    problems_of = runpy.run_path(str(SCRIPTS / "check_tree.py"))["problems_of"]
    machine_path = "/" + "home" + "/somebody/table"
    assert problems_of("a.py", b"x = 1\n" * 800) == []
    assert problems_of("a.py", b"x = 1\n" * 801) == [": 801 lines, 800 are allowed"]
    assert problems_of("a.md", f"see\n{machine_path}\n".encode())[0].startswith(":2: ")
    assert problems_of("a.bin", b"\0" + machine_path.encode()) == []


def test_the_hudi_bundle_is_the_same_for_the_fetcher_and_for_the_session():
    fetcher = runpy.run_path(str(SCRIPTS / "fetch_jars.py"))
    session = runpy.run_path(str(ROOT / "tests" / "interop" / "conftest.py"))
    assert session["COORDINATES"] == fetcher["COORDINATES"]
    assert session["JAR"] == fetcher["jar_path"]()


def test_the_architecture_page_links_every_layer_and_no_other():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(\.\./lakedex/(\w+)/\)", text))
    linked |= set(re.findall(r"\[(\w+)\.py\]\(\.\./lakedex/\)", text))
    folders = {path.parent.name for path in (ROOT / "lakedex").glob("*/*.py")}
    modules = {path.stem for path in (ROOT / "lakedex").glob("*.py")} - {"__init__", "__main__"}
    assert linked == folders | modules


def test_every_make_target_in_the_contributing_page_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)", page))
    assert named
    assert named <= targets


def case_ids(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8")
    return {case for mark in CASE_MARK.findall(text) for case in mark.split(", ")}


def test_every_case_that_a_mark_names_has_an_entry_and_every_entry_has_its_tests():
    catalogue = (ROOT / "tests" / "known_failures.md").read_text(encoding="utf-8")
    rows = CASE_ENTRY.findall(catalogue)
    entries = {case: re.findall(r"`([^`]+)`", tests) for case, tests in rows}
    assert len(entries) == len(rows) > 0
    sources = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "lakedex").rglob("*.py")]
    sources += (ROOT / "docs").rglob("*.md")
    marked = {path: case_ids(path) for path in sources}
    unknown = {str(path): cases - {*entries} for path, cases in marked.items()}
    assert {path: cases for path, cases in unknown.items() if cases} == {}
    for case, tests in entries.items():
        assert tests, f"{case} names no test"
        for test in tests:
            path = ROOT / "tests" / test
            assert path.name.startswith("test_"), f"{case}: {test} is no test"
            assert path.exists(), f"{case}: {test} does not exist"
            assert case in marked[path], f"{test} has no mark of case {case}"


def test_no_case_is_named_outside_of_a_mark():
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "lakedex").rglob("*.py")]:
        text = CASE_MARK.sub("", path.read_text(encoding="utf-8"))
        assert re.findall(r"\bB[0-9]{1,2}\b", text) == [], f"{path}: write 'case' and the id"

"""Commands of ``!`` and ``%pip``: what installs packages is told where they come from."""

from __future__ import annotations

import pytest

from cellwright.sandbox.approved_packages import ApprovedList
from cellwright_kernel._shell_commands import PackageAdvice, PackageNotInstalled, run_command


def advice() -> PackageAdvice:
    found = PackageAdvice()
    found.approved = ApprovedList(["seaborn", "beautifulsoup4", "pandas"]).imports
    return found


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("pip install no-such", '["no-such"]'),
        ("pip3 -q install -U no-such 'pytest<1' pytest > log.txt", '["no-such", "pytest<1"]'),
        ("'/a b/python3.12' -m pip install no-such[extra]>=2", '["no-such[extra]>=2"]'),
        ("cd x && uv pip install --index-url https://a/b no-such", '["no-such"]'),
        ("conda install -y -c conda-forge no-such", '["no-such"]'),
        ("uv add no-such", '["no-such"]'),
        ("pip install -r requirements.txt", '["NAME"]'),
        ("pip install 'pytest[dev]'", '["pytest[dev]"]'),
        ("echo 'a;b' && pip install no-such", '["no-such"]'),
        ("pip install git+https://a/b", '["git+https://a/b"]'),
    ],
)
def test_a_command_that_installs_names_the_call_that_does(command: str, names: str) -> None:
    with pytest.raises(PackageNotInstalled) as refused:
        advice().without_installs(command)
    assert f"package_install({names})" in str(refused.value)
    # Where code is not confined it may do as it likes.
    assert PackageAdvice().without_installs(command) == command


def test_what_is_installed_already_is_said_and_the_rest_of_the_command_runs() -> None:
    left = advice().without_installs("pip install -q pytest 'pytest>1'; ls")
    assert "Requirement already satisfied: pytest " in left
    assert left.endswith("; ls")
    quoted = (
        "printf 'update && pip install x\\n' > Dockerfile",
        'grep "x; pip install y" .',
        "cat << END\npip install x\nEND",
    )
    for other in (
        "pip list",
        "echo pip install x",
        "pip show seaborn",
        "grep install pip",
        *quoted,
        "echo 'open; pip",
    ):
        assert advice().without_installs(other) == other


@pytest.mark.parametrize(("module", "package"), [("seaborn", "seaborn"), ("bs4", "beautifulsoup4")])
def test_a_missing_module_of_an_approved_package_names_the_call(module: str, package: str) -> None:
    missing = ModuleNotFoundError(f"No module named {module!r}", name=module)
    for _ in range(2):  # a traceback may be shown again
        advice().add_to(missing)
    assert str(missing) == (
        f'No module named {module!r}. It is approved: package_install(["{package}"]) installs it'
    )


def test_what_an_extra_brings_is_named_with_it_on_an_interpreter_of_cellwrights() -> None:
    missing = ModuleNotFoundError("No module named 'pandas'", name="pandas")
    for _ in range(2):
        advice().add_to(missing)
    assert str(missing) == (
        "No module named 'pandas'. It is approved: package_install([\"pandas\"]) installs it. "
        "For every session: pip install 'cellwright[data]'"
    )


def test_other_errors_stay_as_they_are() -> None:
    for error in (
        ModuleNotFoundError("No module named 'seabron'", name="seabron"),
        ModuleNotFoundError("No module named 'seaborn.x'", name="seaborn.x"),
        ImportError("cannot import name 'x'", name="seaborn"),
        None,
    ):
        before = str(error)
        advice().add_to(error)
        assert str(error) == before


def test_a_command_has_ended_though_what_it_left_running_goes_on_writing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command("(while echo still here; do sleep 0.01; done) & echo done") == 0
    assert "done" in capsys.readouterr().out

"""The batch script of an allocation."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cellwright.errors import ShapeRefused
from cellwright.slurm._allocations import batch_script, read_template

HOST = "#!/bin/bash\nexec {{host}}\n"


def script(template: str, directory: str = "/shared/a", modules: tuple[str, ...] = ()) -> str:
    return batch_script(template, name="gpu", python="/opt/py", directory=directory, modules=modules)


def test_our_own_is_a_login_shell_that_becomes_the_host() -> None:
    filled = script(read_template(None))
    assert filled.startswith("#!/bin/bash -l\n")
    assert filled.endswith("\nexec /opt/py -m cellwright.slurm.inside /shared/a\n")
    assert "{{" not in filled


def test_modules_are_loaded_before_the_host_and_a_missing_one_ends_the_job() -> None:
    filled = script(
        "#!/bin/bash\nmodule() { echo load $2; [ $2 != absent ]; }\n{{modules}}\necho on; exec {{host}}\n",
        modules=("cuda/12.6", "absent", "gcc"),
    )
    done = subprocess.run(["/bin/bash", "-c", filled], capture_output=True, text=True, check=False)
    assert done.returncode == 97
    assert done.stdout == "load cuda/12.6\nload absent\n"
    assert done.stderr == "cellwright: module absent cannot be loaded\n"


def test_values_reach_the_shell_as_they_are(tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s $HOME `id` "x"; exit'
    filled = script("#!/bin/bash\nprintf '%s' {{directory}}; exit\n: {{host}}\n", directory=str(odd))
    done = subprocess.run(["/bin/bash", "-c", filled], capture_output=True, text=True, check=True)
    assert done.stdout == str(odd)


def test_shell_braces_are_left_alone() -> None:
    assert "${HOME} {a,b} ${X:-{}}" in script("#!/bin/sh\n# ${HOME} {a,b} ${X:-{}}\nexec {{ host }}\n")


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("exec {{host}}\n", "first line"),
        ("#!/bin/sh\necho\n", "does not start the host"),
        ("#!/bin/sh\n\nexec {{host}} {{token}}\n", "line 3 has {{token}}"),
    ],
)
def test_template_that_cannot_work_is_refused_with_the_reason(template: str, said: str) -> None:
    with pytest.raises(ShapeRefused, match=said.replace("{", r"\{")):
        script(template)


def test_template_that_is_not_there_is_refused_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(ShapeRefused, match=r"absent.sh.*slurm_template"):
        read_template(tmp_path / "absent.sh")


def test_site_template_is_used_instead(tmp_path: Path) -> None:
    site = tmp_path / "site.sh"
    site.write_text("#!/bin/sh\n#SBATCH --reservation=x\nexec {{host}}\n")
    assert "#SBATCH --reservation=x\n" in script(read_template(site))

"""Which packages may be asked for, by which names, from PyPI and from npm. Decided before anything is resolved."""

from __future__ import annotations

import pytest

from cellwright.errors import PackageFailed, PackageRefused
from cellwright.sandbox.approved_packages import ApprovedList, Requirement
from cellwright.sandbox.npm import NpmList, NpmRequest
from cellwright.sandbox.packages import Lock


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("panda", "pandas"),
        ("pandsa", "pandas"),
        ("reqeusts", "requests"),
        ("requestes", "requests"),
        ("numpyy", "numpy"),
        ("matplotib", "matplotlib"),
        ("beautifulsoup", "beautifulsoup4"),
        ("scikitlearn", "scikit-learn"),
        ("sklearn", "scikit-learn"),
        ("skleanr", "scikit-learn"),
        ("bs4", "beautifulsoup4"),
        ("PIL", "pillow"),
        ("mpl_toolkits", "matplotlib"),
        ("p\u0430ndas", "pandas"),
        ("pandas-", "pandas"),
        ("openpyx1", "openpyxl"),
    ],
)
def test_lookalike_is_refused_with_the_approved_package_that_was_meant(name: str, meant: str) -> None:
    with pytest.raises(PackageRefused) as refusal:
        ApprovedList().judge([name])
    assert refusal.value.suggestion == meant
    assert meant in str(refusal.value)


def test_unlisted_package_is_refused_with_the_list_and_the_setting() -> None:
    with pytest.raises(PackageRefused) as refusal:
        ApprovedList().judge(["cv2"])
    assert refusal.value.suggestion is None
    for expected in ("opencv-python-headless (imported as cv2)", "pandas", "approved_packages"):
        assert expected in str(refusal.value)


def test_every_refused_name_is_told_at_once() -> None:
    with pytest.raises(PackageRefused) as refusal:
        ApprovedList().judge(["pandas", "numpyy", "evil-package"])
    assert "numpyy" in str(refusal.value)
    assert "evil-package" in str(refusal.value)


@pytest.mark.parametrize(
    "request_",
    [
        "pandas @ https://evil.example/pandas.whl",
        "https://evil.example/pandas.whl",
        "git+https://evil.example/pandas",
        "./pandas",
        "/tmp/pandas.whl",
        "file:pandas",
        "-r requirements.txt",
        "--index-url=https://evil.example",
        "pandas --index-url https://evil.example",
        "pandas; python_version > '3'",
        "pandas\nevil",
        "pandas ==2 # evil",
        "pandas===2",
        "pandas[excel]",
        "pandas>=2,",
        "pandas " + "x" * 500,
        "",
        "-",
    ],
)
def test_anything_but_a_name_with_versions_is_refused(request_: str) -> None:
    with pytest.raises(PackageRefused):
        ApprovedList().judge([request_])


def test_name_has_one_spelling_and_keeps_its_versions() -> None:
    assert str(Requirement.parse("Scikit.Learn [A_b, c] >= 1 , != 1.5.*")) == "scikit-learn[a-b,c]>=1,!=1.5.*"


@pytest.mark.parametrize(
    "line", ["numpy @ https://evil.example/n.whl", "numpy==2.4", "-e .", "numpy>=2 --hash=sha256:" + "0" * 64]
)
def test_resolution_with_anything_but_pinned_hashed_names_is_refused(line: str) -> None:
    with pytest.raises(PackageFailed):
        Lock.parse(f"{line}\n")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lodash", NpmRequest("lodash")),
        ("npm:lodash@4", NpmRequest("lodash", "4")),
        ("@scope/name@^1.2.3-rc.1", NpmRequest("@scope/name", "^1.2.3-rc.1")),
        (" d3-array@~3 ", NpmRequest("d3-array", "~3")),
        ("lodash@latest", None),
        ("lodash@npm:other@1", None),
        ("lodash@https://x/y.tgz", None),
        ("https://x/y.tgz", None),
        ("../lodash", None),
        ("lodash/../other", None),
        ("--allow-scripts", None),
        ("jsr:@std/fs", None),
        ("UPPER", None),
        ("", None),
        ("x" * 300, None),
    ],
)
def test_an_npm_request_is_a_name_with_a_version_and_nothing_else(
    text: str, found: NpmRequest | None
) -> None:
    assert NpmRequest.parse(text) == found


def test_an_npm_name_that_is_not_listed_is_refused_with_the_nearest_and_the_setting() -> None:
    with pytest.raises(PackageRefused, match="lodahs is not on the list") as refused:
        NpmList(["lodash"]).judge(["lodahs"])
    assert refused.value.suggestion == "lodash"
    assert "approved_npm_packages" in (refused.value.hint or "")

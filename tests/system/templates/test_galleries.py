"""Galleries: a folder, a git repository of this machine and an index over HTTPS; what is not as its index says is refused."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cellwright import Settings
from cellwright.errors import CellwrightError, FetchRefused, TemplateError, TemplateRefused, UnknownTemplate
from cellwright.templates import Catalogue
from cellwright.templates.galleries import SIGNED_AS, Galleries, index_text
from cellwright.tools import Fetcher
from tests.support.tools.webserver import Reply, serving

pytestmark = pytest.mark.anyio

MANIFEST = 'title = "Greeting"\ndescription = "Says hello."\n'
PLAN = "# Greet\n\n## Greet\n\n```python\nopen('ran', 'w')\n```\n"
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg"/>'

Open = Callable[..., Galleries]


@pytest.fixture
def gallery(tmp_path: Path) -> Path:
    folder = tmp_path / "gallery"
    (folder / "greeting").mkdir(parents=True)
    (folder / "greeting" / "template.toml").write_text(MANIFEST)
    (folder / "greeting" / "plan.md").write_text(PLAN)
    (folder / "greeting" / "picture.svg").write_text(PICTURE)
    (folder / "index.json").write_text(index_text(folder))
    return folder


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    def opened(*sources: object, **options: object) -> Galleries:
        settings = Settings(
            storage=tmp_path / "state", templates=sources, fetch_interval_s=0, **options.pop("settings", {})
        )
        return Galleries(settings.templates, settings.storage, Fetcher(settings, **options).body)

    return opened


def git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{role}_{what}": "x@y" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-c", "init.defaultBranch=main", *arguments]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True, env=os.environ | who
    ).stdout


def committed(gallery: Path) -> str:
    """The gallery as a repository; its source for the settings."""
    git(gallery, "init", "--quiet")
    git(gallery, "add", "-A")
    git(gallery, "commit", "--quiet", "-m", "templates")
    return f"git+file://{gallery}"


async def test_a_template_of_a_git_repository_is_listed_added_and_used_and_removed(
    gallery: Path, opened: Open, tmp_path: Path
) -> None:
    source = committed(gallery)
    galleries = opened(source)
    offers, problems = await galleries.offers()
    assert problems == []
    assert [(one.name, one.title, one.gallery, one.picture) for one in offers] == [
        ("greeting", "Greeting", source, "picture.svg")
    ]
    assert await offers[0].content("picture.svg") == PICTURE.encode()
    with pytest.raises(UnknownTemplate):
        Catalogue.at(tmp_path / "state").find("greeting")  # offered is not added
    await galleries.add("greeting")
    found = Catalogue.at(tmp_path / "state").find("greeting")
    assert (found.source, found.is_plan) == (source, True)
    assert found.opening({}).about == {"name": "greeting", "source": source}
    galleries.remove("greeting")
    with pytest.raises(UnknownTemplate):
        Catalogue.at(tmp_path / "state").find("greeting")
    assert not list(tmp_path.rglob("ran"))


async def test_a_wrong_hash_is_refused_by_name_and_nothing_is_added(
    gallery: Path, opened: Open, tmp_path: Path
) -> None:
    (gallery / "greeting" / "plan.md").write_text(PLAN.replace("ran", "stolen"))
    for source in (str(gallery), committed(gallery)):
        with pytest.raises(
            TemplateRefused, match=r"greeting/plan\.md of .* is not what its index says"
        ) as caught:
            await opened(source).add("greeting")
        assert json.loads((gallery / "index.json").read_text())["templates"]["greeting"]["files"][
            "plan.md"
        ] in (caught.value.message)
    assert not (tmp_path / "state" / "templates").exists()


async def test_a_link_in_a_repository_or_a_folder_leads_nowhere(
    gallery: Path, opened: Open, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text(PLAN)
    (gallery / "greeting" / "plan.md").unlink()
    (gallery / "greeting" / "plan.md").symlink_to(tmp_path / "secret")
    with pytest.raises(TemplateRefused, match="is no plain file"):
        await opened(committed(gallery)).add("greeting")
    with pytest.raises(CellwrightError):
        await opened(str(gallery)).add("greeting")
    assert not (tmp_path / "state" / "templates").exists()


@pytest.mark.parametrize(
    "content",
    [
        "{",
        '{"version": 2, "templates": {}}',
        '{"version": 1, "templates": {"../x": {"title": "x", "description": "x", "files": {}}}}',
        '{"version": 1, "templates": {"x": {"title": "x", "description": "x", "files": {"notebook./../../y.md": "%s"}}}}'
        % ("0" * 64),
        '{"version": 1, "templates": {"x": {"title": "x", "description": "x", "files": {"plan.md": "short"}}}}',
    ],
)
async def test_an_index_that_cannot_be_used_is_named_and_leaves_the_other_galleries_alone(
    gallery: Path, opened: Open, tmp_path: Path, content: str
) -> None:
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / "index.json").write_text(content)
    offers, problems = await opened(str(wrong), str(gallery)).offers()
    assert [one.name for one in offers] == ["greeting"]
    assert [str(wrong) in problem.message for problem in problems] == [True]


async def test_an_index_over_https_is_fetched_from_its_own_host_alone(
    gallery: Path, opened: Open, tmp_path: Path
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(
        ["openssl", *made.split(), "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    with serving() as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        for path in gallery.rglob("*.*"):
            server.routes[f"/{path.relative_to(gallery)}"] = Reply(path.read_bytes())
        trusted = {"tls": lambda: ssl.create_default_context(cafile=str(certificate))}
        index = f"https://127.0.0.1:{server.port}/index.json"
        assert (await opened(index, **trusted).add("greeting")).title == "Greeting"
        server.routes["/greeting/plan.md"] = Reply(status=302, headers={"Location": "https://127.0.0.2/x"})
        with pytest.raises(FetchRefused, match=r"127\.0\.0\.2"):
            await opened(index, **trusted).add("greeting")
        with pytest.raises(UnknownTemplate, match="network_deny"):
            await opened(index, settings={"network_deny": ("127.0.0.1",)}, **trusted).find("greeting")


async def test_an_index_must_be_signed_by_whom_the_settings_allow(
    gallery: Path, opened: Open, tmp_path: Path
) -> None:
    for name in ("ann", "eve"):
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(tmp_path / name)]
        subprocess.run(keygen, check=True)
    signers = tmp_path / "signers"
    signers.write_text(f"ann@example.org {(tmp_path / 'ann.pub').read_text()}")
    galleries = opened({"source": str(gallery), "signers": str(signers)})

    def sign(key: str, namespace: str = SIGNED_AS) -> None:
        (gallery / "index.json.sig").unlink(missing_ok=True)
        command = ["ssh-keygen", "-Y", "sign", "-q", "-n", namespace, "-f", str(tmp_path / key)]
        subprocess.run([*command, str(gallery / "index.json")], check=True, capture_output=True)

    async def refusal() -> str:
        offers, problems = await galleries.offers()
        assert offers == []
        return problems[0].message

    assert "is not signed" in await refusal()
    sign("eve")
    assert "is by nobody in" in await refusal()
    sign("ann", "another-purpose")
    assert "does not fit" in await refusal()
    sign("ann")
    assert (await galleries.add("greeting")).name == "greeting"
    (gallery / "index.json").write_text((gallery / "index.json").read_text().replace("Says", "Shouts"))
    assert "does not fit" in await refusal()


async def test_a_name_that_is_taken_is_refused_and_another_can_be_given(
    gallery: Path, opened: Open, tmp_path: Path
) -> None:
    (gallery / "greeting").rename(gallery / "csv-report")
    (gallery / "index.json").write_text(index_text(gallery))
    galleries = opened(str(gallery))
    with pytest.raises(TemplateError, match="from cellwright"):
        await galleries.add("csv-report")
    await galleries.add("csv-report", called="greeting")
    await galleries.add("csv-report", called="greeting")  # again: what there is of it now
    assert Catalogue.at(tmp_path / "state").find("greeting").title == "Greeting"


async def test_git_is_let_to_no_path_of_this_machine_that_the_settings_do_not_name(
    gallery: Path, opened: Open
) -> None:
    committed(gallery)
    for source in ("git+ssh://host/x", "git+http://127.0.0.1:9/x", f"git+ext::cat {gallery}"):
        offers, problems = await opened(source).offers()
        assert offers == []
        assert "cannot be read by git" in problems[0].message

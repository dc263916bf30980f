"""Which files of a project somebody's tools run by themselves: the way out of a sandbox that no wall is on.

Such a file is not brought over from a session's layer unless a person has named it. Decides by name alone.
"""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase

__all__ = ["is_trusted", "why_autorun"]

# A name at any depth, in small letters, which is how some file systems compare them; the whole of a directory counts.
_REASONS: dict[str, tuple[str, ...]] = {
    "version control runs hooks and programs that are named there": (
        ".git", ".hg", ".jj", ".svn", ".gitmodules", ".gitattributes",
    ),
    "Python runs it when it starts, in place of what the project's own files say": (
        ".venv", "venv", "site-packages", "__pypackages__", "__pycache__", "*.pyc", "*.pth", "pyvenv.cfg",
        "sitecustomize.py", "usercustomize.py",
    ),
    "packages there run with the project": ("node_modules", "bower_components"),
    "a shell runs it when somebody enters the folder or signs in": (
        ".envrc", ".direnv", ".env", ".env.*", "mise.toml", ".mise.toml", ".mise", ".tool-versions", "devenv.nix",
        "flake.nix", "shell.nix", "default.nix", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile",
        ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".kshrc", ".cshrc", ".tcshrc", ".login", ".xprofile", ".xsession",
        ".xinitrc", ".inputrc", ".pam_environment", ".autoenv*", ".tmuxinator*",
    ),
    "an editor runs tasks, tools and extensions that are named there": (
        ".vscode", ".idea", ".fleet", ".zed", ".cursor", ".devcontainer", "*.code-workspace", ".vim", ".vimrc", ".exrc",
        ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el", ".editorconfig-hooks", ".sublime-project",
    ),
    "a build or a test run runs it": (
        "makefile", "gnumakefile", "bsdmakefile", "*.mk", "justfile", ".justfile", "taskfile.y*ml", "rakefile",
        "gemfile", "cmakelists.txt", "*.cmake", "meson.build", "build.gradle*", "settings.gradle*", "gradlew", "mvnw",
        "pom.xml", "build.rs", "cargo.toml", ".cargo", "setup.py", "setup.cfg", "pyproject.toml", "conftest.py",
        "pytest.ini", "tox.ini", "noxfile.py", "dodo.py", "tasks.py", "fabfile.py", "sconstruct", "wscript",
        "package.json", ".npmrc", ".yarnrc*", ".yarn", ".pnpmfile.cjs", "pnpm-workspace.yaml", "deno.json*",
        "*.config.js", "*.config.cjs", "*.config.mjs", "*.config.ts", "dockerfile*", "containerfile*",
        "docker-compose*.y*ml", "compose*.y*ml", "vagrantfile", ".mvn", ".gradle", "binding.gyp", ".bazelrc",
        "build.bazel", "workspace.bazel", "module.bazel", ".bundle", ".eslintrc*", ".prettierrc*", ".stylelintrc*",
        ".babelrc*", ".mocharc*", ".lintstagedrc*", "package.swift", ".swiftpm", "pip.conf", "tiltfile", "skaffold.yaml",
    ),
    "it runs with every commit or push": (
        ".pre-commit-config.yaml", ".husky", "lefthook.y*ml", ".lefthook.y*ml", ".github", ".gitlab-ci.yml",
        ".gitlab", ".circleci", ".travis.yml", ".drone.yml", ".buildkite", "buildkite.y*ml", ".woodpecker*", "jenkinsfile*",
        "azure-pipelines*.yml", "bitbucket-pipelines.yml", ".ci",
    ),
    "an interpreter or debugger runs it when it starts": (
        ".pythonrc*", ".pythonstartup", ".pdbrc*", ".ipython", "ipython_config.py", ".jupyter", "jupyter_*config.*",
        ".rprofile", ".renviron", ".julia", ".gdbinit", ".lldbinit", ".psqlrc", ".sqliterc", ".duckdbrc",
        ".irbrc", ".pryrc", ".ghci",
    ),
    "programs of this user are set up or started by it": (
        ".ssh", ".gnupg", ".config", ".local", ".aws", ".kube", ".docker", ".gitconfig", ".netrc", ".pypirc",
    ),
    "agents and Cellwright itself are told by it what they may do": (
        "cellwright.toml", ".cellwright", ".mcp.json", ".claude", ".codex", ".gemini", "claude.md", "agents.md",
        "gemini.md",
    ),
}  # fmt: skip
_PATTERNS = [(pattern, why) for why, patterns in _REASONS.items() for pattern in patterns]


def why_autorun(path: str) -> str | None:
    """Why nobody but a person may bring this path of a project over, if so."""
    for name in path.lower().split("/"):
        for pattern, why in _PATTERNS:
            if fnmatchcase(name, pattern):
                return why
    return None


def is_trusted(path: str, named: Collection[str]) -> bool:
    """Whether a person has named this path, or a directory of that kind above it; not just any directory above it."""
    return any(
        path == one or (path.startswith(f"{one}/") and why_autorun(one) is not None)
        for one in (name.removeprefix("./").rstrip("/") for name in named)
    )

"""Grammar and templates are found wherever the package lies."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from gemmdsl import resources

ROOT = Path(__file__).parents[2]


def place(folder: Path) -> None:
    (folder / "grammar").mkdir(parents=True)
    (folder / "grammar" / "gemm.lark").write_text("start: \n")
    (folder / "templates").mkdir()
    (folder / "templates" / "kernel.cu.j2").touch()


def test_a_checkout_has_one_copy() -> None:
    assert resources.template_folder() == ROOT / "templates"
    assert resources.grammar_text() == (ROOT / "grammar" / "gemm.lark").read_text(encoding="utf-8")
    assert not (ROOT / "gemmdsl" / "grammar").exists()
    assert not (ROOT / "gemmdsl" / "templates").exists()


def test_an_installed_package_looks_inside_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(tmp_path / "gemmdsl")
    # Another distribution may have put a folder of the same name beside the package.
    place(tmp_path)
    (tmp_path / "grammar" / "gemm.lark").write_text("someone else's")
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "gemmdsl")
    assert resources.grammar_text() == "start: \n"
    assert resources.template_folder() == tmp_path / "gemmdsl" / "templates"


def test_a_damaged_installation_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "gemmdsl")
    with pytest.raises(FileNotFoundError, match=r"incomplete: templates/kernel\.cu\.j2 is missing"):
        resources.template_folder()


def test_extras_are_installed_into_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shlex.split(resources.installs("gpu", "cuda"))[2:] == ["-e", f"{ROOT}[gpu,cuda]"]
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "site-packages" / "gemmdsl")
    assert resources.installs("plot") == "pip install 'gemmdsl[plot]'"
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "pyproject.toml").touch()
    assert shlex.split(resources.installs("plot"))[3] == f"{tmp_path / 'site-packages'}[plot]"

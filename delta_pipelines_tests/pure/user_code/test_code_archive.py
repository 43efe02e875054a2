"""Which files of a pipeline go to the executors of a cluster, as one zip."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from delta_pipelines.errors import SessionError
from delta_pipelines.user_code import code_archive as archive_module
from delta_pipelines.user_code.code_archive import CodeFolder, code_archive, code_folders

OWN = "delta_pipelines/"


def put(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("HERE = __name__\n")
    return folder


def module(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    return importlib.util.module_from_spec(spec)


def packed(folder: Path, package: str | None = None) -> set[str]:
    """The files of the user in the archive of one folder."""
    files = code_archive([CodeFolder(folder, package)]).files
    return {name for name in files if not name.startswith(OWN)}


def test_modules_and_packages_are_packed(tmp_path: Path) -> None:
    put(tmp_path, "shop.py", "helper.py", "lib/__init__.py", "lib/deep/more.py", "flat/one.py")
    assert packed(tmp_path) == {
        *("shop.py", "helper.py", "lib/__init__.py", "lib/deep/more.py", "flat/one.py")
    }


def test_only_python_files_of_importable_folders_are_packed(tmp_path: Path) -> None:
    put(tmp_path, "shop.py", "orders.csv", "lib/__init__.py", "lib/rates.json")
    put(tmp_path, ".git/hook.py", ".venv/pyvenv.cfg", ".venv/lib/x.py", "lib/.hidden/x.py")
    put(tmp_path, "env/pyvenv.cfg", "env/x.py", "site-packages/x.py", "lib/site-packages/x.py")
    put(tmp_path, "warehouse/shop.db/orders/x.py", "day=1/x.py", "__pycache__/x.py")
    put(tmp_path, "data/raw/x.py")  # has no module at its top
    assert packed(tmp_path) == {"shop.py", "lib/__init__.py"}


def test_a_module_that_hides_one_of_pythons_own_stays_here(tmp_path: Path) -> None:
    put(tmp_path, "shop.py", "queue.py", "json/__init__.py", "pyspark/__init__.py")
    put(tmp_path, "delta_pipelines/__init__.py", "lib/queue.py")
    assert packed(tmp_path) == {"shop.py", "lib/queue.py"}


def test_a_link_to_a_folder_above_ends(tmp_path: Path) -> None:
    put(tmp_path, "lib/one.py")
    (tmp_path / "lib/again").symlink_to(tmp_path / "lib")
    assert packed(tmp_path) == {"lib/one.py"}


def test_of_installed_libraries_only_the_pipelines_package_is_packed(tmp_path: Path) -> None:
    site = put(tmp_path / "site-packages", "shop/__init__.py", "shop/jobs.py", "other/__init__.py")
    folders = code_folders([module("shop.jobs", site / "shop/jobs.py")])
    assert folders == {CodeFolder(site, "shop")}
    assert packed(site, "shop") == {"shop/__init__.py", "shop/jobs.py"}


def test_the_folder_is_the_one_that_the_module_was_imported_from(tmp_path: Path) -> None:
    put(tmp_path, "src/shop/__init__.py", "src/shop/jobs.py", "shop.py")
    assert code_folders([module("shop.jobs", tmp_path / "src/shop/jobs.py")]) == {
        CodeFolder(tmp_path / "src")
    }
    assert code_folders([module("shop", tmp_path / "src/shop/__init__.py")]) == {
        CodeFolder(tmp_path / "src")
    }
    assert code_folders([module("shop", tmp_path / "shop.py")]) == {CodeFolder(tmp_path)}
    script = module("x", tmp_path / "shop.py")
    script.__name__, script.__spec__ = "__main__", None
    assert code_folders([script]) == {CodeFolder(tmp_path)}


def test_of_other_folders_only_loaded_packages_are_packed(tmp_path: Path) -> None:
    put(tmp_path, "jobs/shop.py", "lib/taxes/rates.py", "lib/other/x.py", "site-packages/dep.py")
    shop = module("shop", tmp_path / "jobs/shop.py")
    loaded = [
        shop,
        module("taxes.rates", tmp_path / "lib/taxes/rates.py"),
        module("dep", tmp_path / "site-packages/dep.py"),
        object(),
        ModuleType("notebook"),
        sys.modules["json"],
        pytest,
    ]
    assert code_folders([shop], loaded) == {
        CodeFolder(tmp_path / "jobs"),
        CodeFolder(tmp_path / "lib", "taxes"),
    }
    assert packed(tmp_path / "lib", "taxes") == {"taxes/rates.py"}


def test_a_module_without_a_file_has_no_folder(tmp_path: Path) -> None:
    cell = ModuleType("cell")
    cell.__file__ = str(tmp_path / "cell.ipynb")
    assert code_folders([ModuleType("notebook"), cell]) == frozenset()


def test_equal_files_give_an_equal_archive(tmp_path: Path) -> None:
    one = code_archive([CodeFolder(put(tmp_path / "a", "shop.py", "lib/x.py"))]).digest
    two = code_archive([CodeFolder(put(tmp_path / "b", "lib/x.py", "shop.py"))]).digest
    assert one == two
    (tmp_path / "b/shop.py").write_text("changed = 1\n")
    assert code_archive([CodeFolder(tmp_path / "b")]).digest != one


@pytest.mark.parametrize("maximum", ["MOST_BYTES", "MOST_FILES"])
def test_too_much_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maximum: str
) -> None:
    put(tmp_path, "shop.py", "helper.py")
    monkeypatch.setattr(archive_module, maximum, 1)
    with pytest.raises(SessionError, match=r"too much Python code.*sendCode=false"):
        code_archive([CodeFolder(tmp_path)])


def test_the_maximum_is_for_all_folders_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = put(tmp_path / "one", "shop.py"), put(tmp_path / "other", "helper.py")
    size = (one / "shop.py").stat().st_size
    monkeypatch.setattr(archive_module, "MOST_BYTES", size * 3 // 2)
    with pytest.raises(SessionError, match="too much Python code"):
        code_archive([CodeFolder(one), CodeFolder(other)])
    # Python imports the first one of two modules of a name, so only that one is packed.
    put(tmp_path / "same", "shop.py")
    code_archive([CodeFolder(one), CodeFolder(tmp_path / "same")])


def test_a_python_without_libraries_imports_the_archive(tmp_path: Path) -> None:
    put(tmp_path, "code/lib/more.py", "code/lib/deep/most.py")
    (tmp_path / "code/shop.py").write_text(
        "import delta_pipelines as dp\n"
        "from lib.deep import most\n"  # packages without `__init__.py`
        "shop = dp.Pipeline('shop', schema='shop')\n"
        "shop.materialized_view('orders', 'SELECT 1')\n"
    )
    archive = tmp_path / "code.zip"
    archive.write_bytes(code_archive([CodeFolder(tmp_path / "code")]).zipped())
    code = f"import sys; sys.path.insert(1, {str(archive)!r}); import shop; print(shop.most.HERE)"
    command = [sys.executable, "-I", "-S", "-c", code]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.stdout == "lib.deep.most\n", ended.stderr

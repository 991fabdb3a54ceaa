"""Test tools/corpus.py, which counts the findings of check and migrate in other projects."""

from tests.processes import start


def test_it_prints_a_row_for_each_folder(tmp_path):
    folder = tmp_path / "site-packages" / "lib"  # packages that pip installed count
    folder.mkdir(parents=True)
    use = "from tensorflow.keras.mixed_precision import experimental\n"
    (folder / "a.py").write_text(use)
    (folder / "b.py").write_text("def mixed_precision(:\n")
    (folder / "c.py").write_text("def f(:\n")
    done = start(["-m", "tools.corpus", folder])
    assert done.returncode == 0, done.stderr
    head, _, row = done.stdout.splitlines()
    columns = [cell.strip() for cell in head.split("|")]
    cells = dict(zip(columns, (cell.strip() for cell in row.split("|"))))
    assert (cells["files"], cells["LSO101"], cells["LSO102"]) == ("3", "1", "0")
    assert (cells["fixed"], cells["lost"], cells["changed"]) == ("1", "0", "1")
    assert (cells["unreadable"], cells["bad"]) == ("2", "0")
    assert "b.py: does not parse" in done.stderr
    assert (folder / "a.py").read_text() == use

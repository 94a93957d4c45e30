"""Every kind of damaged or hostile run file, once or more: refused with a sentence, or read as it was."""

from damaged_files import try_files


def test_damaged_and_hostile_files_are_refused_or_read_as_they_were(tmp_path):
    outcomes, wrong = try_files(8, 1, tmp_path)
    assert wrong == []
    assert outcomes["refused"] > 4

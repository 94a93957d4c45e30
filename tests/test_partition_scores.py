"""How alike partitions are, on values known from elsewhere; problems with shared motives are as they are described."""

import numpy as np
import pytest
from benchmarks import mixture_problems
from benchmarks.partition_scores import adjusted_rand, best_match_f, mutual_information, pairwise_f

TRUTH = [0, 0, 0, 1, 1, 1]
FOUND = [0, 0, 1, 1, 2, 2]


def test_scores_have_their_known_values() -> None:
    """The adjusted Rand index and normalised mutual information of this example are in scikit-learn's user guide."""
    assert adjusted_rand(TRUTH, FOUND) == pytest.approx(0.242424242, abs=1e-9)
    # I = log 2 − H(truth | found) = log 2 − (2/6) log 2;  H(truth) = log 2, H(found) = log 3
    information = 2 / 3 * np.log(2)
    assert mutual_information(TRUTH, FOUND) == pytest.approx(2 * information / (np.log(2) + np.log(3)))
    # together in both: 2 pairs; in truth 6, found 3
    assert pairwise_f(TRUTH, FOUND) == pytest.approx(2 * 2 / (6 + 3))
    # the most similar block has two of a truth's three tasks; seen from what was found, the middle block has one of two
    assert best_match_f(TRUTH, FOUND) == pytest.approx(2 * 2 / (3 + 2))
    assert best_match_f(FOUND, TRUTH) == pytest.approx((2 * 4 / 5 + 2 / 5) / 3)


def test_the_published_f_is_of_best_matches() -> None:
    """Published of ten problems of three pairs: 2 3 2 2 4 3 4 4 3 3 motives found, three exact, F .881, NMI .866."""
    truth = [0, 0, 1, 1, 2, 2]
    merged, split, moved, exact = [0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 3], [0, 0, 0, 1, 2, 2], truth
    found = [merged] * 3 + [split] * 3 + [moved] + [exact] * 3  # the least wrong with these numbers

    def mean(score) -> float:
        return float(np.mean([score(truth, each) for each in found]))

    assert mean(mutual_information) == pytest.approx(0.866, abs=5e-4)
    assert mean(best_match_f) == pytest.approx(0.881, abs=1.5e-3)
    assert mean(pairwise_f) < 0.78


@pytest.mark.parametrize("score", [best_match_f, pairwise_f, mutual_information, adjusted_rand])
def test_scores_are_one_for_equal_partitions_and_know_no_names(score) -> None:
    assert score(TRUTH, ["b", "b", "b", "a", "a", "a"]) == pytest.approx(1.0)
    if score is not best_match_f:
        assert score(TRUTH, FOUND) == pytest.approx(score(FOUND, TRUTH))
    for trivial in ([0] * 4, [0, 1, 2, 3]):
        assert score(trivial, trivial) == pytest.approx(1.0)
    assert score(TRUTH, [0] * 6) < 0.7


def test_the_adjusted_rand_index_is_nothing_at_random() -> None:
    rng = np.random.default_rng(0)
    drawn = [adjusted_rand(TRUTH, rng.permutation(FOUND)) for _ in range(2000)]
    assert abs(np.mean(drawn)) < 4 * np.std(drawn) / np.sqrt(2000)


def test_the_published_grid_is_as_published() -> None:
    problem = mixture_problems.grid(0)
    moves = problem.environment.tensor
    assert moves.shape == (64, 4, 64)
    inner = 8 * 3 + 3
    np.testing.assert_allclose(
        moves[inner, 0, [inner - 8, inner + 1, inner + 8, inner - 1]], [0.775, 0.075, 0.075, 0.075]
    )
    np.testing.assert_allclose(problem.features.sum(axis=0), 4.0)
    assert sorted(problem.groups) == [0, 0, 1, 1, 2, 2]
    assert (problem.demonstrations.counts.sum(axis=(1, 2)) == 40).all()
    weights = problem.rewards @ problem.features / 4
    assert ((weights != 0).sum(axis=1) == 5).all()
    assert np.abs(weights).max() <= 1.0


def test_objects_have_three_types_and_binary_features() -> None:
    problem = mixture_problems.objects(0)
    assert problem.features.shape == (100, 30)
    assert set(np.unique(problem.features)) == {0.0, 1.0}
    assert set(np.unique(problem.rewards)) <= {-1.0, 0.0, 1.0}
    assert np.bincount(problem.groups).tolist() == [4, 4, 4]

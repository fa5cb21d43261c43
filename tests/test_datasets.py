import numpy as np
import pytest

from maxmargin.datasets import chessboard


def colour(X):
    return np.where(np.floor(X).sum(axis=1) % 2 == 0, 1, -1)


@pytest.mark.parametrize("squares", [1, 3, 8])
def test_labels_are_the_colours_of_the_squares(squares):
    X, y = chessboard(500, squares=squares, random_state=0)
    assert X.shape == (500, 2)
    assert X.dtype == np.float64
    assert X.min() >= 0
    assert X.max() < squares
    assert np.array_equal(y, colour(X))


@pytest.mark.parametrize(("noise", "flipped"), [(0.0, 0), (0.1, 40), (1.0, 400)])
def test_noise_flips_that_fraction(noise, flipped):
    X, y = chessboard(400, noise=noise, random_state=1)
    assert np.count_nonzero(y != colour(X)) == flipped


def test_noise_does_not_move_the_points():
    clean, _ = chessboard(100, random_state=2)
    noisy, _ = chessboard(100, noise=0.2, random_state=2)
    assert np.array_equal(clean, noisy)


@pytest.mark.parametrize("seed", [7, np.random.default_rng, np.random.RandomState])
def test_seed_reproduces(seed):
    first, second = ((seed(7) if callable(seed) else seed) for _ in range(2))
    for a, b in zip(
        chessboard(50, noise=0.1, random_state=first),
        chessboard(50, noise=0.1, random_state=second),
        strict=True,
    ):
        assert np.array_equal(a, b)


def test_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    X, _ = chessboard(10)
    Z, _ = chessboard(10)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert not np.array_equal(X, Z)


@pytest.mark.parametrize(
    "bad", [{"n_samples": 0}, {"squares": 0}, {"noise": -0.1}, {"noise": 1.5}, {"noise": np.nan}]
)
def test_bad_parameters_are_named(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        chessboard(**bad)

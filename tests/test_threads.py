"""The number of threads, and the limit on BLAS inside ours."""

import multiprocessing
import os
import threading

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from maxmargin import SVC, threads
from maxmargin.threads import in_worker, one_blas_thread, thread_count


def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


def test_the_limit_holds_in_every_thread_and_is_lifted():
    before = blas_threads()
    with one_blas_thread():
        assert blas_threads() == {1}
    seen = []

    def work():
        with one_blas_thread():
            seen.append(blas_threads())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [{1}]
    assert blas_threads() == before


def test_leaving_in_another_order_lifts_it_too():
    before, inside, leave = blas_threads(), threading.Event(), threading.Event()

    def work():
        with one_blas_thread():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=work)
    with one_blas_thread():
        thread.start()
        inside.wait()
    assert blas_threads() == {1}
    leave.set()
    thread.join()
    assert blas_threads() == before


def test_a_fit_in_a_thread_has_the_same_bits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2300, 100))
    y = X[:, 0] + rng.normal(size=2300) > 0
    expected = SVC(C=10, gamma=0.005).fit(X, y).dual_coef_
    found = []
    thread = threading.Thread(
        target=lambda: found.append(SVC(C=10, gamma=0.005).fit(X, y).dual_coef_)
    )
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
def test_bad_counts(wrong):
    with pytest.raises(ValueError, match="n_threads"):
        thread_count(wrong)


def test_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert thread_count() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "nonsense")
    assert thread_count() >= 1


def test_too_many_threads_are_as_many_as_make_sense(monkeypatch):
    assert thread_count(2**40) == 256
    monkeypatch.setenv("OMP_NUM_THREADS", str(2**40))
    assert thread_count() == 256


def worker():
    return in_worker()


def test_worker_processes_are_recognised():
    assert not in_worker()
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(worker)() for _ in range(2)) == [True, True]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(worker)


def test_a_limit_that_ctrl_c_left_behind_is_lifted_by_the_next_caller(monkeypatch):
    before = blas_threads()
    abandoned = one_blas_thread()
    abandoned.__enter__()
    assert blas_threads() == {1}
    del abandoned  # its frame is gone: the press came before __exit__ had begun
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before

    def pressed():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), one_blas_thread():
        monkeypatch.setattr(threads, "_disown", pressed)
    monkeypatch.undo()
    assert blas_threads() == {1}
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_inside_lifts_the_limit_too():
    before = blas_threads()
    with one_blas_thread():
        child = os.fork()
        if child == 0:
            with one_blas_thread():
                pass
            os._exit(0 if blas_threads() == before else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

"""What is compiled ahead is what is needed: the types that examples have are those that a real run has."""

import subprocess
from types import SimpleNamespace

import numpy as np

import manymotives as mm
from manymotives.fitting import compilation
from manymotives.inference.mcmc.sweeps import hamiltonian_draws


def test_what_is_compiled_ahead_is_what_a_run_takes():
    environment = mm.worlds.GridWorld((2, 2), discount=0.9)
    demonstrations = mm.simulate(environment, np.eye(4)[:2], mm.Softmax(inverse_temperature=3.0), steps=4, seed=0)
    known = set(hamiltonian_draws.signatures)
    method = mm.HMC(chains=1, draws=2, warmup=2, thin=1, max_rounds=1)
    mm.fit(mm.RewardPolicyModel(), environment, demonstrations, method, progress=False)
    assert compilation.is_compiled()
    assert set(hamiltonian_draws.signatures) - known <= {compilation.sampler_signature()}
    assert compilation.sampler_signature() in hamiltonian_draws.signatures


def test_what_is_compiled_is_not_compiled_again(monkeypatch):
    monkeypatch.setattr(compilation, "is_compiled", lambda: True)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: 1 / 0)
    compilation.compile_first()


def test_plain_python_is_not_compiled(monkeypatch):
    """`NUMBA_DISABLE_JIT=1`: there is nothing to look for on disk."""
    monkeypatch.setattr(compilation, "hamiltonian_draws", hamiltonian_draws.py_func)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: 1 / 0)
    compilation.compile_first()


def test_a_process_that_fails_is_no_harm(monkeypatch):
    """All is compiled here, later, as if there had been no other."""
    monkeypatch.setattr(compilation, "is_compiled", lambda: False)
    monkeypatch.setattr(compilation, "sys", SimpleNamespace(executable="false"))
    compilation.compile_first()

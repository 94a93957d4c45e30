"""A default fit ends when its criteria hold, says what it does, is honest about size, and is not lost at its end."""

import json
import signal
import sys
import time
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import LazyLoader, module_from_spec
from types import ModuleType

import arviz_stats
import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import manymotives as mm
from manymotives import arrays
from manymotives.cli import app
from manymotives.fitting import compilation
from manymotives.fitting import run as running
from manymotives.fitting.checkpoints import fit_in_blocks
from manymotives.fitting.looks import Looks
from manymotives.fitting.run import Run
from manymotives.inference import progress as reporting
from manymotives.inference.diagnostics import largest_rhat
from manymotives.inference.mcmc.chains import MarkovChain
from manymotives.inference.mcmc.watching import advice
from manymotives.inference.progress import InParts, Progress, announcement

CORRIDOR = mm.worlds.Chain(states=3, discount=0.9)
DATA = mm.simulate(CORRIDOR, [[0.2, 0.0, 0.8], [0.0, 1.0, 0.0]], mm.Softmax(4.0), steps=30, seed=0)
KNOWN = mm.RewardPolicyModel(mm.DirichletReward(1.0), mm.Softmax(4.0))
MODELS = {
    "hierarchical": mm.RewardPolicyModel(),
    "switching": mm.RewardPolicyModel(switching=mm.Switching(motives=2)),
    "mixture": mm.RewardPolicyModel(sharing=mm.Mixture()),
    "pooled": mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(1.0), mm.Pooled()),
    "features": mm.RewardPolicyModel(
        mm.GaussianReward(features=[[1.0], [0.0], [2.0]], names=["food"]), mm.Softmax(1.0)
    ),
}

# ---- it ends when its criteria hold --------------------------------------------------------------------------------


def test_open_rounds_are_looked_at_in_parts_and_given_ones_at_their_ends():
    looks = Looks.of(mm.HMC(), mm.HMC(draws=250, max_rounds=4))
    assert looks.points == (150, 200, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700, 750, 800, 900, 1000)
    assert looks.effective > 400
    assert looks.after(0) == 150
    assert looks.after(160) == 200
    given = Looks.of(mm.HMC(draws=60), mm.HMC(draws=60, max_rounds=3))
    assert given.points == (60, 120, 180)
    assert given.effective == 400
    assert Looks.of(mm.Gibbs(draws=70), mm.Gibbs(draws=70)).points == (70,)


def test_a_default_fit_stops_at_a_look_when_its_criteria_hold_and_blocks_stop_at_the_same(tmp_path):
    found = mm.fit(KNOWN, CORRIDOR, DATA, seed=1, progress=False)
    run = Run(KNOWN, CORRIDOR, DATA, seed=1)
    made = found.rewards.sizes["draw"]
    assert made in run.looks.points
    assert made < 1000  # of 5000 that there may be
    assert "mixed: R-hat ≤ 1.0" in repr(found)
    assert found.data.attrs["effective_draws"] >= run.looks.effective
    longer = mm.fit(KNOWN, CORRIDOR, DATA, mm.HMC(draws=made + 10, max_rounds=1), seed=1, progress=False)
    np.testing.assert_array_equal(found.rewards, longer.rewards[:, :made])

    class Killed(Exception):
        pass

    def killed(done, wanted, rate):
        raise Killed

    path = tmp_path / "run.nc"
    with pytest.raises(Killed):
        fit_in_blocks(run, path, every=0.0, progress=False, on_checkpoint=killed)
    resumed = fit_in_blocks(Run(KNOWN, CORRIDOR, DATA, seed=1), path, resume=True, progress=False)
    np.testing.assert_array_equal(resumed.rewards, found.rewards)
    assert resumed.warnings == found.warnings
    again = fit_in_blocks(Run(KNOWN, CORRIDOR, DATA, seed=1), path, resume=True, progress=False)
    assert again.rewards.sizes["draw"] == made  # it had ended


def test_ctrl_c_at_the_end_of_a_block_stops_a_fit(monkeypatch):
    """There it stops no chain, because all have made their draws."""
    advance = Run.advance

    def advanced(run, draws, progress):
        advance(run, draws, progress)
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Run, "advance", advanced)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    try:
        found = mm.fit(KNOWN, CORRIDOR, DATA, mm.HMC(chains=2, max_rounds=20), seed=1, progress=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert found.rewards.sizes["draw"] == Run(KNOWN, CORRIDOR, DATA, mm.HMC(chains=2)).looks.points[0]
    assert any("interrupted" in warning for warning in found.warnings)


def test_ctrl_c_saves_what_was_drawn_before_the_block_that_it_stopped(tmp_path, monkeypatch):
    path, method = tmp_path / "run.nc", mm.HMC(chains=2, draws=200, warmup=20, thin=1, max_rounds=1)
    run = Run(KNOWN, CORRIDOR, DATA, method, seed=1)
    advance, calls = Run.advance, []

    def interrupted(self, draws, progress):
        calls.append(draws)
        if len(calls) == 2:
            raise KeyboardInterrupt
        advance(self, draws, progress)

    monkeypatch.setattr(Run, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit_in_blocks(run, path, every=1e9, progress=False)
    assert mm.load(path).rewards.sizes["draw"] == calls[0]


def test_the_quick_rhat_is_that_of_arviz():
    rng = np.random.default_rng(0)
    ar = np.cumsum(rng.normal(size=(4, 151, 6)), axis=1) * 0.05 + rng.normal(size=(4, 151, 6))
    drawn = xr.Dataset(
        {
            "reward": (("chain", "draw", "state"), ar),
            "number": (("chain", "draw"), rng.integers(3, size=(4, 151))),
            "constant": (("chain", "draw"), np.ones((4, 151))),
        }
    )
    expected = arviz_stats.rhat(drawn[["reward", "number"]])
    largest = max(float(values.max()) for values in expected.data_vars.values())
    assert largest_rhat(drawn) == pytest.approx(largest, rel=1e-12)


def test_pooled_chains_that_have_not_mixed_come_with_the_reason():
    method = mm.HMC(chains=2, draws=10, warmup=5, thin=1, max_rounds=1)
    for reward, expected in ((mm.GaussianReward(), True), (mm.GaussianReward(mean=0.0, scale=1.0), False)):
        model = mm.RewardPolicyModel(reward, mm.Softmax(1.0), mm.Pooled())
        said = mm.fit(model, CORRIDOR, DATA, method, progress=False).warnings
        assert any("Give the reward a fixed prior" in each for each in said) == expected


# ---- it is not lost at its end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "broken",
    ["manymotives.posterior.labelling.common.stored_demonstrations", "manymotives.fitting.run.warnings_of_features"],
)
def test_what_would_fail_at_the_end_fails_before_the_first_draw(model, broken, monkeypatch):
    class Broken(Exception):
        pass

    def fail(*arguments):
        raise Broken

    begun = []
    monkeypatch.setattr(Run, "advance", lambda *arguments: begun.append(1))
    monkeypatch.setattr(broken, fail)
    with pytest.raises(Broken):
        mm.fit(MODELS[model], CORRIDOR, DATA, progress=False)
    assert begun == []


# ---- it says what it does ------------------------------------------------------------------------------------------


def test_every_phase_of_a_fit_is_named_within_two_seconds(monkeypatch, capsys):
    """Each phase is made to last; it is to be named in shorter time than usually."""
    assert reporting.SOON + 2 * 0.25 < 2.0  # chains are asked four times a second how far they are
    monkeypatch.setattr(reporting, "SOON", 0.15)

    def slowly(function, slow=0.8):
        def slowed(*arguments, **options):
            time.sleep(slow)
            return function(*arguments, **options)

        return slowed

    monkeypatch.setattr(compilation, "is_compiled", lambda: False)
    monkeypatch.setattr(compilation, "compile_beside_sampler", slowly(compilation.compile_beside_sampler))
    monkeypatch.setattr(running, "largest_rhat", slowly(running.largest_rhat))
    monkeypatch.setattr(MarkovChain, "begin", slowly(MarkovChain.begin))
    monkeypatch.setattr(MarkovChain, "advance", slowly(MarkovChain.advance, 0.2))  # of a phase, at least four times
    Run.posterior(made_up_run())  # compiled by now
    method = mm.HMC(chains=2, draws=200, warmup=20, thin=1, max_rounds=2)
    monkeypatch.setattr(Run, "posterior", slowly(Run.posterior))
    capsys.readouterr()
    mm.fit(KNOWN, CORRIDOR, DATA, method)
    said = capsys.readouterr().err
    phases = [
        "Compiling, once: about",
        "Starting the chains",
        "Warming up: ",
        "Drawing: ",
        "Looking whether the chains have mixed",
        "Labelling the draws",
    ]
    positions = [said.find(phase) for phase in phases]
    assert min(positions) >= 0, said
    assert positions == sorted(positions)
    line = said[positions[2] :].splitlines()[0]
    assert "% done, about" in line
    assert line.endswith(".")


def made_up_run():
    run = Run(KNOWN, CORRIDOR, DATA)
    run.draws = run.kind.made_up(run.target)
    return run


def test_quiet_phases_short_ones_and_hidden_ones_are_not_named(monkeypatch, capsys):
    monkeypatch.setattr(reporting, "SOON", 0.05)
    with Progress().phase("Reading"):
        pass
    with Progress(False).phase("Reading"), reporting.Quiet().phase("Reading"):
        time.sleep(0.2)
    assert capsys.readouterr().err == ""
    with Progress().of(10, "draws") as whole, InParts(whole).phase("Looking"):
        time.sleep(0.2)
    assert "Looking" in capsys.readouterr().err


# ---- it is honest about size ---------------------------------------------------------------------------------------


def test_hours_are_announced_with_what_to_do_instead():
    pairs = advice(mm.RewardPolicyModel(mm.DirichletReward(on="state_action")).bind(CORRIDOR, DATA)).on_command_line
    said = announcement(7200.0, pairs, 150)
    for words in ("about 2 h for the first 150 draws", "longer if the chains have not mixed", "--features"):
        assert words in said
    for words in ("--on states", "--method empirical-bayes"):
        assert words in said
    assert "--on" not in announcement(7200.0, advice(KNOWN.bind(CORRIDOR, DATA)).on_command_line)
    assert announcement(100.0, pairs) == "This will take about 2 min."


@pytest.fixture(scope="module")
def long_problem(tmp_path_factory):
    """300 states × 40 subjects × a reward for each state."""
    folder = tmp_path_factory.mktemp("hours")
    field = mm.worlds.GridWorld((15, 20), slip=0.1, discount=0.95)
    rewards = np.random.default_rng(0).dirichlet(np.full(300, 0.1), size=40)
    mm.simulate(field, rewards, mm.Softmax(50.0), steps=100, seed=0).to_frame().to_csv(folder / "c.csv", index=False)
    field.to_frame().to_csv(folder / "e.csv", index=False)
    return folder


@pytest.mark.parametrize("words", [(), pytest.param(("--json",), marks=pytest.mark.long)])
def test_a_dry_run_of_a_problem_of_hours_says_so_and_samples_nothing(words, long_problem, monkeypatch):
    monkeypatch.setattr(MarkovChain, "advance", None)  # nothing is drawn
    given = ["fit", str(long_problem / "c.csv"), "--environment", str(long_problem / "e.csv"), "--dry-run", *words]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    if words:
        assert json.loads(result.stdout)["seconds_ahead"] > 3600
    else:
        assert " h for the first 150 draws per chain, and longer if" in result.output
        assert "GaussianReward(" not in result.output
        for advised in ("--features", "--method empirical-bayes"):
            assert advised in result.output


def test_a_jax_that_waits_to_be_imported_is_left_alone(monkeypatch):
    """As ArviZ leaves one: looking at it would take seconds, and chains in threads would see it half made."""
    spec = PathFinder.find_spec("jax")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = LazyLoader(spec.loader)
    waiting = module_from_spec(spec)
    spec.loader.exec_module(waiting)
    monkeypatch.setitem(sys.modules, "jax", waiting)
    assert not arrays.is_jax(np.ones(2))
    assert not arrays.is_traced(1.0)
    assert arrays.numerics(np.ones(2)) is np
    assert type(waiting) is not ModuleType
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))  # begun in another thread
    assert not arrays.is_jax(np.ones(2))

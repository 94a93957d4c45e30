"""Long runs say how long they take before the first draw, and what would be shorter."""

import time

import numpy as np
import pytest

import manymotives as mm
from manymotives.inference import progress as reporting
from manymotives.inference.mcmc import chains
from manymotives.inference.mcmc.forecast import least_seconds, seconds_of_a_draw
from manymotives.inference.mcmc.sweeps import gibbs_draws, hamiltonian_draws
from manymotives.inference.mcmc.watching import advice
from manymotives.inference.progress import InParts, Progress, Quiet, in_words

FIELD = mm.worlds.GridWorld((3, 3), slip=0.1, discount=0.9)
DATA = mm.simulate(FIELD, np.eye(9)[:4], mm.Softmax(4.0), steps=30, seed=0)


@pytest.mark.parametrize(
    ("seconds", "words"), [(3.2, "3 s"), (89.0, "89 s"), (90.0, "2 min"), (2400.0, "40 min"), (10_800.0, "3 h")]
)
def test_durations_in_words(seconds, words):
    assert in_words(seconds) == words


def test_a_long_run_is_told_of_once_before_anything_is_done(capsys):
    target = mm.RewardPolicyModel().bind(FIELD, DATA)
    for on_command_line in (False, True):
        with Progress(on_command_line=on_command_line).of(1000, "draws") as report:
            for _ in range(3):
                assert report.outlook(0, 2.4, advice=advice(target)) == "0% done, about 40 min left"
            said = capsys.readouterr().err
        assert said.count("about 40 min") == 1
        words = ("--features", "--method empirical-bayes"), ("GaussianReward(features=...)", "EmpiricalBayes()")
        for own, other in zip(*(words if on_command_line else words[::-1])):
            assert own in said
            assert other not in said
        assert "fewer states" in said


def test_advice_is_what_applies():
    reward = mm.GaussianReward(features=np.eye(9)[:, :2])
    assert "features" not in advice(mm.RewardPolicyModel(reward).bind(FIELD, DATA)).in_python
    switching = mm.RewardPolicyModel(switching=mm.Switching(motives=2)).bind(FIELD, DATA)
    assert "empirical-bayes" not in advice(switching).on_command_line
    pairs = mm.RewardPolicyModel(mm.DirichletReward(on="state_action")).bind(FIELD, DATA)
    assert "(--on states)" in advice(pairs).on_command_line


def test_a_forecast_that_was_far_off_is_corrected_once(capsys):
    with Progress().of(1000, "draws") as report:
        report.outlook(0, 7.2)
        report.begin = time.monotonic() - 36.0
        for _ in range(2):
            report.outlook(100, 7.2)
    said = capsys.readouterr().err
    assert "about 2 h" in said
    assert said.count("It is faster than expected: about 5 min left.") == 1


def test_a_forecast_of_the_first_draws_says_so(capsys):
    with Progress().of(100, "draws") as whole:
        bar = InParts(whole)
        bar.expect(1000, 150)
        with bar.of(100, "draws") as report:
            report.outlook(0, 0.065)
    assert "about 65 s for the first 150 draws per chain, and longer if the chains have not mixed by then." in (
        capsys.readouterr().err
    )


def test_where_there_is_no_terminal_a_line_now_and_then_says_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(reporting, "BETWEEN", 0.1)
    with Progress().of(1000, "draws") as report:
        for done in (1, 250, 250):
            report.update(done)
            time.sleep(0.15 if done == 1 else 0.0)
    assert capsys.readouterr().err == "250 of 1,000 draws\n"
    monkeypatch.setattr(reporting, "SOON", 0.05)
    with Progress().phase("Compiling"):
        time.sleep(0.5)
    assert capsys.readouterr().err.count("Compiling …") >= 2


def test_what_was_measured_replaces_the_forecast(capsys):
    with Progress().of(1000, "draws") as report:
        report.begin = time.monotonic() - 10.0
        assert report.outlook(100, 1e6) == "10% done, about 2 min left"  # 90 s
    assert "features" not in capsys.readouterr().err  # two minutes need no advice


def test_chains_that_are_past_their_warm_up_are_not_more_than_done():
    with Progress(False).of(1000, "draws") as report:
        assert report.outlook(300, 0.5, until=200) == "100% done, about 0 s left"


def test_short_runs_silent_ones_and_unknown_ones_say_nothing(capsys):
    with Progress().of(10, "draws") as report:
        assert report.outlook(0, 0.5) == "0% done, about 5 s left"
        assert report.outlook(0, float("nan")) == ""
    with Progress(False).of(1000, "draws") as report:
        report.outlook(0, 60.0)
    assert capsys.readouterr().err == ""


def test_runs_in_parts_speak_of_the_whole_and_machines_are_told_on_the_error_stream(capsys):
    with Quiet().of(100, "draws") as whole:
        bar = InParts(whole)
        bar.expect(1000)
        with bar.of(100, "draws") as report:
            assert report.outlook(0, 2.0) == "0% done, about 33 min left"
        with bar.of(100, "draws") as report:
            assert report.outlook(0, 2.0).startswith("10% done")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("This will take about 33 min") == 1


@pytest.mark.parametrize("kernel", [hamiltonian_draws, gibbs_draws])
def test_a_draw_is_timed_before_there_is_one_and_nothing_else_changes(kernel):
    target = mm.RewardPolicyModel().bind(FIELD, DATA)
    made = [chains.MarkovChain(kernel, target, target.num_coordinates, np.random.SeedSequence(1)) for _ in range(2)]
    for chain in made:
        chain.begin()
    assert 0.0 < seconds_of_a_draw(made[0], 4) < 60.0
    for one, other in zip(made[0].state, made[1].state):
        np.testing.assert_array_equal(one, other)
    assert made[0].rng.bit_generator.state == made[1].rng.bit_generator.state


def test_a_fit_that_takes_hours_says_so_while_its_first_block_is_drawn(monkeypatch, capsys):
    """Also where there are more chains than cores, so that some have not begun."""
    monkeypatch.setattr(chains, "seconds_of_a_draw", lambda chain, thin: 30.0)
    monkeypatch.setattr(chains, "cores", lambda: 1)

    class Patient(Exception):
        pass

    def first_block(chain, *arguments, **options):
        time.sleep(0.6)
        raise Patient

    monkeypatch.setattr(chains, "warm_up", first_block)
    with pytest.raises(Patient):
        mm.fit(mm.RewardPolicyModel(), FIELD, DATA, mm.HMC(draws=1000, warmup=500), seed=0)
    said = capsys.readouterr().err
    assert "This will take about" in said
    assert " h for the first 1,000 draws per chain" in said
    assert "EmpiricalBayes()" in said


def test_a_forecast_does_not_count_what_is_compiled_first():
    """A first step that waits for a compiler once made a demo of a minute look like 25."""
    waits = iter([0.3, 0.0, 0.3, 0.0])
    assert least_seconds(lambda away: time.sleep(next(waits))) < 0.1


def test_compiling_is_said_once_a_run(monkeypatch, capsys):
    """Compiled in two places of one run: before its first draw, and with its first draw."""
    monkeypatch.setattr(reporting, "SOON", 0.0)
    monkeypatch.setattr(reporting, "BETWEEN", 0.0)
    bar = Progress()
    with bar.of(10, "functions") as report:
        for done in range(3):
            report.update(done, phase=f"{reporting.COMPILING}: about 20 s")
    with bar.of(10, "draws") as whole, InParts(whole).of(10, "draws") as report:
        for phase in (reporting.COMPILING, "Drawing", reporting.COMPILING):
            report.update(1, phase=phase)
            report.update(1, phase=phase)
    said = capsys.readouterr().err
    assert said.count("Compiling, once") == 1, said
    assert "Drawing …" in said

"""What the compiled sweeps read and write: a chain's state and tuning, the data, room for draws, acceptance counts."""

from typing import NamedTuple

import numpy as np

from manymotives.by_reference import by_reference


@by_reference
class State(NamedTuple):
    """Where a chain is."""

    tasks: np.ndarray  # [M, D] coordinates u
    hyper: np.ndarray  # [G, H] coordinates h
    q: np.ndarray  # [M, S, A]
    value: np.ndarray  # [M, S]
    actions: np.ndarray  # [M, S]
    log_likelihood: np.ndarray  # [M]
    # non-centred: of location–scale families u = a + b z always; of others as the last trajectory has left them
    task_z: np.ndarray  # [M, D]
    hyper_z: np.ndarray  # [G, H]
    likelihood_gradient: np.ndarray  # [M, D] of log-likelihoods in u, where trajectories start


def empty_state() -> State:
    """The state of a chain without tasks: an example of its type."""
    one, two, three = (np.zeros((0,) * axes) for axes in (1, 2, 3))
    return State(two, two, three, two, np.zeros((0, 0), dtype=np.int64), one, two, two, two)


@by_reference
class Tuning(NamedTuple):
    """Scales, step sizes and mass matrices of proposals; adapted in warm-up, fixed afterwards (`adaptation`)."""

    factor: np.ndarray  # [M, d, d] of random walks: steps are scale · factor · normal, in the first d coordinates
    scale: np.ndarray  # [M]
    hyper_scale: np.ndarray  # [G, H]
    interweaving_directions: np.ndarray  # [C, H] which hyperparameters change together
    interweaving_scale: np.ndarray  # [G, C]
    slice_width: np.ndarray  # [M, D] first guess at how wide a slice is: any is right, a good one is quick
    task_mass_factor: np.ndarray  # [M, D, D] Cholesky factor F of the inverse mass matrix: z = F y
    task_step_size: np.ndarray  # [M] of leapfrog steps
    hyper_mass_factor: np.ndarray  # [G, H, H] the same of populations
    hyper_step_size: np.ndarray  # [G]
    schedule: np.ndarray  # [3] rounds of other moves between trajectories; most steps of a task's, of a population's


@by_reference
class DrawArrays(NamedTuple):
    """What a sampler fills with draws."""

    tasks: np.ndarray  # [N, M, D]
    hyper: np.ndarray  # [N, G, H]
    log_likelihood: np.ndarray  # [N, M]
    q: np.ndarray  # [N, V, A] of visited (task, state) pairs …
    visited: np.ndarray  # [V, 2] … which are these; none where nobody asks for them

    def part(self, which: slice) -> "DrawArrays":
        """Of these draws, some, to be filled."""
        tasks, hyper, log_likelihood, q = (each[which] for each in self[:-1])
        return DrawArrays(tasks, hyper, log_likelihood, q, self.visited)


@by_reference
class AcceptanceCounts(NamedTuple):
    """How many proposals were accepted, summed over sweeps."""

    random_walks: np.ndarray  # [M] one tried in each round of a sweep, of which HMC has several
    prior_proposals: np.ndarray  # [M]
    hyper: np.ndarray  # [G, H] random walks of hyperparameters
    interweaving: np.ndarray  # [G, C]
    interweaving_tried: np.ndarray  # [G, C]
    slice_jumps: np.ndarray  # [M, D] distances moved by slice sampling
    task_trajectories: np.ndarray  # [M] acceptance probabilities
    hyper_trajectories: np.ndarray  # [G]


@by_reference
class Data(NamedTuple):
    """The choices, the parameters that are known, and pointers to the functions that compute log densities."""

    counts: np.ndarray  # [M, S, A]
    temperature: np.ndarray  # [M] where it is known
    lapse: np.ndarray  # [M]
    offset: np.ndarray  # [M, D] what covariates add to tasks' u before choices see them; [0, D] where there are none
    proposal_log_likelihoods: int  # address of `proposals.proposal_log_likelihoods`
    log_density_and_gradient: int  # address of `density.log_density_and_gradient`; 0 where nothing has trajectories
    log_density_again: int = 0  # address of `density.log_density_again`; 0 where only effects have trajectories
    start_trajectories: int = 0  # address of `hamiltonian.start_trajectories`

"""Switching motives by brute force: every sequence of motives enumerated, rewards on grids, rows integrated exactly.

One segment has states s_1..s_T, actions a_1..a_T (-1: not recorded; time passes all the same) and contexts c_1..c_T.
Motive k has the policy pi_k of its reward: softmax_a(c Q(s, a)) with Q(s, a) = r(s, a) + g sum_s' P(s' | s, a) V(s')
and V(s) = max_a Q(s, a), or log(sum_a exp(c Q(s, a))) / c if soft. Which motive acts is hidden:

    p(z) = B[c_1, z_1] prod_{t<T} A[c_t, z_t, z_{t+1}]           the context that is left decides
    p(a_1..a_t | z) = prod over recorded u <= t of pi_{z_u}(a_u | s_u)
    p(a_1..a_t) = sum_z p(z) p(a_1..a_t | z)                     over all K^T sequences, without any recursion

`exact_posterior` is for two motives with rewards theta_k * feature, theta_k ~ Normal(mean, scale) independently, and

    root:      A[j, .] ~ Dirichlet(1 + kappa delta_j),     B ~ Dirichlet(1, 1)
    contexts:  A_c[j, .] ~ Dirichlet(nu A[j, .]),          B_c ~ Dirichlet(nu B)       (or the root is the one context)

Given z the rows are independent, and each sees only counts n_c of what followed it. Without contexts its integral is
B(alpha + n) / B(alpha), B the Beta function; with them, p the root's probability of motive 0,

    integral Beta(p; alpha) prod_c [ (nu p)_{n_c0} (nu (1 - p))_{n_c1} / (nu)_{n_c0 + n_c1} ] dp,  (x)_n = x .. (x+n-1),

a polynomial in p under a Beta density, for which Gauss-Jacobi quadrature is exact. The two theta are integrated by
Gauss-Legendre quadrature in panels, split where integrands have kinks: at theta = 0, where the best policy changes,
and where theta_0 = theta_1, for the smaller and the larger of them. Plain NumPy and SciPy, for a dozen steps in all.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

PANELS = np.array([-8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0])  # ends, in prior standard deviations
BLOCK = 2_000_000  # numbers in one array of the posterior


# ---------------------------------------------------------------------------------------------- planning


def log_policies_of(transitions, rewards, discount, inverse_temperature, soft, available=None):
    """log pi(a | s), [..., S, A], of rewards[..., S, A]: -inf where an action is missing.

    From V = 0, n sweeps of value iteration leave an error of at most discount^n max |V|: n makes that 1e-13 max |V|.
    """
    transitions, rewards = np.asarray(transitions, dtype=float), np.asarray(rewards, dtype=float)
    available = np.ones(transitions.shape[:2], dtype=bool) if available is None else np.asarray(available)
    assert available.any(axis=1).all(), "every state needs an action"
    assert 0 <= discount < 1
    sweeps = 1 if discount == 0 else int(np.ceil(np.log(1e-13) / np.log(discount)))
    values = np.zeros(rewards.shape[:-1])
    for _ in range(sweeps + 1):
        expected = np.tensordot(values, transitions, axes=(-1, 2))  # sum_s' P(s' | s, a) V(s')
        q = np.where(available, rewards + discount * expected, -np.inf)
        values = largest = q.max(axis=-1)
        if soft:
            total = np.exp(inverse_temperature * (q - largest[..., None])).sum(axis=-1)
            values = largest + np.log(total) / inverse_temperature
    return special.log_softmax(np.where(available, inverse_temperature * np.where(available, q, 0.0), -np.inf), axis=-1)


def policies(transitions, reward, discount, inverse_temperature, soft, available=None):
    """pi(a | s), [S, A], of one reward [S] or [S, A]."""
    reward = on_pairs(reward, transitions)
    return np.exp(log_policies_of(transitions, reward, discount, inverse_temperature, soft, available))


def on_pairs(reward, transitions):
    """A reward [S] of states as one [S, A] of states and actions; one that is that already, as it is."""
    reward, pairs = np.asarray(reward, dtype=float), np.shape(transitions)[:2]
    return np.broadcast_to(reward if reward.ndim == 2 else reward[:, None], pairs)


# ---------------------------------------------------------------------------------------------- one segment


def log_prior(z, start_rows, rows, contexts):
    """log p(z) of sequences z[..., T], given start_rows[C, K] and rows[C, K, K]."""
    with np.errstate(divide="ignore"):
        log_start, log_rows = np.log(start_rows), np.log(rows)
    total = log_start[contexts[0], z[..., 0]]
    for t in range(len(contexts) - 1):
        total = total + log_rows[contexts[t], z[..., t], z[..., t + 1]]
    return total


def log_choices(z, states, actions, log_policies):
    """log pi_{z_t}(a_t | s_t) of every step of sequences z[..., T], [..., T]: 0 where no action was recorded."""
    found = np.zeros(np.shape(z))
    for t, (state, action) in enumerate(zip(states, actions)):
        if action >= 0:
            found[..., t] = log_policies[z[..., t], state, action]
    return found


def log_joint(z, states, actions, log_policies, start_rows, rows, contexts):
    """log p(z, a_1..a_T) of sequences z[..., T] of one segment."""
    z = np.asarray(z)
    return log_prior(z, start_rows, rows, contexts) + log_choices(z, states, actions, log_policies).sum(axis=-1)


def all_sequences(num_motives, length):
    """Every sequence of motives, [K^T, T]."""
    return np.array(list(itertools.product(range(num_motives), repeat=length)))


@dataclass(frozen=True, eq=False)
class Assignments:
    """What is known of the motives of one segment, given policies and rows."""

    sequences: np.ndarray  # [K^T, T] every z
    probabilities: np.ndarray  # [K^T] p(z | a_1..a_T)
    log_likelihood: float  # log p(a_1..a_T)
    smoothed: np.ndarray  # [T, K] P(z_t = k | a_1..a_T)
    filtered: np.ndarray  # [T, K] P(z_t = k | a_1..a_t)
    predictive: np.ndarray  # [T, K] P(z_t = k | a_1..a_{t-1})
    pairs: np.ndarray  # [T-1, K, K] P(z_t = j, z_{t+1} = k | a_1..a_T)
    counts: np.ndarray  # [K, S, A] expected number of times that motive k chose a in s, of recorded choices
    start_counts: np.ndarray  # [C, K] expected number of starts in context c with motive k
    transition_counts: np.ndarray  # [C, K, K] expected number of times that k followed j, leaving context c
    switches: np.ndarray  # [T] P(number of t with z_{t+1} != z_t is n | a_1..a_T)
    action_probabilities: np.ndarray  # [T, A] P(a_t = a | a_1..a_{t-1})
    taken: np.ndarray  # [T] the same of the action taken: 1 where none was recorded, so that their product is p(a)


def enumerate_assignments(states, actions, log_policies, start_rows, rows, contexts):
    """Assignments of one segment, each by a sum over all K^T sequences of motives."""
    length, num_motives = len(states), len(log_policies)
    z = all_sequences(num_motives, length)
    joint = log_joint(z, states, actions, log_policies, start_rows, rows, contexts)
    log_likelihood = float(special.logsumexp(joint))
    assert np.isfinite(log_likelihood), "no sequence of motives explains these choices"
    probabilities = np.exp(joint - log_likelihood)

    is_motive = (z[:, :, None] == np.arange(num_motives)).astype(float)  # [K^T, T, K]
    smoothed = np.einsum("z,ztk->tk", probabilities, is_motive)
    pairs = np.einsum("z,ztj,ztk->tjk", probabilities, is_motive[:, :-1], is_motive[:, 1:])
    filtered, predictive = np.zeros((2, length, num_motives))
    action_probabilities, taken = np.zeros((length, np.shape(log_policies)[2])), np.zeros(length)
    prior = np.exp(log_prior(z, start_rows, rows, contexts))
    choices = np.exp(log_choices(z, states, actions, log_policies))
    for t in range(length):
        before = prior * choices[:, :t].prod(axis=1)  # p(z, a_1..a_{t-1})
        after = before * choices[:, t]  # p(z, a_1..a_t)
        predictive[t] = before @ is_motive[:, t] / before.sum()
        filtered[t] = after @ is_motive[:, t] / after.sum()
        action_probabilities[t] = predictive[t] @ np.exp(log_policies[:, states[t]])
        taken[t] = after.sum() / before.sum()
    counts, start_counts, transition_counts = (np.zeros(np.shape(like)) for like in (log_policies, start_rows, rows))
    start_counts[contexts[0]] += smoothed[0]
    for t in range(length):
        if actions[t] >= 0:
            counts[:, states[t], actions[t]] += smoothed[t]
        if t < length - 1:
            transition_counts[contexts[t]] += pairs[t]
    switches = np.bincount((z[:, 1:] != z[:, :-1]).sum(axis=1), weights=probabilities, minlength=length)
    of_steps, expected = (smoothed, filtered, predictive, pairs), (counts, start_counts, transition_counts)
    return Assignments(z, probabilities, log_likelihood, *of_steps, *expected, switches, action_probabilities, taken)


def marginal_log_likelihood(
    theta, features, transitions, discount, inverse_temperature, soft, segments, start_rows, rows, available=None
):
    """log p(choices | theta, A, B) of one unit, for finite differences in theta[K, D] or in the rows.

    Rewards are features @ theta_k, with features [S, D] or [S, A, D]; segments are triples (states, actions, contexts).
    """
    rewards = np.array([on_pairs(np.asarray(features) @ weights, transitions) for weights in np.asarray(theta)])
    logs = log_policies_of(transitions, rewards, discount, inverse_temperature, soft, available)
    total = 0.0
    for states, actions, contexts in segments:
        joint = log_joint(all_sequences(len(logs), len(states)), states, actions, logs, start_rows, rows, contexts)
        total += float(special.logsumexp(joint))
    return total


def simulate(rng, transitions, policies, start_rows, rows, context_of, length, state, unrecorded=0.0):
    """One segment from a state on: states, actions, contexts (context_of[S] has those of states) and motives, each [T].

    Actions are -1 with probability unrecorded. They were taken: p(a | z) leaves out what the states after them say.
    """
    states, actions, motives = np.zeros((3, length), dtype=int)
    chances = start_rows[context_of[state]]
    for t in range(length):
        states[t], motives[t] = state, rng.choice(len(policies), p=chances)
        actions[t] = rng.choice(policies.shape[2], p=policies[motives[t], state])
        chances = rows[context_of[state], motives[t]]
        state = rng.choice(len(transitions), p=transitions[state, actions[t]])
    actions[rng.random(length) < unrecorded] = -1
    return states, actions, np.asarray(context_of)[states], motives


# ---------------------------------------------------------------------------------------------- exact posteriors


@dataclass(frozen=True, eq=False)
class Problem:
    """Two motives of one unit, everything known but theta, the rows and the motives."""

    transitions: np.ndarray  # [S, A, S]
    feature: np.ndarray  # [S] or [S, A]: the reward of motive k is theta_k * feature
    discount: float
    inverse_temperature: float
    soft: bool
    segments: tuple  # of (states, actions, contexts); contexts are numbered from 0, and not read without concentration
    stickiness: float
    concentration: float | None = None  # of contexts about the root; None: the root is the one context
    mean: float = 0.0
    scale: float = 1.0  # theta_k ~ Normal(mean, scale)
    available: np.ndarray | None = None  # [S, A]


@dataclass(frozen=True, eq=False)
class Posterior:
    """Steps are those of all segments, one after the other: N in all. Rows are [nodes, 3, 2]: of the root, then of each
    context; from motive 0, from motive 1, and start; to motives 0 and 1. Motives have no names, so that theta_0 and
    theta_1 have the same posterior; what is called ordered names them anew, so that theta_0 < theta_1.
    """

    log_evidence: float
    mean: np.ndarray  # [2] of theta_0 and theta_1
    variance: np.ndarray
    ordered_mean: np.ndarray  # [2] of the smaller and of the larger theta
    ordered_variance: np.ndarray
    rows_mean: np.ndarray
    rows_variance: np.ndarray
    ordered_rows_mean: np.ndarray
    ordered_rows_variance: np.ndarray
    together: np.ndarray  # [N, N] P(z_t = z_u)
    larger: np.ndarray  # [N] P(z_t is the motive with the larger theta)
    switches: np.ndarray  # [1 + N - number of segments] P(n switches inside segments, all together)


def exact_posterior(problem, order=12):
    """The posterior of a problem by enumeration and quadrature, with order nodes in each panel of theta.

    Unknown stickiness or concentration: average over a grid of them, weighted by prior times exp(log_evidence).
    """
    lengths = [len(states) for states, _, _ in problem.segments]
    z = all_sequences(2, sum(lengths))
    log_weights, row_moments = integrated_rows(z, problem)
    low_high, log_masses = ordered_pairs(problem.mean, problem.scale, order)
    values, index = np.unique(low_high, return_inverse=True)
    steps = step_log_probabilities(problem, values)[index.reshape(low_high.shape)]  # [pairs, low or high, N]
    mass = np.zeros((2, len(z)))  # p(z, a, theta_0 < theta_1), and p(z, a, theta_1 < theta_0)
    density = np.zeros((2, len(low_high)))  # the same by pairs of theta
    width = BLOCK // len(z) + 1
    for start in range(0, len(low_high), width):
        block = slice(start, start + width)
        low, high = steps[block, 0].T, steps[block, 1].T
        for motive_of_low in range(2):
            with_low = (z == motive_of_low).astype(float)
            joint = np.exp(with_low @ low + (1 - with_low) @ high + log_masses[block] + log_weights[:, None])
            mass[motive_of_low] += joint.sum(axis=1)
            density[motive_of_low, block] = joint.sum(axis=0)
    evidence = mass.sum()
    mass, density = mass / evidence, density / evidence
    of_sequence = mass.sum(axis=0)
    moments = [density[0] @ low_high**power + density[1] @ low_high[:, ::-1] ** power for power in (1, 2)]
    ordered_moments = [density.sum(axis=0) @ low_high**power for power in (1, 2)]
    rows = np.tensordot(of_sequence, row_moments, axes=1)
    renamed = row_moments[:, :, :, [1, 0, 2], ::-1]
    ordered_rows = np.tensordot(mass[0], row_moments, axes=1) + np.tensordot(mass[1], renamed, axes=1)
    found = moments, ordered_moments, rows, ordered_rows  # first and second moments of each
    switches = sum((part[:, 1:] != part[:, :-1]).sum(axis=1) for part in np.split(z, np.cumsum(lengths)[:-1], axis=1))
    return Posterior(
        float(np.log(evidence)),
        *(part for first, second in found for part in (first, second - first**2)),
        together=np.einsum("z,ztu->tu", of_sequence, z[:, :, None] == z[:, None, :]),
        larger=mass[0] @ z + mass[1] @ (1 - z),
        switches=np.bincount(switches, weights=of_sequence, minlength=1 + sum(lengths) - len(lengths)),
    )


def step_log_probabilities(problem, thetas):
    """log pi(a_t | s_t) for the reward theta * feature, [thetas, N]: 0 where no action was recorded."""
    rewards = thetas[:, None, None] * on_pairs(problem.feature, problem.transitions)
    shared = problem.discount, problem.inverse_temperature, problem.soft, problem.available
    logs = log_policies_of(problem.transitions, rewards, *shared)
    states, actions = (np.concatenate([segment[part] for segment in problem.segments]) for part in (0, 1))
    return np.where(actions >= 0, logs[:, states, actions], 0.0)


def ordered_pairs(mean, scale, order):
    """Nodes of low < high, [pairs, 2], and log masses of the prior of (low, high) as (theta_0, theta_1)."""
    ends = np.unique([0.0, *(mean + scale * PANELS)])
    nodes, weights = np.polynomial.legendre.leggauss(order)
    u, v = (grid.ravel() for grid in np.meshgrid((1 + nodes) / 2, (1 + nodes) / 2, indexing="ij"))
    products = np.outer(weights, weights).ravel() / 4
    pairs, log_masses = [], []
    for i, j in itertools.combinations_with_replacement(range(len(ends) - 1), 2):
        first, second = ends[i + 1] - ends[i], ends[j + 1] - ends[j]
        # both in one panel: high = end + width u, low = end + width u v, whose Jacobian is width^2 u
        low, jacobian = (u * v, u) if i == j else (v, 1.0)
        pairs.append(np.stack([ends[i] + first * low, ends[j] + second * u], axis=1))
        log_masses.append(np.log(products * first * second * jacobian))
    pairs = np.concatenate(pairs)
    return pairs, np.concatenate(log_masses) + stats.norm.logpdf(pairs, mean, scale).sum(axis=1)


def integrated_rows(z, problem):
    """log p(z) with the rows integrated out, [Z], and E[A | z], E[A^2 | z] of all rows, [Z, 2, nodes, 3, 2]."""
    counts = row_counts(z, problem.segments)
    log_weights, moments = np.zeros(len(z)), []
    for row in range(3):
        alpha = np.ones(2) + (problem.stickiness * np.eye(2)[row] if row < 2 else 0.0)
        if problem.concentration is None:
            log_weight, moment = integrated_root_row(counts[:, :, row].sum(axis=1), alpha)
        else:
            log_weight, moment = integrated_tree_row(counts[:, :, row], alpha, problem.concentration)
        log_weights += log_weight
        moments.append(moment)
    return log_weights, np.stack(moments, axis=3)


def row_counts(z, segments):
    """How often each motive followed each row of each context in sequences z[Z, N], [Z, C, 3, 2] (row 2: start)."""
    num_contexts = 1 + max(max(contexts) for _, _, contexts in segments)
    counts, every, first = np.zeros((len(z), num_contexts, 3, 2)), np.arange(len(z)), 0
    for _, _, contexts in segments:
        counts[every, contexts[0], 2, z[:, first]] += 1
        for t in range(len(contexts) - 1):
            counts[every, contexts[t], z[:, first + t], z[:, first + t + 1]] += 1
        first += len(contexts)
    return counts


def integrated_root_row(counts, alpha):
    """log probability of counts[Z, 2] that follow one row ~ Dirichlet(alpha), and its moments [Z, 2, 1, 2]."""
    after = alpha + counts
    total = after.sum(axis=1, keepdims=True)
    moments = np.stack([after / total, after * (after + 1) / (total * (total + 1))], axis=1)
    return special.betaln(*after.T) - special.betaln(*alpha), moments[:, :, None]


def integrated_tree_row(counts, alpha, concentration):
    """The same of counts[Z, C, 2] and rows of contexts about a root ~ Dirichlet(alpha): moments [Z, 2, 1 + C, 2]."""
    # degree: no more than all counts, and two for second moments; with g nodes, polynomials of degree 2 g - 1 are exact
    nodes, weights = special.roots_jacobi(int(counts.sum(axis=(1, 2)).max()) // 2 + 2, alpha[1] - 1, alpha[0] - 1)
    root = np.stack([(1 + nodes) / 2, (1 - nodes) / 2], axis=1)  # [G, 2]
    parent = concentration * root[:, None]
    after = parent + counts[:, None]  # [Z, G, C, 2]
    total = concentration + counts.sum(axis=2)[:, None, :, None]  # [Z, 1, C, 1]
    logs = (special.gammaln(after) - special.gammaln(parent)).sum(axis=3)
    logs += (special.gammaln(concentration) - special.gammaln(total))[..., 0]
    log_terms = np.log(weights / weights.sum()) + logs.sum(axis=2)
    log_weights = special.logsumexp(log_terms, axis=1)
    chances = np.exp(log_terms - log_weights[:, None])  # of the root's nodes
    of_contexts = np.stack([after / total, after * (after + 1) / (total * (total + 1))])
    of_contexts = np.einsum("zg,mzgck->zmck", chances, of_contexts)
    of_root = np.einsum("zg,mgk->zmk", chances, np.stack([root, root**2]))
    return log_weights, np.concatenate([of_root[:, :, None], of_contexts], axis=2)

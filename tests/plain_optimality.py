"""A plain, slow oracle for the policy-optimality model: every function says in loops what the mathematics says.

States s, actions a, T[s, a, s'], available[s, a], discount g. A terminal state has T[s] = 0 and no available action.
A reward is rho[s], received in the state one is in, or rho[s, a], which counts for nothing in a terminal state.
The optimality prior beta on [0, inf) is given by survival(x) = beta((x, inf)). A reward j is eps-optimal for a policy
when loss_j < eps (strictly), so eps in (l, l'] admits the same rewards for consecutive distinct losses l < l'.
"""

import itertools
import math

import numpy as np
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

EMPTY = ("condition", "drop", "prior")


def _extreme_value(T, available, g, reward, best):
    """Value iteration from zero, for so many steps that g^n max|rho| / (1 - g) is below 1e-13."""
    reward = np.asarray(reward, dtype=float)
    top = max(1.0, float(np.abs(reward if reward.ndim == 1 else reward[available]).max()))
    steps = 2 if g == 0 else 2 + math.ceil(math.log(1e-13 * (1 - g) / top) / math.log(g))
    value = np.zeros(len(T))
    for _ in range(steps):
        new, future = np.zeros(len(T)), g * (T @ value)
        for s in range(len(T)):
            new[s] = reward[s] if reward.ndim == 1 else 0.0
            if available[s].any():
                pay = future[s] if reward.ndim == 1 else future[s] + reward[s]
                new[s] += best(pay[available[s]])
        value = new
    return value


def optimal_value(T, available, g, reward):
    """V*[S]: the largest value of any policy."""
    return _extreme_value(T, available, g, reward, max)


def worst_value(T, available, g, reward):
    """The smallest value of any policy, [S]."""
    return _extreme_value(T, available, g, reward, min)


def policy_value(T, g, policy, reward):
    """V[S] of one policy: solves (I - g P) V = r. Rows of T in terminal states are zero, so V is the reward there."""
    S, A = policy.shape
    P, r = np.zeros((S, S)), np.zeros(S)
    for s in range(S):
        r[s] = reward[s] if np.ndim(reward) == 1 else 0.0
        for a in range(A):
            P[s] += policy[s, a] * T[s, a]
            if np.ndim(reward) == 2 and policy[s, a] > 0 and T[s, a].any():
                r[s] += policy[s, a] * reward[s, a]
    return np.linalg.solve(np.eye(S) - g * P, r)


def loss_matrix(T, available, g, policies, rewards, scale_free=False):
    """L[i, j] = max_s V*_j(s) - V^i_j(s). Scale-free: over max_s V*_j(s) - Vworst_j(s), and 0 where that is 0."""
    losses = np.zeros((len(policies), len(rewards)))
    for j, reward in enumerate(rewards):
        best = optimal_value(T, available, g, reward)
        spread = float((best - worst_value(T, available, g, reward)).max()) if scale_free else 1.0
        if scale_free and spread <= 1e-11 * max(1.0, float(np.abs(best).max())):
            continue  # no policy matters for this reward: every loss is zero
        for i, policy in enumerate(policies):
            losses[i, j] = max(0.0, float((best - policy_value(T, g, policy, reward)).max())) / spread
    return losses


def _check_measure(measure, empty):
    if empty not in EMPTY or (measure < 0).any() or not measure.sum() > 0:
        raise ValueError(f"the measure must be non-negative with a positive sum, and empty one of {EMPTY}")


def psi(eps, losses, measure):
    """psi(. | eps, policy), [N], or None where no reward of positive measure has a loss below eps."""
    inside = np.where(losses < eps, measure, 0.0)
    return inside / inside.sum() if inside.sum() > 0 else None


def conditional_weights(losses, measure, survival, empty, density, points=()):
    """w_j = integral of psi(j | eps) against the density of beta, by adaptive quadrature between the losses.

    points: further places where the density is not smooth (the ends of its support), or where it has a narrow peak.
    The survival function serves only to check that the quadrature did not miss any mass. All weights are NaN when
    empty is "condition" and beta has no mass above the smallest loss.
    """
    losses, measure = np.asarray(losses, dtype=float), np.asarray(measure, dtype=float)
    _check_measure(measure, empty)
    edges = [*sorted({0.0, *losses.tolist(), *points}), math.inf]
    weights, mass_above = np.zeros(len(losses)), 0.0
    for low, high in itertools.pairwise(edges):

        def integral(f, low=low, high=high):
            return integrate.quad(f, low, high, epsabs=1e-14, epsrel=1e-12, limit=500, full_output=1)[0]

        mass = integral(density)
        if abs(mass - (survival(low) - survival(high))) > 1e-9:
            raise ValueError(f"the density and the survival function disagree on ({low}, {high}]")
        inside = psi(high, losses, measure)  # only to know whether the set is empty, the same on (low, high]
        if inside is None and empty == "prior":
            weights += mass * measure / measure.sum()
        if inside is not None:
            mass_above += mass
            for j in range(len(losses)):
                weights[j] += integral(lambda eps, j=j: psi(eps, losses, measure)[j] * density(eps))
    if empty == "condition":
        return weights / mass_above if mass_above > 0 else np.full(len(losses), np.nan)
    return weights


def conditional_weights_by_sum(losses, measure, survival, empty):
    """The same weights for any beta, atoms too: a sum over rewards j and intervals (l, l'] of consecutive losses."""
    losses, measure = np.asarray(losses, dtype=float), np.asarray(measure, dtype=float)
    _check_measure(measure, empty)
    smallest = min(losses[j] for j in range(len(losses)) if measure[j] > 0)
    levels = sorted(set(losses[losses >= smallest].tolist()))
    weights = np.zeros(len(losses))
    for k, level in enumerate(levels):
        mass = survival(level) - (survival(levels[k + 1]) if k + 1 < len(levels) else 0.0)
        total = measure[losses <= level].sum()
        for j in range(len(losses)):
            if losses[j] <= level:
                weights[j] += mass * measure[j] / total
    if empty == "condition":
        return weights / survival(smallest) if survival(smallest) > 0 else np.full(len(losses), np.nan)
    if empty == "prior":
        weights += (1.0 - survival(smallest)) * measure / measure.sum()
    return weights


def draw_policy(rng, available, counts, concentration):
    """One policy from the product over states of Dirichlet(concentration + counts); terminal states take action 0."""
    policy = np.zeros(available.shape)
    for s in range(len(available)):
        actions = np.flatnonzero(available[s])
        if len(actions) == 0:
            policy[s, 0] = 1.0
        else:
            policy[s, actions] = rng.dirichlet(concentration + counts[s, actions])
    return policy


def algorithm2(rng, T, available, g, counts, rewards, measure, survival, concentration, draws, empty, scale_free=False):
    """Weights[M, N] of the rewards for each task, and the policies[K, M, S, A] they rest on.

    concentration: one number, or one for each of the draws. empty="drop": the unnormalised weights are summed over
    policies and then normalised, task by task.
    """
    M, N = len(counts), len(rewards)
    concentration = np.broadcast_to(np.asarray(concentration, dtype=float), (draws,))
    policies = np.zeros((draws, M, *available.shape))
    for k in range(draws):
        for m in range(M):
            policies[k, m] = draw_policy(rng, available, counts[m], concentration[k])
    weights = np.zeros((M, N))
    for m in range(M):
        losses = loss_matrix(T, available, g, policies[:, m], rewards, scale_free)
        for k in range(draws):
            weights[m] += conditional_weights_by_sum(losses[k], measure, survival, empty) / draws
        if empty == "drop":
            weights[m] = weights[m] / weights[m].sum() if weights[m].sum() > 0 else np.nan
    return weights, policies


def log_dirichlet_multinomial(counts, available, concentration):
    """log p(actions | states, a) of one task: the product over states, of the sequence (no multinomial coefficient)."""
    if np.asarray(counts)[~available].any():
        raise ValueError("an unavailable action was counted")
    total = 0.0
    for s in range(len(available)):
        n = np.asarray(counts)[s, available[s]]
        if len(n) > 0:
            total += gammaln(len(n) * concentration) - gammaln(len(n) * concentration + n.sum())
            total += sum(gammaln(concentration + x) - gammaln(concentration) for x in n)
    return float(total)


def _normalised(logs):
    return np.exp(np.asarray(logs) - logsumexp(logs))


def concentration_posterior(counts_by_task, available, log_prior, grid):
    """Probabilities of the grid points; exp(log_prior(a)) is the prior mass of the point a, up to a constant."""
    return _normalised(
        [log_prior(a) + sum(log_dirichlet_multinomial(c, available, a) for c in counts_by_task) for a in grid]
    )


def policy_given_reward_likelihood(
    rng, T, available, g, counts, rewards, survival, concentration, draws, scale_free=False
):
    """The ratios E[survival(loss) | d_m] / E[survival(loss)], [M, N], and their relative standard errors, [M, N].

    p(d_m | rho_j) is the ratio times p(d_m) under the policy prior alone. The policies of the denominator are drawn
    once, so its error is common to all tasks.
    """

    def mean_and_error(data):
        policies = [draw_policy(rng, available, data, concentration) for _ in range(draws)]
        losses = loss_matrix(T, available, g, policies, rewards, scale_free)
        chances = np.array([[survival(loss) for loss in row] for row in losses])
        mean = chances.mean(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return mean, chances.std(axis=0, ddof=1) / math.sqrt(draws) / mean

    below, error_below = mean_and_error(np.zeros(available.shape))
    ratios, errors = np.zeros((len(counts), len(rewards))), np.zeros((len(counts), len(rewards)))
    for m in range(len(counts)):
        above, error_above = mean_and_error(counts[m])
        ratios[m], errors[m] = above / below, np.sqrt(error_above**2 + error_below**2)
    return ratios, errors


def log_assignment(z, measure, kappa):
    """log p(z | kappa) with omega ~ Dirichlet(kappa * measure) integrated out, one task after another (Polya's urn)."""
    total = 0.0
    for m, j in enumerate(z):
        before = sum(1 for i in z[:m] if i == j)
        chance = measure[j] if m == 0 or math.isinf(kappa) else (kappa * measure[j] + before) / (kappa + m)
        if chance == 0:
            return -math.inf
        total += math.log(chance)
    return total


def shared_posterior(likelihood, measure, kappa):
    """P(z_m = j) [M, N], P(z_0 = z_1) (NaN for one task) and the log evidence, over all N**M assignments."""
    M, N = np.shape(likelihood)
    if abs(np.sum(measure) - 1.0) > 1e-9:
        raise ValueError("the measure must sum to one")
    with np.errstate(divide="ignore"):
        log_likelihood = np.log(np.asarray(likelihood, dtype=float))
    assignments = list(itertools.product(range(N), repeat=M))
    logs = [log_assignment(z, measure, kappa) + sum(log_likelihood[m, z[m]] for m in range(M)) for z in assignments]
    marginals, together = np.zeros((M, N)), 0.0
    for z, p in zip(assignments, _normalised(logs)):
        for m in range(M):
            marginals[m, z[m]] += p
        if M > 1 and z[0] == z[1]:
            together += p
    return marginals, together if M > 1 else math.nan, float(logsumexp(logs))


def kappa_posterior(likelihood, measure, log_prior, grid):
    """Probabilities of the grid points of kappa; exp(log_prior(kappa)) is the prior mass of a point."""
    return _normalised([log_prior(kappa) + shared_posterior(likelihood, measure, kappa)[2] for kappa in grid])


# ---------------------------------------------------------------- self-check: python tests/plain_optimality.py


def _check_values(rng):
    """Best and worst values against all deterministic policies, with a terminal state and a missing action."""
    worst = 0.0
    for shape, g in itertools.product(((4, 4), (4, 4, 3)), (0.0, 0.5, 0.95)):
        T, available, rewards = (
            rng.dirichlet(np.ones(4), size=(4, 3)),
            np.ones((4, 3), dtype=bool),
            rng.normal(size=shape),
        )
        available[0, 1] = available[3] = False
        T[~available] = 0.0
        choices = [np.flatnonzero(row) if row.any() else [0] for row in available]
        policies = [np.eye(3)[list(c)] for c in itertools.product(*choices)]
        for reward in rewards:
            values = np.array([policy_value(T, g, policy, reward) for policy in policies])
            worst = max(worst, np.abs(values.max(axis=0) - optimal_value(T, available, g, reward)).max())
            worst = max(worst, np.abs(values.min(axis=0) - worst_value(T, available, g, reward)).max())
        losses = loss_matrix(T, available, g, policies, rewards, scale_free=True)
        worst = max(worst, losses.min(axis=0).max(), losses.max() - 1.0)
    _report("values against all deterministic policies", worst, 1e-11)


def _report(what, worst, limit):
    print(f"{what}: {worst:.2g}, must be below {limit:g}")
    assert worst < limit, what


def _deviation(found, p, error):
    """The largest difference in standard errors; where the error is 0 the two must agree."""
    assert np.all(np.abs(found - p)[error < 1e-12] < 1e-9)
    return float(np.max(np.abs(found - p)[error >= 1e-12] / error[error >= 1e-12], initial=0.0))


def _draw_rewards(rng, eps, losses, measure, empty):
    """One reward for each eps and row of losses; a draw whose set is empty is thrown away, unless empty is "prior"."""
    kept = []
    for e, row in zip(eps, losses):
        p = psi(e, row, measure)
        if p is None and empty == "prior":
            p = measure / measure.sum()
        if p is not None:
            kept.append(rng.choice(len(p), p=p))
    return np.bincount(kept, minlength=len(measure))


def _check_weights(rng, n=2000):
    """Quadrature, double sum, and drawing eps and then a reward, with ties and zeros in the measure."""
    atoms = stats.rv_discrete(values=([0, 1, 2, 5], [0.1, 0.3, 0.2, 0.4]))  # on zero and on losses
    betas = [stats.expon(scale=1.7), stats.gamma(2.5), stats.gamma(0.5, scale=4), stats.halfnorm(scale=2), atoms]
    for beta, least in itertools.product([*betas, stats.uniform(0, 3.3)], (0, 1)):
        losses, measure = (
            np.append(rng.integers(least, 5, size=5), [least, least]).astype(float),
            rng.gamma(1.0, size=7),
        )
        measure[[0, 5]] = 0.0
        gap, worst = 0.0, 0.0
        for empty in EMPTY:
            w = conditional_weights_by_sum(losses, measure, beta.sf, empty)
            if beta is not atoms:
                gap = max(gap, np.abs(w - conditional_weights(losses, measure, beta.sf, empty, beta.pdf, (3.3,))).max())
            found = _draw_rewards(rng, beta.rvs(size=n, random_state=rng), [losses] * n, measure, empty)
            total = n if empty == "drop" else found.sum()
            worst = max(worst, _deviation(found / total, w, np.sqrt(w * (1 - w) / total)))
            gap = max(gap, abs(w.sum() - (beta.sf(losses[measure > 0].min()) if empty == "drop" else 1.0)))
        name = "atoms" if beta is atoms else beta.dist.name
        _report(f"weights, {name}, quadrature - double sum", gap, 1e-10)
        _report(f"weights, {name}, standard errors from drawing eps and a reward", worst, 4)


def _check_stories(rng, n=20000, draws=2000, rate=2.0):
    """Both factorisations by drawing policy, eps, reward and actions forwards, and keeping the data that were seen."""
    T, available, g = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.1, 0.9]]]), np.ones((2, 2), dtype=bool), 0.6
    rewards = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]], [[0.8, 0.0], [0.0, 3.0]]])
    measure, counts = np.array([0.3, 0.2, 0.5]), np.array([[[0, 0], [1, 1]]])

    def survival(x):
        return math.exp(-rate * x)

    policies = np.array([draw_policy(rng, available, np.zeros((2, 2)), 0.5) for _ in range(n)])
    losses, eps = loss_matrix(T, available, g, policies, rewards), rng.exponential(1 / rate, size=n)
    seen = (rng.random((n, 2)) < policies[:, [1, 1], [0, 1]]).all(axis=1)
    for empty in EMPTY:
        e = eps + losses.min(axis=1) * (empty == "condition")  # given eps > l, an exponential is l + another
        found = _draw_rewards(rng, e[seen], losses[seen], measure, empty)
        w = algorithm2(rng, T, available, g, counts, rewards, measure, survival, 0.5, draws, empty)[0][0]
        error = np.sqrt(w * (1 - w) * (1 / found.sum() + 1 / draws))  # a bound (for "drop", roughly)
        _report(f"algorithm2, {empty}, standard errors", _deviation(found / found.sum(), w, error), 4)
    ratios, errors = policy_given_reward_likelihood(rng, T, available, g, counts, rewards, survival, 0.5, draws)
    p = math.exp(log_dirichlet_multinomial(counts[0], available, 0.5)) * ratios[0]
    accepted = losses < eps[:, None]
    found, total = (accepted & seen[:, None]).sum(axis=0), accepted.sum(axis=0)
    error = np.sqrt(p * (1 - p) / total + (p * errors[0]) ** 2)
    _report("p(d | reward), standard errors", _deviation(found / total, p, error), 4)


def _check_sharing(rng, n=200000):
    """Enumeration against drawing omega and z from the prior and accepting with the likelihood."""
    likelihood, measure, worst = rng.random((3, 3)), np.array([0.5, 0.2, 0.3]), 0.0
    for kappa in (0.3, 2.0, 20.0):
        marginals, together, evidence = shared_posterior(likelihood, measure, kappa)
        cumulative = np.cumsum(rng.dirichlet(kappa * measure, size=n), axis=1)
        z = (rng.random((n, 3))[:, :, None] > cumulative[:, None, :2]).sum(axis=2)
        kept = z[rng.random(n) < likelihood[[0, 1, 2], z].prod(axis=1)]
        found = [(kept == j).mean(axis=0) for j in range(3)]
        found = np.array([*np.transpose(found).ravel(), (kept[:, 0] == kept[:, 1]).mean(), len(kept) / n])
        p = np.array([*marginals.ravel(), together, math.exp(evidence)])
        worst = max(worst, _deviation(found, p, np.sqrt(p * (1 - p) / np.array([len(kept)] * 10 + [n]))))
    _report("enumeration against rejection, standard errors", worst, 4)


def _check_concentration(rng):
    """Against scipy's Dirichlet-multinomial (its coefficient does not depend on the concentration)."""
    available = np.array([[True, True, True], [True, False, True], [False, False, False]])
    counts, grid = rng.integers(0, 6, size=(3, 3, 3)) * available, [0.1, 0.5, 1.0, 3.0]
    rows = [c[s, available[s]] for c in counts for s in (0, 1)]
    logs = [sum(stats.dirichlet_multinomial.logpmf(n, np.full(len(n), a), n.sum()) for n in rows) - a for a in grid]
    gap = np.abs(concentration_posterior(counts, available, lambda a: -a, grid) - _normalised(logs)).max()
    _report("concentration against scipy", gap, 1e-12)


if __name__ == "__main__":
    generator = np.random.default_rng(20250101)
    for check in (_check_values, _check_weights, _check_stories, _check_sharing, _check_concentration):
        check(generator)

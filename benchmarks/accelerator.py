"""The loss matrix and the optimality integral on an accelerator: `python -m benchmarks.accelerator`.

K = N = 10⁴ at S = 64 in float32, held against the same in float64 on the CPU.
"""

import json
import time

import jax
import jax.numpy as jnp
import numpy as np

import manymotives as mm
from manymotives.inference.optimality.integral_jax import Device
from manymotives.inference.optimality.rewards_given_policies import _weigh_on_host
from manymotives.planning import PlannedRewards
from manymotives.planning.dense_losses import losses_against

SIZE, STATES, ACTIONS, CHECKED = 10_000, 64, 4, 500


def main() -> None:
    rng = np.random.default_rng(0)
    environment = mm.worlds.RandomMDP(states=STATES, actions=ACTIONS, seed=0)
    rewards = rng.dirichlet(np.ones(STATES), size=SIZE)
    model = mm.PolicyOptimalityModel(rewards, optimality=mm.optimality.ExponentialOptimality(1.0))
    target = model.target(environment, ("a",), np.zeros((1, STATES, ACTIONS)))
    policies = rng.dirichlet(np.ones(ACTIONS), size=(SIZE, STATES))
    uniforms = 1.0 - rng.random((SIZE, 2))
    planned = PlannedRewards.of_rewards(environment, rewards)
    device = Device(target, planned)
    there = [jnp.asarray(each, jnp.float32) for each in (policies, model.reward.weights, uniforms)]

    def milliseconds(work):  # type: ignore[no-untyped-def]
        begin = time.perf_counter()
        jax.block_until_ready(work())
        first = time.perf_counter() - begin
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            jax.block_until_ready(work())
            times.append(1e3 * (time.perf_counter() - begin))
        return {"median": float(np.median(times)), "best": min(times), "first": 1e3 * first}

    found = {
        "device": str(jax.devices()[0].device_kind),
        "jax": jax.__version__,
        "losses_ms": milliseconds(lambda: losses_against(environment, there[0], device.rewards, device.best)),
        "together_ms": milliseconds(lambda: device.weigh_on_device(*there)),
        "with_transfers_ms": milliseconds(lambda: device.weigh(policies, model.reward.weights, uniforms).total),
    }
    exact = planned.losses(policies[:CHECKED])
    single = np.asarray(losses_against(environment, there[0][:CHECKED], device.rewards, device.best), dtype=float)
    here = _weigh_on_host(target, planned)(policies, model.reward.weights, uniforms)
    far = device.weigh(policies, model.reward.weights, uniforms)
    found["largest_loss"] = float(exact.max())
    found["error_of_losses"] = float(np.abs(single - exact).max())
    found["error_of_weights"] = float(np.abs(far.total / far.total.sum() / (here.total / here.total.sum()) - 1).max())
    found["same_reward_drawn"] = float((far.drawn == here.drawn).mean())
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

"""Structural models of statsmodels' `UnobservedComponents` at given parameters, for the test of the state-space model.

Writes the evidence, the forecast and the components of each case: `python structural.py > ../../tests/models/structural.json`
(requirements-series.txt). A walk of our kernels has a prior at its first row, where theirs is diffuse, and an
integrated walk moves between rows too, so these two matrices are given; all else is theirs.
"""

import json

import numpy as np
from statsmodels.tsa.statespace.structural import UnobservedComponents

ROWS, AHEAD, MISSING = 60, 12, [7, 8, 31]
NOISE = 0.3
t = np.arange(1.0, ROWS + AHEAD + 1)
rng = np.random.default_rng(4)
y = 3 + 0.05 * t[:ROWS] + np.cumsum(rng.normal(0, 0.2, ROWS)) + 2 * np.sin(2 * np.pi * t[:ROWS] / 12)
y = np.round(y + rng.normal(0, 0.5, ROWS), 3)
seen = np.array([i not in MISSING for i in range(ROWS)])


def case(name, kernel, parts, parameters, prior, walk=None, **options):
    """`parts`: for each summand of the kernel, the states that it observes with weight one."""
    model = UnobservedComponents(np.where(seen, y, np.nan), **options)
    model.loglikelihood_burn = 0
    assert set(model.param_names) == set(parameters), (model.param_names, parameters)
    model.update([parameters[name] for name in model.param_names])
    if walk is not None:
        model.ssm["state_cov", : len(walk), : len(walk)] = walk
    k = model.k_states
    assert prior.shape == (k, k), (prior.shape, k)
    model.ssm.initialize_known(np.zeros(k), prior)
    result = model.ssm.smooth()
    assert np.array_equal(np.flatnonzero(model.ssm["design", 0, :]), np.sort(np.concatenate([p for p in parts.values()])))
    a, p = result.predicted_state[:, -1], result.predicted_state_cov[:, :, -1]
    design, move, select = (model.ssm[key] for key in ("design", "transition", "selection"))
    noise = select @ model.ssm["state_cov"] @ select.T
    mean, variance = [], []
    for _ in range(AHEAD):
        mean.append((design @ a).item())
        variance.append((design @ p @ design.T).item() + NOISE)
        a, p = move @ a, move @ p @ move.T + noise
    components = {part: result.smoothed_state[states].sum(0)[seen].tolist() for part, states in parts.items()}
    return {"case": name, "kernel": kernel, "evidence": result.llf_obs.sum(), "mean": mean, "variance": variance,
            "components": components}


def block(*blocks):
    size = sum(len(b) for b in blocks)
    whole, at = np.zeros((size, size)), 0
    for b in blocks:
        whole[at : at + len(b), at : at + len(b)] = b
        at += len(b)
    return whole


def walking(variance, lengthscale, origin):
    """The variance of a walk at the first row, and what a step adds."""
    return variance * (1 + (t[0] - origin) / lengthscale), variance / lengthscale


level, step = walking(2.0, 30.0, -10.0)
wave, turn = walking(1.5, 200.0, -10.0)
half, half_turn = walking(0.4, 300.0, -10.0)
slope = 0.01
drift = np.array([[level + slope * t[0] ** 2, slope * t[0]], [slope * t[0], slope]])
phi = np.exp(-1 / 2.5)
season = "cosine_sum(lengthscale=12) * wiener(lengthscale=200, variance=1.5, origin=-10)"
short = "cosine_sum(lengthscale=6) * wiener(lengthscale=300, variance=0.4, origin=-10)"
walk = "wiener(lengthscale=30, variance=2, origin=-10)"
cases = [
    case(
        "a level with a drift, a season of two waves, an autoregressive part",
        f"{walk} + linear(variance=0.01) + {season} + {short} + matern12(lengthscale=2.5, variance=0.6)",
        {"2": [2], "3": [4], "4": [6]} | {"trend": [0]},
        {"sigma2.irregular": NOISE, "sigma2.level": step, "sigma2.freq_seasonal_12(1)": turn,
         "sigma2.freq_seasonal_6(1)": half_turn, "sigma2.ar": 0.6 * (1 - phi**2), "ar.L1": phi},
        block(drift, wave * np.eye(2), half * np.eye(2), [[0.6]]),
        level="lldtrend",
        freq_seasonal=[{"period": 12, "harmonics": 1}, {"period": 6, "harmonics": 1}],
        autoregressive=1,
    ),
]
q, d = 0.5 / 40.0**3, t[0] + 10.0
smooth = np.array([[1 + d**2 / 40**2, d / 40**2], [d / 40**2, 1 / 40**2]]) * 0.5
smooth += q * np.array([[d**3 / 3, d**2 / 2], [d**2 / 2, d]])
cases.append(
    case(
        "a local linear trend and a season",
        f"{walk} + wiener(order=2, lengthscale=40, variance=0.5, origin=-10) + {season}",
        {"2": [2], "trend": [0]},
        {"sigma2.irregular": NOISE, "sigma2.level": step, "sigma2.trend": q, "sigma2.freq_seasonal_12(1)": turn},
        block(smooth + [[level, 0], [0, 0]], wave * np.eye(2)),
        walk=np.array([[step + q / 3, q / 2], [q / 2, q]]),
        level="lltrend",
        freq_seasonal=[{"period": 12, "harmonics": 1}],
    )
)
print(json.dumps({"noise": NOISE, "t": t[:ROWS][seen].tolist(), "y": y[seen].tolist(), "ahead": t[ROWS:].tolist(),
                  "cases": cases}))

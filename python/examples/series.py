"""A series: kernels as objects, a forecast, the parts of the function, and a maximum found by gradients."""

import numpy as np
from scipy.optimize import minimize

from cagey import GPRegressor
from cagey import kernels as k

rng = np.random.default_rng(1)
month = np.arange(120) / 12
y = 0.5 * month + np.sin(2 * np.pi * month) + 0.2 * rng.normal(size=120)
past, future = slice(0, 96), slice(96, 120)

kernel = k.linear() + k.periodic(period=1.0, fix="period") + k.rbf()
model = GPRegressor(kernel, random_state=0).fit(month[past, None], y[past])
low, high = model.predict_interval(month[future, None]).T
held = np.mean((low < y[future]) & (y[future] < high))
print(f"95 % intervals hold {100 * held:.0f} % of two years ahead")
for name, (mean, _) in model.components(month[past, None]).items():
    print(f"{name:10} moves by {np.ptp(mean):.2f}")


def below(x):
    """Minus the mean of the function, and its gradient in x."""
    mean, _, slope, _ = model.gradients(x[None, :])
    return -mean[0], -slope[0]


top = minimize(below, [8.2], jac=True, bounds=[(8.0, 9.0)])
print(f"the highest month of year 9: {12 * (top.x[0] - 8):.1f}")

assert held > 0.8 and abs(top.x[0] - 8.25) < 0.1

"""Regression with intervals that hold: fit a frame, score held-out rows, draw."""

import sys

import numpy as np
import pandas as pd

import cagey

rng = np.random.default_rng(0)
x = rng.uniform(0, 10, 200)
table = pd.DataFrame({"x": x, "y": np.sin(x) + 0.3 * x + 0.2 * rng.normal(size=200)})

model = cagey.fit(table, target="y", holdout=0.25)
print(model.report_)
new = pd.DataFrame({"x": [2.5, 9.0, 12.0]})
print(new.join(pd.DataFrame(model.predict_interval(new, level=0.95), columns=["lower", "upper"])))
if len(sys.argv) > 1:
    model.plot().save(sys.argv[1])

assert model.report_["scores"]["coverage_95"] > 0.85

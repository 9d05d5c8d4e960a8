#!/usr/bin/env python3
"""The Python package beside its peers, on the same rows and kernel: seconds, memory, scores of held-out rows.

    pip install -r requirements-python.txt ../../python
    python python_peers.py                  all tables, as Markdown
    python python_peers.py optimum [ROWS]   where cagey and scikit-learn end from the same start, and how soon
    python python_peers.py row              one row: microseconds of a prediction
    python python_peers.py run TABLE WHO    one fit, as JSON
    PEERS_THREADS=2 python …                two threads for each, seconds by the clock

Tables are scikit-learn's own, and waves with noise. Every kernel is the squared exponential with a lengthscale for each
column, with learned noise; only `cagey, default` chooses for itself. Each fit has a process of its own and one thread;
seconds are of the processor, and memory is its peak above that of the imports. NLPD: minus the mean log density of
standardised held-out targets, or the log loss of classes; the last column is the share of them in 95 % intervals, or
the accuracy.
"""
import json
import os
import resource
import subprocess
import sys
import time
import warnings

COUNT = os.environ.get("PEERS_THREADS", "1")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "CAGEY_THREADS")
for name in THREADS:
    os.environ[name] = COUNT

import numpy as np

warnings.simplefilter("ignore")
clock = time.process_time if COUNT == "1" else time.perf_counter

REGRESSION = ["scikit-learn", "GPyTorch", "GPBoost", "egobox", "cagey, same kernel", "cagey, default"]
CLASSES = ["scikit-learn", "GPyTorch", "GPBoost", "cagey, same kernel", "cagey, default"]
TABLES = {
    "diabetes": REGRESSION,
    "waves 1000": REGRESSION,
    "waves 2000": REGRESSION,
    "breast_cancer": CLASSES,
    "iris": ["scikit-learn", "cagey, same kernel", "cagey, default"],
}


def table(name):
    """Training and held-out rows, standardised by the training rows."""
    if name.startswith("waves"):
        rng = np.random.default_rng(0)
        n = int(name.split()[1])
        X = rng.normal(size=(n + 500, 4))
        y = np.sin(2 * X[:, 0]) + X[:, 1] * np.cos(X[:, 2]) + 0.2 * rng.normal(size=len(X))
        X, X_test, y, y_test = X[:n], X[n:], y[:n], y[n:]
    else:
        from sklearn import datasets
        from sklearn.model_selection import train_test_split

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    mean, sd = X.mean(axis=0), X.std(axis=0)
    if len(np.unique(y)) > 10:
        y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()
    return (X - mean) / sd, (X_test - mean) / sd, y, y_test


def kernel(d, noise):
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    own = ConstantKernel(1.0, (1e-5, 1e5)) * RBF(np.ones(d), (1e-3, 1e5))
    return own + WhiteKernel(0.1, (1e-6, 1e2)) if noise else own


# Each peer imports what it needs, then returns a function that fits; that returns one that predicts mean and standard
# deviation of new targets, or probabilities of classes.


def scikit_learn(d, classes):
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor

    if classes:
        return lambda X, y: GaussianProcessClassifier(kernel(d, False)).fit(X, y).predict_proba

    def fit(X, y):
        model = GaussianProcessRegressor(kernel(d, True), alpha=0).fit(X, y)
        return lambda new: model.predict(new, return_std=True)

    return fit


def gpytorch(d, classes):
    import gpytorch
    import torch

    torch.set_num_threads(int(COUNT))
    torch.set_default_dtype(torch.float64)

    def covariance():
        return gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=d))

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, X, y, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), covariance()
            self.covar_module.base_kernel.lengthscale = 1.0

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    class Variational(gpytorch.models.ApproximateGP):
        def __init__(self, X):
            own = gpytorch.variational.CholeskyVariationalDistribution(len(X))
            super().__init__(gpytorch.variational.VariationalStrategy(self, X, own, learn_inducing_locations=False))
            self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), covariance()

        forward = Exact.forward

    def fit(X, y):
        X, y = torch.as_tensor(X), torch.as_tensor(y, dtype=torch.float64)
        if classes:
            likelihood, model = gpytorch.likelihoods.BernoulliLikelihood(), Variational(X)
            loss = gpytorch.mlls.VariationalELBO(likelihood, model, len(y))
            optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
            for _ in range(300):
                optimizer.zero_grad()
                (-loss(model(X), y)).backward()
                optimizer.step()
        else:
            likelihood = gpytorch.likelihoods.GaussianLikelihood()
            likelihood.noise = 0.1
            model = Exact(X, y, likelihood)
            model.covar_module.outputscale = 1.0
            loss = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
            optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, line_search_fn="strong_wolfe")

            def closure():
                optimizer.zero_grad()
                value = -loss(model(X), y)
                value.backward()
                return value

            with gpytorch.settings.max_cholesky_size(10**6):
                optimizer.step(closure)
        model.eval(), likelihood.eval()

        def predict(new):
            with torch.no_grad(), gpytorch.settings.max_cholesky_size(10**6):
                found = likelihood(model(torch.as_tensor(new)))
                if classes:
                    one = found.mean.numpy()
                    return np.stack([1 - one, one], axis=1)
                return found.mean.numpy(), found.variance.sqrt().numpy()

        return predict

    return fit


def gpboost(d, classes):
    import gpboost

    def fit(X, y):
        likelihood = "bernoulli_logit" if classes else "gaussian"
        model = gpboost.GPModel(gp_coords=X, cov_function="gaussian_ard", likelihood=likelihood, num_parallel_threads=int(COUNT))
        model.fit(y=y.astype(float))

        def predict(new):
            found = model.predict(gp_coords_pred=new, predict_var=True, predict_response=True)
            if classes:
                return np.stack([1 - found["mu"], found["mu"]], axis=1)
            return found["mu"], np.sqrt(found["var"])

        return predict

    return fit


def egobox(d, classes):
    import egobox

    def fit(X, y):
        # Its exact model has no noise; the sparse one, with many inducing inputs, learns it.
        count = min(len(X), 400)
        model = egobox.SparseGpMix(n_inducing=count, seed=0).fit(X, y)
        return lambda new: (model.predict(new).ravel(), np.sqrt(np.maximum(model.predict_var(new).ravel(), 1e-12)))

    return fit


def cagey(own, classes):
    from cagey import GPClassifier, GPRegressor

    return (GPClassifier if classes else GPRegressor)(own).fit


def fitter(who, d, classes):
    if who.startswith("cagey"):
        return cagey("rbf(ard)" if "same" in who else None, classes)
    return {"scikit-learn": scikit_learn, "GPyTorch": gpytorch, "GPBoost": gpboost, "egobox": egobox}[who](d, classes)


def run(name, who):
    from scipy.stats import norm

    X, X_test, y, y_test = table(name)
    classes = len(np.unique(y)) <= 10
    fit = fitter(who, X.shape[1], classes)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, clock()
    model = fit(X, y)
    seconds = clock() - began
    own = who.startswith("cagey")
    if classes:
        probabilities = model.predict_proba(X_test) if own else model(X_test)
        score = -np.log(probabilities[np.arange(len(y_test)), y_test]).mean()
        last = (probabilities.argmax(axis=1) == y_test).mean()
    elif own:
        low, high = model.predict_interval(X_test).T
        score, last = model.evaluate(X_test, y_test)["nlpd"], ((low < y_test) & (y_test < high)).mean()
    else:
        mean, sd = model(X_test)
        score, last = -norm.logpdf(y_test, mean, sd).mean(), (abs(y_test - mean) < 1.96 * sd).mean()
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
    print(json.dumps({"seconds": seconds, "MB": memory, "score": float(score), "last": float(last)}))


def suite(names):
    print("| table | rows | by | seconds | MB | NLPD | in 95 %, or accuracy |\n|---|---|---|---|---|---|---|")
    for name in names:
        for who in TABLES[name]:
            done = subprocess.run([sys.executable, __file__, "run", name, who], capture_output=True, text=True, timeout=3600)
            rows = len(table(name)[0])
            if done.returncode:
                print(f"| {name} | {rows} | {who} | {done.stderr.strip().splitlines()[-1]} | | | |", flush=True)
                continue
            found = json.loads(done.stdout.strip().splitlines()[-1])
            numbers = f"{found['seconds']:.1f} | {found['MB']:.0f} | {found['score']:.3f} | {found['last']:.3f}"
            print(f"| {name} | {rows} | {who} | {numbers} |", flush=True)


def optimum(*counts):
    """From the same start to the same optimum: scikit-learn's evidence, and cagey's without priors and scales."""
    from cagey import GPRegressor, Objective
    from sklearn.gaussian_process import GaussianProcessRegressor

    raw = {"no_standardize": True, "prior": "none", "init": {"lengthscale": [1.0] * 4, "variance": 1.0, "noise": 0.1}}
    print("| rows | by | one evaluation with gradient, s | fit, s | log evidence |\n|---|---|---|---|---|")
    for n in [int(n) for n in counts] or (1000, 2000):
        X, _, y, _ = table(f"waves {n}")
        own = GPRegressor("rbf(ard)", mean="zero", starts="data", calibrate=False, options=raw)
        other = GaussianProcessRegressor(kernel(4, True), alpha=0)
        start, objective = GaussianProcessRegressor(kernel(4, True), alpha=0, optimizer=None).fit(X, y), Objective(own, X, y)
        once = {
            "scikit-learn": lambda: start.log_marginal_likelihood(start.kernel_.theta, eval_gradient=True),
            "cagey": lambda: objective(objective.theta),
        }
        times = {"scikit-learn": [], "cagey": []}
        for _ in range(3):
            for who, call in once.items():
                began = clock()
                call()
                times[who].append(clock() - began)
        for who, model in (("scikit-learn", other), ("cagey", own)):
            began = clock()
            model.fit(X, y)
            seconds, evidence = clock() - began, model.log_marginal_likelihood_value_
            print(f"| {n} | {who} | {min(times[who]):.3f} | {seconds:.1f} | {evidence:.6f} |", flush=True)


def row():
    """Microseconds of a prediction of one row."""
    from cagey import GPRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor

    print("| training rows | call | µs, median |\n|---|---|---|")
    for n in (10, 1000):
        X, _, y, _ = table(f"waves {n}")
        other = GaussianProcessRegressor(kernel(4, True), alpha=0, optimizer=None).fit(X, y)
        own = GPRegressor("rbf(ard)", starts="data", options={"steps": 5}).fit(X, y)
        one = np.ascontiguousarray(X[:1])
        calls = {
            "scikit-learn, predict": lambda: other.predict(one),
            "cagey, predict": lambda: own.predict(one),
            "cagey, native module": lambda: own.model_.mean(one),
            "cagey, native module, mean and deviation": lambda: own.model_.predict(one),
        }
        times = {name: [] for name in calls}
        for _ in range(2000):
            for name, call in calls.items():
                began = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - began)
        for name, found in times.items():
            print(f"| {n} | {name} | {1e6 * np.median(found):.0f} |", flush=True)


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else "suite"
    if what == "run":
        run(*sys.argv[2:])
    elif what == "optimum":
        optimum(*sys.argv[2:])
    elif what == "row":
        row()
    else:
        suite(sys.argv[2:] or TABLES)

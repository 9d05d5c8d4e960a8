#!/usr/bin/env python3
"""Exact GPs of other libraries on one split: fit, then the test NLPD, to compare with `cagey fit`.

    python exact_accuracy.py gpytorch|sklearn TRAIN.csv TEST.csv

Both tables have a header and the target in the last column. Inputs and target are standardised by the training rows;
the kernel is Matern-3/2 with one lengthscale per column, plus noise; L-BFGS from lengthscales sqrt(d). Prints one JSON line.
"""
import json, sys, time


def main():
    which, train, test = sys.argv[1:4]
    start = time.perf_counter()
    import numpy as np

    load = lambda path: np.loadtxt(path, delimiter=",", skiprows=1)
    train, test = load(train), load(test)
    mean, sd = train.mean(0), train.std(0)
    sd[sd == 0] = 1
    x, xs = [((t - mean) / sd)[:, :-1] for t in (train, test)]
    y, ys = [((t - mean) / sd)[:, -1] for t in (train, test)]
    d = x.shape[1]
    m, v, loss = {"gpytorch": gpytorch, "sklearn": sklearn}[which](x, y, xs, d)
    scale = sd[-1]
    nlpd = float(np.mean(0.5 * ((ys - m) ** 2 / v + np.log(2 * np.pi * v))) + np.log(scale))
    rmse = float(np.sqrt(np.mean((ys - m) ** 2)) * scale)
    print(json.dumps({"library": which, "n": len(x), "d": d, "loss": loss, "nlpd": nlpd, "rmse": rmse,
                      "seconds": time.perf_counter() - start}))


def sklearn(x, y, xs, d):
    import numpy as np
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    kernel = ConstantKernel(1.0) * Matern(np.full(d, d**0.5), (1e-3, 1e5), nu=1.5) + WhiteKernel(0.1)
    gp = GaussianProcessRegressor(kernel).fit(x, y)
    m, s = gp.predict(xs, return_std=True)
    return m, s**2, float(-gp.log_marginal_likelihood_value_ / len(x))


def gpytorch(x, y, xs, d):
    import gpytorch as g, torch
    from scipy.optimize import minimize

    torch.set_default_dtype(torch.float64)
    x, y, xs = map(torch.as_tensor, (x, y, xs))

    class Model(g.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = g.means.ZeroMean()
            self.covar_module = g.kernels.ScaleKernel(g.kernels.MaternKernel(nu=1.5, ard_num_dims=d))

        def forward(self, inputs):
            return g.distributions.MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))

    likelihood = g.likelihoods.GaussianLikelihood(noise_constraint=g.constraints.GreaterThan(1e-6))
    model = Model(likelihood)
    model.covar_module.base_kernel.lengthscale, model.covar_module.outputscale, likelihood.noise = d**0.5, 1.0, 0.1
    mll = g.mlls.ExactMarginalLogLikelihood(likelihood, model)
    parameters = list(model.parameters())

    def objective(flat):
        at = 0
        for p in parameters:
            p.data = torch.as_tensor(flat[at : at + p.numel()]).reshape(p.shape)
            at += p.numel()
            p.grad = None
        with g.settings.cholesky_max_tries(6), g.settings.fast_computations(False, False, False):
            loss = -mll(model(x), y)
        loss.backward()
        return loss.item(), torch.cat([p.grad.reshape(-1) for p in parameters]).numpy()

    start = torch.cat([p.detach().reshape(-1) for p in parameters]).numpy()
    result = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    objective(result.x)
    model.eval(), likelihood.eval()
    with torch.no_grad(), g.settings.fast_computations(False, False, False), g.settings.fast_pred_var(False):
        f = likelihood(model(xs))
    return f.mean.numpy(), f.variance.numpy(), float(result.fun)


main()

//! Sparse grids, compared with single sparse models, the dense definition of their coefficients, and linear predictors.

use cagey::data::{Dataset, Schema};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::kernels::Kernel;
use cagey::means::Mean;
use cagey::models::exact::ExactGp;
use cagey::models::gp_model::GpModel;
use cagey::models::posterior::Posterior;
use cagey::models::prior::Prior;
use cagey::models::sgpr::Sgpr;
use cagey::models::sparse_grid::{Combination, Domain, SparseGrid, SparseGridOptions, SparseGridPosterior};
use cagey::models::{Model, Observations};
use cagey::scope::{Scope, scalar, to_f64};
use cagey::train::TrainConfig;

use crate::{F64, assert_close, check_gradient, data, noise};

const KERNEL: &str = "1.3 * matern32(lengthscale=[0.8, 1.1])";
const POINTS: [f64; 10] = [0.1, -0.4, 1.2, 0.7, -1.5, 0.3, 0.0, 1.9, 3.0, -2.5];

fn grid(data: &Observations, options: SparseGridOptions) -> SparseGrid {
    let prior = Prior { kernel: Kernel::parse(KERNEL, 2).unwrap(), mean: Mean::Zero };
    let mut model = SparseGrid::new(prior, &Domain::of(data), options).unwrap();
    model.likelihood.noise.set(&[0.05]).unwrap();
    model
}

fn level(level: usize) -> SparseGridOptions {
    SparseGridOptions::default().level(level)
}

/// Rows with their own known noise.
fn noisy(n: usize) -> Observations {
    data(n, 2).with_auxiliary(Some((0..n).map(|i| 0.01 * (i % 7) as f64).collect())).unwrap()
}

/// The single sparse models of the partial grids.
fn singles(model: &SparseGrid) -> Vec<Sgpr> {
    let (grids, domain) = (model.grids(), model.domain());
    let single = |grid| {
        let mut single =
            Sgpr::new(model.prior.kernel.clone(), &domain.scaled(&grids.points_of(grid)), grids.d).unwrap();
        single.process.prior = model.prior.clone();
        single.likelihood = model.likelihood.clone();
        single
    };
    grids.all.iter().map(single).collect()
}

fn loss(model: &impl Model, data: &Observations) -> f64 {
    let scope = Scope::new(F64).unwrap();
    scalar(model.objective(&scope, &data.batch(&scope)).unwrap()).unwrap()
}

fn cross(kernel: &Kernel, a: &[f64], b: &[f64]) -> Vec<f64> {
    let scope = Scope::new(F64).unwrap();
    to_f64(kernel.cross(&scope, &scope.matrix(a, a.len() / 2, 2), &scope.matrix(b, b.len() / 2, 2)).unwrap()).unwrap()
}

/// The product A B of row-major matrices.
fn multiply(a: &[f64], b: &[f64], inner: usize, columns: usize) -> Vec<f64> {
    let entry = |row: &[f64], c: usize| row.iter().enumerate().map(|(r, a)| a * b[r * columns + c]).sum();
    a.chunks(inner).flat_map(|row| (0..columns).map(move |c| entry(row, c))).collect()
}

#[test]
fn each_partial_grid_is_a_sparse_model() {
    let data = noisy(50);
    let mut model = grid(&data, level(3));
    model.prior.mean = Mean::named("constant", 2).unwrap();
    let posterior = model.posterior(F64, data.clone()).unwrap();
    let means = posterior.partial_means(&POINTS).unwrap();
    for (single, own) in singles(&model).iter().zip(means.chunks(5)) {
        let want = single.posterior(F64, data.clone()).unwrap().predict(&POINTS).unwrap();
        assert_close("means", own, &want.mean, 1e-10);
    }
    // The combined mean is the weighted sum of theirs.
    let coefficients = posterior.coefficients();
    let sum = |at: usize| coefficients.iter().zip(means.chunks(5)).map(|(c, own)| c * own[at]).sum();
    assert_close("mean", &posterior.mean(&POINTS).unwrap(), &(0..5).map(sum).collect::<Vec<f64>>(), 1e-10);
}

#[test]
fn objectives_are_those_of_sparse_models() {
    let data = noisy(50);
    let union = grid(&data, level(3));
    assert_close("union", &[loss(&union, &data)], &[loss(&union.union().unwrap(), &data)], 1e-12);
    check_gradient("bound", &union, &data, 1e-6);
    let all: Vec<f64> = singles(&union).iter().map(|single| loss(single, &data)).collect();
    // The union is at least as good as each part.
    assert!(all.iter().all(|single| loss(&union, &data) <= single + 1e-9));
}

/// A from its definition: f_l = k(·, Ω_l) β_l with β_l = K_ll⁻¹ f_l(Ω_l).
#[test]
fn coefficients_solve_the_normal_equation() {
    let data = noisy(60);
    let model = grid(&data, level(3));
    let posterior = model.posterior(F64, data.clone()).unwrap();
    let (a, b) = posterior.system();
    let count = b.len();
    let f = posterior.partial_means(&data.x).unwrap();
    let weight = |n: usize| 1.0 / (0.05 + data.auxiliary.as_ref().unwrap()[n]);
    let sum = |g: &dyn Fn(usize) -> f64| (0..data.n()).map(|n| weight(n) * g(n)).sum::<f64>();
    let n = data.n();
    let moments: Vec<f64> = (0..count).map(|l| sum(&|r| data.y[r] * f[l * n + r])).collect();
    assert_close("b", b, &moments, 1e-10);
    let (grids, domain) = (model.grids(), model.domain());
    let own: Vec<Vec<f64>> = grids.all.iter().map(|grid| domain.scaled(&grids.points_of(grid))).collect();
    let beta: Vec<Vec<f64>> = (0..count)
        .map(|l| {
            let m = own[l].len() / 2;
            let values = posterior.partial_means(&own[l]).unwrap()[l * m..][..m].to_vec();
            cagey::linalg::Factor::new(cross(&model.prior.kernel, &own[l], &own[l]), "K")
                .map(|factor| {
                    let mut values = values;
                    factor.solve(&mut values).unwrap();
                    values
                })
                .unwrap()
        })
        .collect();
    let matrix: Vec<f64> = (0..count * count)
        .map(|e| {
            let (l, k) = (e / count, e % count);
            let kernel = cross(&model.prior.kernel, &own[l], &own[k]);
            let inner =
                multiply(&multiply(&beta[l], &kernel, beta[l].len(), beta[k].len()), &beta[k], beta[k].len(), 1);
            sum(&|r| f[l * n + r] * f[k * n + r]) + inner[0]
        })
        .collect();
    assert_close("A", a, &matrix, 1e-9);
    assert_close("A c = Σ y f_l", &multiply(a, posterior.coefficients(), count, 1), &moments, 1e-10);
    // Each f_l is a projection in this inner product.
    let diagonal: Vec<f64> = a.iter().step_by(count + 1).copied().collect();
    assert_close("b = diag A", &diagonal, &moments, 1e-10);
}

#[test]
fn optimal_coefficients_fit_best() {
    let data = noisy(80);
    for eta in 1..=4 {
        let posterior = grid(&data, level(eta)).posterior(F64, data.clone()).unwrap();
        let technique: Vec<f64> = posterior.inducing_parts().iter().map(|part| part.technique).collect();
        assert_close("Σ c", &[technique.iter().sum::<f64>()], &[1.0], 1e-12);
        let best = posterior.loss(posterior.coefficients());
        assert!(best <= posterior.loss(&technique) + 1e-9, "{eta}");
        for l in 0..technique.len() {
            let single: Vec<f64> = (0..technique.len()).map(|k| f64::from(u8::from(k == l))).collect();
            assert!(best <= posterior.loss(&single) + 1e-9, "{eta} {l}");
        }
        assert!(posterior.optimal().warning().is_none(), "{:?}", posterior.optimal());
    }
}

#[test]
fn level_one_is_the_sparse_model_of_one_point() {
    let data = noisy(40);
    let combinations = [Combination::Opticom, Combination::Ct, Combination::Union];
    for combination in combinations {
        let options = level(1).combination(combination);
        let model = grid(&data, options);
        let single = model.union().unwrap();
        assert_eq!(single.process.len(), 1);
        assert_close("loss", &[loss(&model, &data)], &[loss(&single, &data)], 1e-12);
        let (got, want) = (model.condition(F64, data.clone()).unwrap(), single.posterior(F64, data.clone()).unwrap());
        let (got, want) = (got.predict(&POINTS).unwrap(), want.predict(&POINTS).unwrap());
        assert_close("mean", &got.mean, &want.mean, 1e-10);
        if combination == Combination::Union {
            assert_close("variance", &got.variance, &want.variance, 1e-10);
        }
    }
}

/// The combined mean is wᵀy. The test gets w from unit targets, and its error under the prior from the kernel alone.
#[test]
fn variances_are_errors_of_a_linear_predictor() {
    let data = noisy(30);
    let (n, t) = (data.n(), POINTS.len() / 2);
    for combination in [Combination::Opticom, Combination::Ct] {
        let model = grid(&data, level(3).combination(combination));
        let posterior = model.posterior(F64, data.clone()).unwrap();
        let w: Vec<f64> = (0..n)
            .flat_map(|i| {
                let y = (0..n).map(|j| f64::from(u8::from(i == j))).collect();
                let unit = data.clone().with_targets(y).unwrap();
                let means = model.posterior(F64, unit).unwrap().partial_means(&POINTS).unwrap();
                let coefficients = posterior.coefficients();
                let sum = |at| coefficients.iter().zip(means.chunks(t)).map(|(c, own)| c * own[at]).sum::<f64>();
                (0..t).map(sum).collect::<Vec<_>>()
            })
            .collect();
        let kernel = &model.prior.kernel;
        let (k, mut gram) = (cross(kernel, &data.x, &POINTS), cross(kernel, &data.x, &data.x));
        (0..n).for_each(|i| gram[i * n + i] += 0.05 + data.auxiliary.as_ref().unwrap()[i]);
        let product = multiply(&gram, &w, n, t);
        let column = |at: usize, f: &[f64], g: &[f64]| (0..n).map(|r| f[r * t + at] * g[r * t + at]).sum::<f64>();
        let want: Vec<f64> = (0..t).map(|at| 1.3 - 2.0 * column(at, &w, &k) + column(at, &w, &product)).collect();
        let found = posterior.predict(&POINTS).unwrap();
        assert_close("variance", &found.variance, &want, 1e-9);
        let mean: Vec<f64> = (0..t).map(|at| (0..n).map(|r| w[r * t + at] * data.y[r]).sum()).collect();
        assert_close("mean", &found.mean, &mean, 1e-9);
        // No linear predictor has a smaller error than the exact GP.
        let mut exact = ExactGp::new(kernel.clone());
        exact.likelihood.noise.set(&[0.05]).unwrap();
        let exact = exact.posterior(F64, data.clone()).unwrap().predict(&POINTS).unwrap();
        assert!(found.variance.iter().zip(&exact.variance).all(|(found, exact)| *found >= exact - 1e-12));
    }
}

#[test]
fn error_bars_wider_than_errors_are_said() {
    let data = data(200, 2);
    let said = |variance: f64, options| {
        let mut model = grid(&data, options);
        model.prior.kernel = Kernel::parse(&format!("{variance} * matern32(lengthscale=[0.8, 1.1])"), 2).unwrap();
        model.posterior(F64, data.clone()).unwrap().remarks(&data.x).unwrap()
    };
    // A prior with less variation than the data.
    assert!(said(1e-4, level(4)).is_empty());
    let wide = said(400.0, level(2));
    assert!(wide.len() == 1 && wide[0].text.contains("times as wide"), "{wide:?}");
}

#[test]
fn rows_outside_are_counted() {
    let data = data(40, 2);
    let posterior: SparseGridPosterior = grid(&data, level(2)).posterior(F64, data.clone()).unwrap();
    assert!(!posterior.remarks(&data.x).unwrap().iter().any(|line| line.text.contains("outside")));
    let said = posterior.remarks(&[0.0, 0.0, 9.0, 0.0, 0.0, -9.0]).unwrap();
    assert!(said[0].text.contains("2 of 3 rows lie outside"), "{said:?}");
    let constant = Observations::new(vec![1.0; 4], 2, vec![0.1, 0.2], None).unwrap();
    assert_eq!(Domain::of(&constant).scaled(&[0.0, 1.0]), [0.5, 1.5]);
}

#[test]
fn many_panels_of_rows_are_one() {
    // More rows than fit in a panel and a chunk of predictions.
    let data = data(4200, 2);
    let model = grid(&data, level(2));
    let posterior = model.posterior(F64, data.clone()).unwrap();
    let singles: Vec<Vec<f64>> = singles(&model)
        .iter()
        .map(|single| single.posterior(F64, data.clone()).unwrap().mean(&POINTS).unwrap())
        .collect();
    assert_close("means", &posterior.partial_means(&POINTS).unwrap(), &singles.concat(), 1e-9);
    let all = posterior.predict(&data.x[..2 * 1500]).unwrap();
    let few = posterior.predict(&data.x[2 * 1400..2 * 1404]).unwrap();
    assert_close("variances", &all.variance[1400..1404], &few.variance, 1e-8);
    assert!(all.variance.iter().all(|v| *v > 0.0) && all.floored == 0);
}

#[test]
fn a_sparse_grid_is_fitted_to_tables_and_saved() {
    let mut state = 11;
    let x: Vec<f64> = (0..240).map(|i| 100.0 * noise(&mut state) + if i % 2 == 0 { 500.0 } else { 0.0 }).collect();
    let y = x.chunks(2).map(|row| 7.0 + (0.05 * row[0]).sin() + (0.04 * row[1]).cos()).collect();
    let table = Dataset::new(["a", "b"], x).unwrap().with_target("y", y).unwrap();
    let registry = Registry::default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.cagey");
    for (combination, store_factor) in [
        (Combination::Opticom, false),
        (Combination::Opticom, true),
        (Combination::Ct, true),
        (Combination::Union, true),
    ] {
        let model = level(3).combination(combination).into();
        let settings = Settings { model, store_factor, ..Settings::default() };
        let config = TrainConfig { steps: 15, ..TrainConfig::default() };
        let fitted = Fitted::fit(Schema::numeric(&table), &table, settings, &config, &registry, &mut []).unwrap();
        fitted.save(&path).unwrap();
        let loaded = Fitted::load(&path).unwrap();
        assert_eq!(fitted.predict(&table).unwrap(), loaded.predict(&table).unwrap(), "{combination:?}");
        assert!(fitted.summary.loss < 1.0, "{combination:?}: {}", fitted.summary.loss);
        // The domain is reported in the units of the data.
        let domain = loaded.model.parameters().into_iter().find(|(path, _)| path == "domain").unwrap().1.values();
        let column = |c: usize| table.x.iter().skip(c).step_by(2);
        assert_close(
            "domain",
            &domain[..2],
            &[column(0).copied().fold(f64::INFINITY, f64::min), column(0).copied().fold(0.0, f64::max)],
            1e-9,
        );
        let outside = Dataset::new(["a", "b"], vec![0.0, 0.0]).unwrap();
        assert!(loaded.remarks(&outside).unwrap()[0].text.contains("1 of 1 rows"));
        assert!(!loaded.posterior().inducing_parts().is_empty());
    }
    let many = Dataset::new(["a", "b", "c", "d", "e", "f"], vec![0.5; 60]).unwrap();
    let many = many.with_target("y", (0..10).map(f64::from).collect()).unwrap();
    let settings = |options: SparseGridOptions| Settings { model: options.into(), ..Settings::default() };
    let fit = |table: &Dataset, settings| {
        Fitted::fit(Schema::numeric(table), table, settings, &TrainConfig::default(), &registry, &mut []).unwrap_err()
    };
    let problem = fit(&many, settings(level(2))).to_string();
    assert!(problem.contains("1 to 5 input columns"), "{problem}");
    let problem = fit(&table, settings(level(20))).to_string();
    assert!(problem.contains("SparseGridOptions::level"), "{problem}");
    let problem = fit(&table, Settings { likelihood: "poisson".into(), ..settings(level(2)) }).to_string();
    assert!(problem.contains("sparse-grid model is for the gaussian"), "{problem}");
}

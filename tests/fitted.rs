//! Models with their data: from a table to predictions, and through a file.

use cagey::data::{ReadOptions, read_training};
use cagey::fitted::{Fitted, Settings};
use cagey::kernels::registry::Registry;
use cagey::train::{Optimizer, TrainConfig};

fn fit(table: &str, settings: Settings) -> (Fitted, cagey::data::Dataset) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    std::fs::write(&path, table).unwrap();
    let (schema, data) = read_training(&path, &ReadOptions::default()).unwrap();
    let config = TrainConfig::new(Optimizer::default(), 10);
    let fitted = Fitted::fit(schema, &data, settings, &config, &Registry::default(), &mut []).unwrap();
    (fitted, data)
}

fn table() -> String {
    let row = |i: usize| {
        let (a, b) = (0.2 * i as f64, (1.3 * i as f64).cos());
        format!("{a},{b},0.1,{}\n", (a.sin() + 0.3 * b + 0.05 * (7.7 * i as f64).sin()).exp())
    };
    format!("a,b,s,y\n{}", (0..40).map(row).collect::<String>())
}

#[test]
fn a_loaded_model_predicts_bit_for_bit_the_same() {
    let settings = |kernel: &str| Settings { kernel: kernel.into(), ..Settings::default() };
    let cases = [
        settings("matern32(ard)"),
        Settings {
            mean: "linear".into(),
            row_column: Some("s".into()),
            ..settings("rbf + 2 * periodic(dims=[0]) * rbf")
        },
        Settings {
            target_transform: cagey::data::TargetTransform::Log,
            priors: vec![("noise".into(), "halfcauchy(1)".parse().unwrap())],
            bounds: vec![("lengthscale".into(), 0.01, 50.0)],
            fix: vec!["variance".into()],
            ..settings("projection(matern52, dim=2) + linear")
        },
        Settings { standardize: false, mean: "constant".into(), ..settings("rq(ard) + white") },
    ];
    for settings in cases {
        let (fitted, data) = fit(&table(), settings);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.cagey");
        fitted.save(&path).unwrap();
        let loaded = Fitted::load(&path).unwrap();
        assert_eq!(loaded.predict(&data).unwrap(), fitted.predict(&data).unwrap());
        assert_eq!(loaded.predict_latent(&data).unwrap(), fitted.predict_latent(&data).unwrap());
        assert_eq!(loaded.leave_one_out().unwrap(), fitted.leave_one_out().unwrap());
        assert_eq!(
            (loaded.settings, loaded.summary, loaded.schema),
            (fitted.settings.clone(), fitted.summary.clone(), fitted.schema.clone())
        );
    }
}

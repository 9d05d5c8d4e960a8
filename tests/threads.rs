//! Predictions and loops in pools whose only thread is busy elsewhere. There is one pool for each process, so each test
//! runs in its own process.

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cagey::data::{Dataset, Schema};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::models::minibatch::Minibatches;
use cagey::models::options::ModelChoice;
use cagey::models::sgpr::SgprOptions;
use cagey::models::svgp::SvgpOptions;
use cagey::models::variational::Covariance;
use cagey::train::TrainConfig;
use rayon::prelude::*;

const CASE: &str = "CAGEY_POOL";

/// Runs `of_threads` of this binary in its own process, with the given kind of pool, for at most a minute.
fn in_process(pool: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["of_threads", "--exact", "--nocapture", "--test-threads=1"]).env(CASE, pool);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if start.elapsed() > Duration::from_secs(60) => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if status.is_none() {
        child.kill().unwrap();
    }
    assert!(status.is_some_and(|status| status.success()), "{pool}: {status:?}");
}

#[test]
fn a_pool_of_the_waiting_thread_alone_is_not_waited_for() {
    in_process("host");
}

#[test]
fn a_started_pool_of_one_helps_loops_of_other_threads() {
    in_process("started");
}

#[test]
fn a_started_pool_of_two_helps_other_threads() {
    in_process("two");
}

/// Fits, saves, loads and predicts, all from this thread.
fn serve(model: ModelChoice) {
    let n = 300;
    let x: Vec<f64> = (0..n).map(|i| 0.05 * i as f64).collect();
    let y = x.iter().map(|x| x.sin()).collect();
    let data = Dataset::new(["x"], x).unwrap().with_target("y", y).unwrap();
    let settings = Settings { model, ..Settings::default() };
    let config = TrainConfig { steps: 3, ..TrainConfig::default() };
    let registry = Registry::default();
    let fitted = Fitted::fit(Schema::numeric(&data), &data, settings, &config, &registry, &mut []).unwrap();
    let fitted = Fitted::from_bytes(&fitted.to_bytes().unwrap(), &registry, None).unwrap();
    let many: Vec<f64> = (0..5000).map(|i| 0.003 * i as f64).collect();
    assert_eq!(fitted.predict_rows(&many).unwrap().len(), many.len());
    assert_eq!(fitted.predict_rows(&[1.0]).unwrap().len(), 1);
    fitted.posterior().predict_joint(&many[..1000]).unwrap();
}

/// The test that the others run in their own processes; by itself it does nothing.
#[test]
fn of_threads() {
    let Ok(pool) = std::env::var(CASE) else { return };
    match pool.as_str() {
        "host" => rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global().unwrap(),
        "started" => cagey::threads::start(Some(1)).unwrap(),
        _ => cagey::threads::start(Some(2)).unwrap(),
    }
    let (done, wait) = mpsc::channel();
    let workers: Vec<_> = (0..3)
        .map(|worker| {
            let (done, pool) = (done.clone(), pool.clone());
            std::thread::spawn(move || {
                serve(match worker {
                    0 => Settings::default().model,
                    1 => SgprOptions::default().inducing(20).into(),
                    _ => SvgpOptions::default()
                        .inducing(20)
                        .covariance(Covariance::Full)
                        .batches(Minibatches::default())
                        .into(),
                });
                // A host whose only thread waits here cannot get its own loops done.
                let sum = || (0..1000u64).into_par_iter().sum::<u64>();
                assert!(pool == "host" || sum() == 499_500);
                done.send(()).unwrap();
            })
        })
        .collect();
    // The pool's own thread waits for the others and does no work for the pool.
    workers.iter().for_each(|_| wait.recv_timeout(Duration::from_secs(50)).unwrap());
    workers.into_iter().for_each(|worker| worker.join().unwrap());
}

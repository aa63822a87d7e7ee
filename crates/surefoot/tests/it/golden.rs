//! The values of the slow reference in `reference/`, which `make golden` writes.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use surefoot::estimator::Regularizer;
use surefoot::features::Boosting;
use surefoot::learn::{Crm, Family, Precision, State};
use surefoot::logs::Eligible;
use surefoot::model::{Logistic, Regression, Statistics};
use surefoot::objective::{Criterion, Objective, ObjectiveParts};
use surefoot::optim::{Adam, Optimiser};
use surefoot::policy::{Basis, Posterior, Scale};
use surefoot::worlds::Truth;
use surefoot::{Algorithm, Contexts, FeatureMap, Lambda, Learner, LinearGaussian, Logs, Policy, Result};

fn golden<T: DeserializeOwned>(name: &str) -> T {
    let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[track_caller]
fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (found - expected).abs();
    assert!(error <= tolerance * (1.0 + expected.abs()), "{what}: {found}, but the reference has {expected}");
}

#[track_caller]
fn assert_all_close<'a>(found: &[f64], expected: impl IntoIterator<Item = &'a Vec<f64>>, tolerance: f64, what: &str) {
    let expected: Vec<f64> = expected.into_iter().flatten().copied().collect();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(&expected).enumerate() {
        assert_close(*f, *e, tolerance, &format!("{what}, entry {i}"));
    }
}

type Params = HashMap<String, f64>;

fn regularizer(name: &str, params: &Params) -> Regularizer {
    let get = |key: &str| params[key];
    match name {
        "ips" => Regularizer::Ips,
        "clipped-propensity" => Regularizer::ClippedPropensity { tau: get("tau") },
        "clipped-weight" => Regularizer::ClippedWeight { max: get("max") },
        "exponential-smoothing" => Regularizer::ExponentialSmoothing { beta: get("beta") },
        "implicit-exploration" => Regularizer::ImplicitExploration { gamma: get("gamma") },
        "power-mean" => Regularizer::PowerMean { lambda: get("lambda"), s: get("s") },
        "shrinkage" => Regularizer::Shrinkage { lambda: get("lambda") },
        "ls" => Regularizer::Ls { lambda: get("lambda") },
        "ls-linear" => Regularizer::LsLinear { lambda: get("lambda") },
        "ls-adjusted" => Regularizer::LsAdjusted { lambda: get("lambda") },
        other => panic!("unknown regularizer {other}"),
    }
}

#[test]
fn every_regularizer_has_the_reference_s_value_and_slope() {
    #[derive(Deserialize)]
    struct Case {
        name: String,
        params: Params,
        p: f64,
        q: f64,
        c: f64,
        h: f64,
        dh_dp: Option<f64>,
    }
    let cases: Vec<Case> = golden("regularizers");
    for Case { name, params, p, q, c, h, dh_dp } in cases {
        let r = regularizer(&name, &params);
        let what = format!("{r:?} at p {p}, q {q}, c {c}");
        assert_close(r.h(p, q, c), h, 1e-13, &what);
        match dh_dp {
            Some(slope) => assert_close(r.dh_dp(p, q, c), slope, 1e-12, &what),
            None => assert!(r.dh_dp(p, q, c).is_infinite(), "{what}"),
        }
    }
}

#[derive(Deserialize)]
struct Gaussian {
    mean: Vec<Vec<f64>>,
    scales: Vec<f64>,
    basis: Option<Vec<Vec<f64>>>,
}

fn scale(sigmas: &[f64], features: usize, shared: bool) -> Scale {
    if shared && sigmas.len() == 1 {
        Scale::Shared(sigmas[0])
    } else {
        assert_eq!(sigmas.len(), features);
        Scale::PerFeature(sigmas.to_vec())
    }
}

fn basis(rows: &[Vec<f64>]) -> Arc<Basis> {
    Arc::new(Basis::new(rows.concat(), rows.len()).unwrap())
}

#[test]
fn the_divergence_of_every_kind_of_posterior_from_every_kind_is_the_reference_s() {
    #[derive(Deserialize)]
    struct Case {
        name: String,
        actions: usize,
        q: Gaussian,
        p: Gaussian,
        kl: f64,
    }
    let posterior = |g: &Gaussian, k: usize| -> Result<Posterior> {
        let made = Posterior::new(k, g.mean.concat(), scale(&g.scales, g.mean.len(), true))?;
        match &g.basis {
            Some(rows) => made.with_basis(basis(rows)),
            None => Ok(made),
        }
    };
    let cases: Vec<Case> = golden("kl");
    for case in cases {
        let (q, p) = (posterior(&case.q, case.actions).unwrap(), posterior(&case.p, case.actions).unwrap());
        assert_close(q.kl(&p).unwrap(), case.kl, 1e-11, &case.name);
    }
}

#[derive(Deserialize)]
struct Log {
    contexts: Vec<Vec<f64>>,
    actions: Vec<u32>,
    propensities: Vec<f64>,
    costs: Vec<f64>,
    eligible: Option<Vec<Vec<u32>>>,
}

impl Log {
    fn logs(&self, actions: usize, sparse: bool) -> Logs {
        let features = self.contexts[0].len();
        let values = self.contexts.concat().iter().map(|&v| v as f32).collect();
        let dense = Contexts::dense(values, features).unwrap();
        let contexts = if sparse { dense.to_sparse() } else { dense };
        let columns = (self.actions.clone(), self.propensities.clone(), self.costs.clone());
        let logs = Logs::new(actions, contexts, columns.0, columns.1, columns.2).unwrap();
        match &self.eligible {
            Some(sets) => logs.with_eligible(Eligible::new(sets).unwrap()).unwrap(),
            None => logs,
        }
    }
}

#[derive(Deserialize)]
struct Setting {
    name: String,
    shape: String,
    exploration: f64,
    mean: Vec<Vec<f64>>,
    log_scales: Vec<f64>,
    prior_mean: Vec<Vec<f64>>,
    prior_scale: f64,
    log: Log,
}

impl Setting {
    fn posteriors(&self) -> (Posterior, Posterior) {
        let k = self.mean[0].len();
        let sigmas: Vec<f64> = self.log_scales.iter().map(|l| l.exp()).collect();
        let scale = scale(&sigmas, self.mean.len(), self.shape == "isotropic");
        let q = Posterior::new(k, self.mean.concat(), scale).unwrap();
        (q, Posterior::new(k, self.prior_mean.concat(), Scale::Shared(self.prior_scale)).unwrap())
    }
}

#[derive(Deserialize)]
struct ObjectiveCase {
    setting: String,
    kind: String,
    regularizer: Option<String>,
    params: Option<Params>,
    gamma: Option<f64>,
    penalty: Option<f64>,
    lambda: Option<f64>,
    value: f64,
    gradient_mean: Vec<Vec<f64>>,
    gradient_log_scales: Vec<f64>,
}

impl ObjectiveCase {
    fn criterion(&self) -> Criterion {
        match self.kind.as_str() {
            "regularized" => {
                let name = self.regularizer.as_deref().unwrap();
                Criterion::Mean { regularizer: regularizer(name, self.params.as_ref().unwrap()) }
            }
            "crm" => {
                let regularizer = Regularizer::ImplicitExploration { gamma: self.gamma.unwrap() };
                Criterion::Penalised { regularizer, penalty: self.penalty.unwrap() }
            }
            "crm-self-normalised" => Criterion::SelfNormalised { penalty: self.penalty.unwrap() },
            other => panic!("unknown kind {other}"),
        }
    }
}

#[derive(Deserialize)]
struct Objectives {
    settings: Vec<Setting>,
    cases: Vec<ObjectiveCase>,
}

/// Calls `check(case, what, objective, parameters, batch)` for every case in both storages.
fn each_objective(mut check: impl FnMut(&ObjectiveCase, &str, &Objective<'_>, &[f64], &[usize])) {
    let Objectives { settings, cases } = golden("objective");
    for case in &cases {
        let setting = settings.iter().find(|s| s.name == case.setting).unwrap();
        let (q, prior) = setting.posteriors();
        for sparse in [false, true] {
            let rounds = [Arc::new(setting.log.logs(q.actions(), sparse))];
            let objective = Objective::new(ObjectiveParts {
                rounds: &rounds,
                total: None,
                criterion: case.criterion(),
                custom: None,
                anchor: &prior,
                shape: &q,
                learn_scale: true,
                lambda: case.lambda,
                exploration: setting.exploration,
                tolerance: 1e-12,
            })
            .unwrap();
            let x = objective.parameters(&q);
            let batch: Vec<usize> = (0..objective.records()).collect();
            let what = format!("setting {}, {:?}, sparse: {sparse}", setting.name, case.criterion());
            check(case, &what, &objective, &x, &batch);
        }
    }
}

#[test]
fn every_objective_has_the_reference_s_value_and_gradient() {
    each_objective(|case, what, objective, x, batch| {
        let mut gradient = vec![f64::NAN; x.len()];
        let value = objective.evaluate(x, batch, &mut gradient).unwrap();
        assert_close(value, case.value, 1e-10, what);
        let expected = case.gradient_mean.iter().chain([&case.gradient_log_scales]);
        assert_all_close(&gradient, expected, 1e-9, what);
    });
}

#[test]
fn every_gradient_is_the_finite_difference() {
    each_objective(|_, what, objective, x, batch| {
        let mut gradient = vec![0.0; x.len()];
        let mut scratch = gradient.clone();
        objective.evaluate(x, batch, &mut gradient).unwrap();
        for i in 0..x.len() {
            let mut at = |e: f64| {
                let mut moved = x.to_vec();
                moved[i] += e;
                objective.evaluate(&moved, batch, &mut scratch).unwrap()
            };
            let difference = (at(1e-4) - at(-1e-4)) / 2e-4;
            assert_close(gradient[i], difference, 2e-6, &format!("{what}, parameter {i}"));
        }
    });
}

#[test]
fn two_rounds_of_every_learner_end_where_the_reference_ends() {
    #[derive(Deserialize)]
    struct AdamSettings {
        learning_rate: f64,
        steps: usize,
    }
    #[derive(Deserialize)]
    struct Prior {
        mean: Vec<Vec<f64>>,
        scale: f64,
    }
    #[derive(Deserialize)]
    struct Round {
        mean: Vec<Vec<f64>>,
        log_scales: Vec<f64>,
        kl: f64,
    }
    #[derive(Deserialize)]
    struct Case {
        algorithm: String,
        shape: String,
        basis: bool,
        exploration: f64,
        variant: Option<String>,
        lambda: Option<f64>,
        rounds: Vec<Round>,
    }
    #[derive(Deserialize)]
    struct Learners {
        adam: AdamSettings,
        gamma: f64,
        penalty: f64,
        prior: Prior,
        basis: Vec<Vec<f64>>,
        logs: Vec<Log>,
        cases: Vec<Case>,
    }
    let golden: Learners = golden("learners");
    let k = golden.prior.mean[0].len();
    for case in &golden.cases {
        let variant = case.variant.as_deref();
        let crm = Crm {
            gamma: (variant != Some("self-normalised")).then_some(golden.gamma),
            penalty: golden.penalty,
            divergence: variant == Some("kl"),
            learn_scale: variant != Some("fixed-scale"),
            ..Crm::default()
        };
        let learner = Learner {
            algorithm: match case.algorithm.as_str() {
                "batch-ls" => Algorithm::BatchLs,
                "seq-ls" => Algorithm::SeqLs,
                "seq-adj-ls" => Algorithm::SeqAdjLs,
                "shift-ls" => Algorithm::ShiftLs,
                "shift-adj-ls" => Algorithm::ShiftAdjLs,
                "crm" => Algorithm::Crm(crm),
                "scrm" => Algorithm::Scrm(crm),
                other => panic!("unknown algorithm {other}"),
            },
            lambda: Lambda::Fixed(case.lambda.unwrap_or(0.3)),
            family: if case.shape == "isotropic" { Family::Isotropic } else { Family::PerFeature },
            optimiser: Optimiser::Adam(Adam {
                learning_rate: golden.adam.learning_rate,
                epochs: golden.adam.steps,
                batch_size: 1000,
                ..Adam::default()
            }),
            precision: Precision::Double,
            tolerance: 1e-12,
            ..Learner::default()
        };
        let mut prior = Posterior::new(k, golden.prior.mean.concat(), Scale::Shared(golden.prior.scale)).unwrap();
        if case.basis {
            let (u, mu) = (&golden.basis, &golden.prior.mean);
            let rotated = |f: usize, a: usize| (0..u.len()).map(|i| u[i][f] * mu[i][a]).sum::<f64>();
            let mean = (0..u.len() * k).map(|i| rotated(i / k, i % k)).collect();
            prior = Posterior::new(k, mean, Scale::Shared(golden.prior.scale)).unwrap();
            prior = prior.with_basis(basis(u)).unwrap();
        }
        let features = FeatureMap::identity(golden.prior.mean.len());
        let first = LinearGaussian::new(features, prior).unwrap().with_exploration(case.exploration).unwrap();
        let mut state = State::new(first);
        // Contexts in another basis are rounded to single precision.
        let tolerance = if case.basis { 1e-6 } else { 1e-9 };
        for (round, (log, expected)) in golden.logs.iter().zip(&case.rounds).enumerate() {
            // The first round dense, the second sparse.
            let (next, done) = learner.step(&state, &log.logs(k, round == 1)).unwrap();
            state = next;
            let what = format!(
                "{} {}, basis {}, e {}, variant {variant:?}, round {round}",
                case.algorithm, case.shape, case.basis, case.exploration
            );
            let q = state.current().posterior();
            assert_all_close(q.mean(), &expected.mean, tolerance, &what);
            let sigmas = match q.scale() {
                Scale::Shared(sigma) => vec![*sigma],
                Scale::PerFeature(sigmas) => sigmas.clone(),
            };
            let logs: Vec<f64> = sigmas.iter().map(|s| s.ln()).collect();
            let log_scales =
                if variant == Some("fixed-scale") { vec![0.0; logs.len()] } else { expected.log_scales.clone() };
            assert_all_close(&logs, [&log_scales], tolerance, &what);
            assert_close(done.kl, (1.0 - case.exploration) * expected.kl, 10.0 * tolerance, &what);
        }
    }
}

#[test]
fn kernel_features_are_the_reference_s() {
    #[derive(Deserialize)]
    struct Case {
        landmarks: Vec<Vec<f32>>,
        contexts: Vec<Vec<f32>>,
        bandwidth: f64,
        features: Vec<Vec<f64>>,
    }
    let cases: Vec<Case> = golden("kernels");
    for case in cases {
        let [known, x] = [&case.landmarks, &case.contexts].map(|x| Contexts::dense(x.concat(), x[0].len()).unwrap());
        let what = format!("{} features of {} landmarks", case.features[0].len(), known.len());
        for x in [x.clone(), x.to_sparse()] {
            let map = FeatureMap::kernel(&known, case.features[0].len(), case.bandwidth).unwrap();
            let phi = map.apply(&x).unwrap();
            let found: Vec<f64> = phi.iter().flat_map(|row| row.values().to_vec()).map(f64::from).collect();
            assert_all_close(&found, &case.features, 1e-6, &what);
        }
    }
}

#[test]
fn trees_are_the_reference_s() {
    #[derive(Deserialize)]
    struct Case {
        actions: usize,
        contexts: Vec<Vec<f32>>,
        action: Vec<u32>,
        reward: Vec<f64>,
        trees: usize,
        leaves: usize,
        shrinkage: f64,
        least_records: usize,
        ridge: f64,
        features: Vec<u32>,
        thresholds: Vec<f32>,
        others: Vec<Vec<f32>>,
        leaf: Vec<Vec<usize>>,
    }
    let cases: Vec<Case> = golden("trees");
    for case in cases {
        let Case { trees, leaves, shrinkage, least_records, ridge, .. } = case;
        let boosting = Boosting { trees, leaves, shrinkage, least_records, ridge, share: 1.0, seed: 1 };
        let [known, x] = [&case.contexts, &case.others].map(|x| Contexts::dense(x.concat(), x[0].len()).unwrap());
        for (known, x) in [(known.clone(), x.clone()), (known.to_sparse(), x.to_sparse())] {
            let map = FeatureMap::trees(&boosting, case.actions, &known, &case.action, &case.reward).unwrap();
            let parts = map.tree_parts().unwrap();
            assert_eq!((parts.features(), parts.thresholds()), (&case.features[..], &case.thresholds[..]));
            for (row, leaves) in map.apply(&x).unwrap().iter().zip(&case.leaf) {
                let mut found = Vec::new();
                row.for_each(|f, v| {
                    found.push(f);
                    assert_close(v, 1.0 / (trees as f64).sqrt(), 1e-7, "the value of a leaf");
                });
                assert_eq!(&found, leaves);
            }
        }
    }
}

/// A policy of the user's own: a table of probabilities.
#[derive(Debug)]
struct Table(Vec<Vec<f64>>);

impl Policy for Table {
    fn actions(&self) -> usize {
        self.0[0].len()
    }

    fn distribution(&self, contexts: &Contexts, _: Option<&Eligible>) -> Result<Vec<f64>> {
        // The single feature of a context is its row in the table.
        Ok(contexts.iter().flat_map(|row| self.0[row.values()[0] as usize].clone()).collect())
    }
}

#[test]
fn the_quantities_of_the_theory_are_the_reference_s() {
    #[derive(Deserialize)]
    struct Gap {
        u: f64,
        delta: f64,
        gamma: f64,
        gamma_k: f64,
    }
    #[derive(Deserialize)]
    struct Case {
        name: String,
        expected_cost: Vec<Vec<f64>>,
        policy: Vec<Vec<f64>>,
        optimal: Vec<u32>,
        risk: f64,
        optimal_risk: f64,
        coverage: f64,
        gaps: Vec<Gap>,
        distance: f64,
    }
    let cases: Vec<Case> = golden("environment");
    for case in cases {
        let n = case.policy.len();
        let contexts = Contexts::dense((0..n).map(|i| i as f32).collect(), 1).unwrap();
        let truth = Truth::table(contexts, case.policy[0].len(), case.expected_cost.concat()).unwrap();
        let policy = Table(case.policy);
        assert_eq!(truth.best(), case.optimal, "{}", case.name);
        assert_close(truth.risk(&policy).unwrap(), case.risk, 1e-14, &case.name);
        assert_close(truth.optimal_risk(), case.optimal_risk, 1e-14, &case.name);
        assert_close(truth.coverage(&policy).unwrap(), case.coverage, 1e-14, &case.name);
        assert_close(truth.distance(&policy).unwrap(), case.distance, 1e-13, &case.name);
        for gap in case.gaps {
            let what = format!("{} at u = {}", case.name, gap.u);
            assert_close(truth.margin(gap.u).unwrap(), gap.delta, 1e-13, &what);
            assert_close(truth.gamma(gap.u, case.coverage).unwrap(), gap.gamma, 1e-11, &what);
            assert_close(truth.gamma_k(gap.u, case.coverage).unwrap(), gap.gamma_k, 1e-11, &what);
        }
    }
}

#[derive(Deserialize)]
struct RoundCase {
    records: usize,
    /// Whether the records have candidates with features.
    candidates: bool,
    fingerprint: String,
}

#[test]
fn every_fingerprint_of_a_round_is_the_reference_s() {
    for case in golden::<Vec<RoundCase>>("fingerprints") {
        let n = case.records;
        let x = (0..n).flat_map(|i| [(i % 7) as f32 / 4.0, -((i % 3) as f32) / 2.0]).collect();
        let size = |i: usize| 1 + i % 3;
        let action = (0..n).map(|i| (i % if case.candidates { size(i) } else { 3 }) as u32).collect();
        let propensity = (0..n).map(|i| (1 + i % 5) as f64 / 8.0).collect();
        let cost = (0..n).map(|i| -((i % 2) as f64) / 2.0).collect();
        let mut logs = Logs::new(3, Contexts::dense(x, 2).unwrap(), action, propensity, cost).unwrap();
        if case.candidates {
            let of = |i: usize| (0..size(i)).flat_map(move |a| [((i + a) % 5) as f32 / 4.0, -((a % 2) as f32) / 2.0]);
            let ends = (0..n).scan(0, |end, i| {
                *end += size(i);
                Some(*end)
            });
            let offsets = std::iter::once(0).chain(ends).collect();
            let rows = Contexts::dense((0..n).flat_map(of).collect(), 2).unwrap();
            logs = logs.with_eligible(Eligible::candidates(offsets, rows).unwrap()).unwrap();
        }
        assert_eq!(logs.fingerprint().to_string(), case.fingerprint, "{n} records, candidates {}", case.candidates);
    }
}

#[test]
fn reward_models_and_their_policies_are_the_reference_s() {
    #[derive(Deserialize)]
    struct Case {
        actions: usize,
        features: Vec<Vec<f32>>,
        action: Vec<u32>,
        reward: Vec<f64>,
        precision: Vec<f64>,
        sizes: Vec<usize>,
        v: f64,
        contexts: Vec<Vec<f32>>,
        mean: Vec<Vec<f64>>,
        noise: f64,
        evidence: f64,
        shared_mean: Vec<Vec<f64>>,
        shared_noise: f64,
        shared_evidence: f64,
        direction: Vec<Vec<f64>>,
        directed_mean: Vec<Vec<f64>>,
        directed_noise: f64,
        directed_evidence: f64,
        directed_offset: f64,
        logistic_mean: Vec<Vec<f64>>,
        logistic_offset: f64,
        directed_logistic_mean: Vec<Vec<f64>>,
        directed_logistic_offset: f64,
        probabilities: Vec<Vec<f64>>,
        best_evidence: f64,
    }
    let cases: Vec<Case> = golden("models");
    for case in cases {
        let p = case.precision.len();
        let what = format!("{} records, {p} features, {} actions", case.reward.len(), case.actions);
        let [phi, x] = [&case.features, &case.contexts].map(|x| Contexts::dense(x.concat(), p).unwrap());
        let mut sums = Statistics::new(case.actions, p).unwrap();
        sums.add(&phi, &case.action, &case.reward).unwrap();
        let model = Regression::default().with_prior(&sums, &case.precision).unwrap();
        assert_all_close(model.mean(), &case.mean, 1e-9, &what);
        assert_close(model.noise(), case.noise, 1e-9, &what);
        assert_close(model.evidence(), case.evidence, 1e-9, &what);
        let shared = Regression { shared: true, ..Regression::default() };
        let shared = shared.with_prior(&sums, &case.precision).unwrap();
        assert_all_close(shared.mean(), &case.shared_mean, 1e-9, &what);
        assert_close(shared.noise(), case.shared_noise, 1e-9, &what);
        assert_close(shared.evidence(), case.shared_evidence, 1e-9, &what);
        let direction = case.direction.concat();
        let directed = Regression { direction: Some(&direction), ..Regression::default() };
        let directed = directed.with_prior(&sums, &case.precision).unwrap();
        assert_all_close(directed.mean(), &case.directed_mean, 1e-9, &what);
        assert_close(directed.noise(), case.directed_noise, 1e-9, &what);
        assert_close(directed.evidence(), case.directed_evidence, 1e-9, &what);
        assert_close(directed.offset(), case.directed_offset, 1e-9, &what);
        let cost = case.reward.iter().map(|r| -r).collect();
        let logs =
            Logs::new(case.actions, phi.clone(), case.action.clone(), vec![0.5; case.reward.len()], cost).unwrap();
        let logs = [Arc::new(logs)];
        for (direction, mean, offset) in [
            (None, &case.logistic_mean, case.logistic_offset),
            (Some(direction.as_slice()), &case.directed_logistic_mean, case.directed_logistic_offset),
        ] {
            let logistic = Logistic { direction, tolerance: 1e-10 };
            let found = logistic.fit(&model, &sums, &FeatureMap::identity(p), &logs).unwrap();
            assert_all_close(found.mean(), mean, 1e-6, &what);
            assert_close(found.offset(), offset, 1e-6, &what);
        }
        // The policy's features in its basis are rounded to single precision.
        let policy = model.policy(&FeatureMap::identity(p), case.v).unwrap();
        assert_all_close(&policy.distribution(&x, None).unwrap(), &case.probabilities, 1e-5, &what);
        let mut start = 0;
        let kinds: Vec<_> = case
            .sizes
            .iter()
            .map(|size| {
                start += size;
                start - size..start
            })
            .collect();
        let found = Regression::default().fit(&sums, &kinds).unwrap().evidence();
        let best = case.best_evidence;
        assert!(found <= best + 1e-3 && found >= best - 0.1, "{what}: {found}, but the largest is {best}");
    }
}

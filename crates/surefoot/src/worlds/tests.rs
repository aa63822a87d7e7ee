//! The simulated worlds behave as documented.

use proptest::prelude::*;

use super::*;
use crate::contexts::{Labelled, Row};
use crate::error::Error;
use crate::features::FeatureMap;
use crate::logs::Eligible;
use crate::policy::{LinearGaussian, Posterior, Scale, Uniform};

/// 400 points around four corners, labelled by the corner.
fn corners() -> Dataset {
    let point = |i: usize| {
        let (x, y) = [(1.0, 0.2), (0.2, 1.0), (-1.0, 0.1), (0.1, -1.0)][i % 4];
        let wobble = |k: usize| ((i * k) as f32).sin() * 0.2;
        [x + wobble(3), y + wobble(7)]
    };
    let split = |range: std::ops::Range<usize>| {
        let labels = range.clone().map(|i| (i % 4) as u32).collect();
        Labelled::new(Contexts::dense(range.flat_map(point).collect(), 2).unwrap(), labels).unwrap()
    };
    Dataset::new("corners", split(0..400), split(400..500)).unwrap()
}

#[test]
fn a_label_bandit_rewards_right_guesses_and_noise_alike() {
    let world = LabelBandit::new(&corners(), 0.2, 1).unwrap();
    assert_eq!((world.interactions(), world.logging_split().len(), world.actions()), (380, 20, 4));
    let uniform = Uniform::new(4).unwrap();
    let logs = world.collect(&uniform, Turn { round: 0, start: 0, n: 380 }).unwrap();
    let (mut right, mut wrong) = ((0.0, 0.0), (0.0, 0.0));
    for i in 0..logs.len() {
        let x = logs.contexts().row(i).values();
        let label = match (x[0].abs() > x[1].abs(), x[0] > 0.0, x[1] > 0.0) {
            (true, true, _) => 0,
            (true, false, _) => 2,
            (false, _, true) => 1,
            (false, _, false) => 3,
        };
        let side = if logs.action()[i] == label { &mut right } else { &mut wrong };
        side.0 -= logs.cost()[i];
        side.1 += 1.0;
    }
    // Four standard deviations of about 95 and 285 Bernoulli draws.
    assert!((right.0 / right.1 - 0.8f64).abs() < 0.17, "{right:?}");
    assert!((wrong.0 / wrong.1 - 0.2f64).abs() < 0.1, "{wrong:?}");
    assert_eq!(logs.propensity(), [0.25; 380]);
    let risk = world.truth(0).unwrap().risk(&uniform).unwrap();
    assert!((risk - -(0.2 + 0.6 * 0.25)).abs() < 1e-12);
    assert!((world.truth(0).unwrap().optimal_risk() + 0.8).abs() < 1e-12);
}

#[test]
fn bandits_share_data_with_unit_rows_and_copy_any_other() {
    let (raw, unit) = (corners(), corners().unit_rows());
    for (data, shares) in [(&raw, false), (&unit, true)] {
        let world = LabelBandit::new(data, 0.2, 1).unwrap();
        let truth = world.truth(0).unwrap();
        let logs = world.collect(&Uniform::new(4).unwrap(), Turn { round: 0, start: 0, n: 380 }).unwrap();
        let of_world = [world.logging_split().contexts(), logs.contexts(), truth.contexts()];
        for (x, source) in of_world.into_iter().zip([data.train(), data.train(), data.test()]) {
            assert!((0..x.len()).all(|i| (x.norm(i) - 1.0).abs() < 1e-6));
            let held = |row: Row<'_>| source.contexts().iter().any(|other| std::ptr::eq(other.values(), row.values()));
            assert!(x.iter().all(|row| held(row) == shares));
        }
    }
}

#[test]
fn the_first_policy_goes_from_uniform_to_trained_with_alpha() {
    let world = LabelBandit::new(&corners(), 0.2, 1).unwrap();
    let truth = world.truth(0).unwrap();
    let accuracy = |alpha| {
        let policy = world.first_policy(FeatureMap::identity(2), alpha).unwrap();
        truth.accuracy(&policy).unwrap()
    };
    assert!((accuracy(0.0) - 0.25).abs() < 1e-9);
    assert!(accuracy(0.2) > 0.26 && accuracy(1.0) > accuracy(0.2) + 0.1);
}

#[test]
fn worlds_have_no_state_and_each_record_is_met_once() {
    let world = LabelBandit::new(&corners(), 0.2, 1).unwrap();
    let uniform = Uniform::new(4).unwrap();
    let collect = |round, start, n| world.collect(&uniform, Turn { round, start, n });
    let (a, b) = (collect(0, 0, 50).unwrap(), collect(0, 0, 50).unwrap());
    assert_eq!((a.action(), a.cost()), (b.action(), b.cost()));
    // Another round draws other actions for the same records.
    assert_ne!(a.action(), collect(1, 0, 50).unwrap().action());
    assert_eq!(collect(2, 379, 1).unwrap().len(), 1);
    assert_eq!(collect(2, 379, 1).unwrap().policy_version(), "2");
    assert_eq!(collect(2, 379, 2).unwrap_err().to_string(), "the interactions should be at most 380, but is 381");
}

#[test]
fn the_synthetic_world_has_the_margin_and_the_coverage_it_was_given() {
    let settings = SyntheticSettings { margin: 0.4, ambiguous: 0.25, seed: 3, ..SyntheticSettings::default() };
    let world = Synthetic::new(settings).unwrap();
    let truth = world.truth(0).unwrap();
    assert!((truth.margin(0.0).unwrap() - 0.2).abs() < 1e-12);
    assert!((truth.margin(0.25).unwrap() - 0.4).abs() < 1e-12);
    assert!((truth.margin(0.24).unwrap() - 0.2).abs() < 1e-12);
    let uniform = world.first_policy(FeatureMap::identity(10), 0.0).unwrap();
    assert!((truth.coverage(&uniform).unwrap() - 0.2).abs() < 1e-9);
    assert!((truth.gamma(0.25, 0.2).unwrap() - 3.0 / (0.4 * 0.75 * 0.2)).abs() < 1e-9);
    assert!((truth.optimal_risk() - -(0.75 * 0.7 + 0.25 * 0.5)).abs() < 1e-12);
}

#[test]
fn the_first_policy_of_the_synthetic_world_takes_any_features() {
    let world = Synthetic::new(SyntheticSettings::default()).unwrap();
    let truth = world.truth(0).unwrap();
    let fourier = FeatureMap::fourier(10, 100, 1.4, 1).unwrap();
    for features in [FeatureMap::identity(10), FeatureMap::identity(10).with_intercept(), fourier] {
        let accuracy = |alpha| truth.accuracy(&world.first_policy(features.clone(), alpha).unwrap()).unwrap();
        assert!((accuracy(0.0) - 0.2).abs() < 1e-9 && accuracy(1.0) > 0.3, "{features:?}");
    }
}

#[test]
fn a_world_can_be_ambiguous_nearly_everywhere() {
    let world = Synthetic::new(SyntheticSettings { ambiguous: 0.9999, ..SyntheticSettings::default() }).unwrap();
    assert!((world.truth(0).unwrap().optimal_risk() + 0.5).abs() < 1e-12);
}

#[test]
fn the_best_policy_of_the_synthetic_world_is_linear() {
    let world = Synthetic::new(SyntheticSettings::default()).unwrap();
    let truth = world.truth(0).unwrap();
    let sharp = world.first_policy(FeatureMap::identity(10), 1e4).unwrap();
    let (risk, accuracy) = truth.evaluate(&sharp).unwrap();
    assert!(accuracy > 0.999 && risk - truth.optimal_risk() < 1e-3, "{accuracy} {risk}");
    // L(pi*, pi) vanishes towards pi*, and Lemma 4.3 bounds it.
    let nearly = world.first_policy(FeatureMap::identity(10), 3.0).unwrap();
    let (near, far) = (truth.distance(&sharp).unwrap(), truth.distance(&nearly).unwrap());
    assert!(near < 0.05 && far > near, "{near} {far}");
    for u in [0.0, 0.1] {
        let gamma = truth.gamma_k(u, truth.coverage(&nearly).unwrap()).unwrap();
        assert!(far <= gamma * (truth.risk(&nearly).unwrap() - truth.optimal_risk()));
    }
}

#[test]
fn costs_of_the_synthetic_world_have_the_expected_mean() {
    let world = Synthetic::new(SyntheticSettings::default()).unwrap();
    let policy = world.first_policy(FeatureMap::identity(10), 2.0).unwrap();
    let logs = world.collect(&policy, Turn { round: 0, start: 0, n: 20_000 }).unwrap();
    let mean = logs.cost().iter().sum::<f64>() / 20_000.0;
    let risk = world.truth(0).unwrap().risk(&policy).unwrap();
    // Four standard deviations of the mean, and of the truth's own sample of 4,000 contexts.
    assert!((mean - risk).abs() < 4.0 * 0.5 / 20_000f64.sqrt() + 0.012, "{mean} {risk}");
}

#[test]
fn contexts_drift_and_costs_given_contexts_do_not() {
    let world = Synthetic::new(SyntheticSettings::drifting()).unwrap();
    let mean = |round| {
        let contexts = world.truth(round).unwrap().contexts().clone();
        let n = contexts.len() as f64;
        [0, 1].map(|f| contexts.iter().map(|row| f64::from(row.values()[f])).sum::<f64>() / n)
    };
    let ([x0, y0], [x5, y5]) = (mean(0), mean(5));
    assert!(x0 > 0.4 && y0.abs() < 0.03, "{x0} {y0}");
    assert!(y5 > 0.4 && x5.abs() < 0.03, "{x5} {y5}");
    let still = Synthetic::new(SyntheticSettings::default()).unwrap();
    let rows = |round| still.truth(round).unwrap().contexts().row(0).values().to_vec();
    assert_eq!(rows(0), rows(7));
}

/// Two contexts, the first twice as frequent as the second, and then the second alone; action 0 is best in the first.
fn finite(seed: u64) -> Finite {
    let contexts = Contexts::dense(vec![1.0, 0.0, 0.0, 1.0], 2).unwrap();
    let truth = |rows: &[usize]| {
        let costs = rows.iter().flat_map(|&i| [[-0.8, -0.1], [-0.3, -0.6]][i]).collect();
        Truth::table(contexts.select(rows), 2, costs).unwrap()
    };
    Finite::new(vec![truth(&[0, 0, 1]), truth(&[1])], seed).unwrap()
}

#[test]
fn the_risk_in_a_finite_world_is_exact() {
    let world = finite(1);
    let uniform = Uniform::new(2).unwrap();
    let risk = |round| world.truth(round).unwrap().risk(&uniform).unwrap();
    assert!((risk(0) - -0.45).abs() < 1e-12 && (risk(1) - -0.45).abs() < 1e-12);
    let sharp = Posterior::new(2, vec![5.0, -5.0, 5.0, -5.0], Scale::Shared(0.1)).unwrap();
    let sharp = LinearGaussian::new(FeatureMap::identity(2), sharp).unwrap();
    let risk = |round| world.truth(round).unwrap().risk(&sharp).unwrap();
    assert!((risk(0) - -(2.0 * 0.8 + 0.3) / 3.0).abs() < 1e-12 && (risk(1) - -0.3).abs() < 1e-12);
}

#[test]
fn a_finite_world_meets_its_contexts_and_costs_as_often_as_it_says() {
    let (world, uniform) = (finite(1), Uniform::new(2).unwrap());
    let logs = world.collect(&uniform, Turn { round: 2, start: 0, n: 30_000 }).unwrap();
    // Records and successes of each context and action.
    let mut seen = [[(0.0, 0.0); 2]; 2];
    for i in 0..logs.len() {
        let x = usize::from(logs.contexts().row(i).values()[1] == 1.0);
        let cell = &mut seen[x][logs.action()[i] as usize];
        *cell = (cell.0 + 1.0, cell.1 - logs.cost()[i]);
    }
    let first = (seen[0][0].0 + seen[0][1].0) / 30_000.0;
    // Four standard deviations of 30,000 and of at least 4,800 draws.
    assert!((first - 2.0 / 3.0f64).abs() < 0.011, "{first}");
    for (seen, expected) in seen.iter().flatten().zip([0.8, 0.1, 0.3, 0.6]) {
        assert!((seen.1 / seen.0 - expected).abs() < 0.029, "{seen:?} {expected}");
    }
}

#[test]
fn phases_of_a_finite_world_come_in_turn_and_luck_is_the_seed_s() {
    let (world, uniform) = (finite(1), Uniform::new(2).unwrap());
    let collect = |world: &Finite, round, start| world.collect(&uniform, Turn { round, start, n: 50 }).unwrap();
    for (round, drifted) in [(0, false), (1, true), (2, false), (3, true)] {
        let logs = collect(&world, round, 0);
        assert_eq!(logs.contexts().iter().all(|row| row.values() == [0.0, 1.0]), drifted);
    }
    let columns = |logs: &Logs| {
        (logs.contexts().to_dense().iter().map(|r| r.values()[0]).collect::<Vec<_>>(), logs.cost().to_vec())
    };
    assert_eq!(columns(&collect(&world, 0, 0)), columns(&collect(&world, 0, 0)));
    assert_ne!(columns(&collect(&world, 0, 0)), columns(&collect(&world, 0, 50)));
    assert_ne!(columns(&collect(&world, 0, 0)), columns(&collect(&finite(2), 0, 0)));
}

#[test]
fn a_slice_of_a_truth_is_the_truth_of_a_slice() {
    let uniform = Uniform::new(2).unwrap();
    let whole = finite(1).truth(0).unwrap();
    let last = whole.slice(2..3).unwrap();
    assert_eq!((last.contexts().len(), last.best()), (1, &[1][..]));
    assert!((last.risk(&uniform).unwrap() - -0.45).abs() < 1e-12 && last.optimal_risk() == -0.6);
    let labels = Truth::two_values(whole.contexts().clone(), 2, vec![0, 1, 1], -0.8, -0.2).unwrap();
    assert_eq!((labels.slice(1..3).unwrap().best(), labels.slice(0..1).unwrap().optimal_risk()), (&[1, 1][..], -0.8));
    assert_eq!(
        whole.slice(1..1).unwrap_err().to_string(),
        "the contexts of a truth should have at least 1 row, but has 0"
    );
}

#[test]
fn impossible_worlds_are_refused() {
    let text = |e: Error| e.to_string();
    let synthetic = |change: fn(&mut SyntheticSettings)| {
        let mut settings = SyntheticSettings::default();
        change(&mut settings);
        text(Synthetic::new(settings).unwrap_err())
    };
    assert_eq!(synthetic(|s| s.actions = 1), "the number of actions should be from 2 to 10000, but is 1");
    assert_eq!(synthetic(|s| s.features = 1), "the number of features should be from 2 to 10000, but is 1");
    assert_eq!(synthetic(|s| s.margin = 0.0), "the margin should be in (0, 1], but is 0");
    assert_eq!(synthetic(|s| s.ambiguous = 1.0), "the ambiguous share should be in [0, 1), but is 1");
    assert_eq!(synthetic(|s| s.drift = f64::NAN), "the drift should be finite, but is NaN");
    assert_eq!(synthetic(|s| s.concentration = -1.0), "the concentration should be at least 0, but is -1");
    assert_eq!(text(LabelBandit::new(&corners(), 0.6, 1).unwrap_err()), "the noise should be in [0, 0.5], but is 0.6");
    let world = Synthetic::new(SyntheticSettings::default()).unwrap();
    let identity = FeatureMap::identity(10);
    assert_eq!(text(world.first_policy(identity, -0.5).unwrap_err()), "alpha should be at least 0, but is -0.5");
    let other = Posterior::new(3, vec![0.0; 6], Scale::Shared(1.0)).unwrap();
    let other = LinearGaussian::new(FeatureMap::identity(2), other).unwrap();
    assert_eq!(
        text(world.truth(0).unwrap().risk(&other).unwrap_err()),
        "the policy should have 5 actions, as the world, but has 3"
    );
    let x = Contexts::dense(vec![1.0, 2.0], 1).unwrap();
    assert_eq!(
        text(Truth::table(x.clone(), 2, vec![0.0, -0.5, -1.5, 0.0]).unwrap_err()),
        "row 1: expected cost should be in [-1, 0], but is -1.5"
    );
    assert_eq!(
        text(Truth::two_values(x.clone(), 2, vec![0, 2], -0.8, -0.2).unwrap_err()),
        "row 1: label should be below 2, but is 2"
    );
    assert_eq!(
        text(Truth::table(x.slice(0..0), 2, vec![]).unwrap_err()),
        "the contexts of a truth should have at least 1 row, but has 0"
    );
    assert_eq!(text(Finite::new(vec![], 1).unwrap_err()), "a finite world should have at least 1 truth, but has 0");
    let truth = |k: usize| Truth::table(x.clone(), k, vec![0.0; 2 * k]).unwrap();
    assert_eq!(
        text(Finite::new(vec![truth(2), truth(3)], 1).unwrap_err()),
        "every truth of a finite world should be of 2 actions and 1 features, as the first, but is of 3 and 1"
    );
    let huge = Labelled::new(x.clone(), vec![0, u32::MAX]).unwrap();
    assert_eq!(
        text(Dataset::new("d", huge.clone(), huge).unwrap_err()),
        "row 1: label should be below 1000000, but is 4294967295"
    );
    assert_eq!(
        synthetic(|s| s.actions = usize::MAX),
        "the number of actions should be from 2 to 10000, but is 18446744073709551615"
    );
    assert_eq!(
        text(Labelled::new(x.clone(), vec![0]).unwrap_err()),
        "labels should have 2 entries, one for each context, but has 1"
    );
    let labelled = |values: Vec<f32>, p: usize, labels: Vec<u32>| {
        Labelled::new(Contexts::dense(values, p).unwrap(), labels).unwrap()
    };
    let (narrow, wide) = (labelled(vec![1.0], 1, vec![1]), labelled(vec![1.0; 2], 2, vec![1]));
    assert_eq!(
        text(Dataset::new("d", narrow.clone(), wide).unwrap_err()),
        "the test split should have 1 features, as the training split, but has 2"
    );
    let alike = labelled(vec![1.0], 1, vec![0]);
    assert_eq!(
        text(Dataset::new("d", alike.clone(), alike).unwrap_err()),
        "a data set should have at least 2 classes, but has 1"
    );
    let tiny = Dataset::new("d", narrow.clone(), narrow).unwrap();
    assert_eq!(
        text(LabelBandit::new(&tiny, 0.2, 1).unwrap_err()),
        "the training split should have at least 2 rows, but has 1"
    );
    let empty = Labelled::new(x.slice(0..0), vec![]).unwrap();
    let full = Labelled::new(x, vec![0, 1]).unwrap();
    assert_eq!(
        text(Dataset::new("d", full, empty).unwrap_err()),
        "the test split should have at least 1 row, but has 0"
    );
}

/// A policy given by its table: context `i` is the number `i`.
#[derive(Debug)]
struct Table(Vec<Vec<f64>>);

impl Policy for Table {
    fn actions(&self) -> usize {
        self.0[0].len()
    }

    fn distribution(&self, contexts: &Contexts, _: Option<&Eligible>) -> Result<Vec<f64>> {
        Ok(contexts.iter().flat_map(|row| self.0[row.values()[0] as usize].clone()).collect())
    }
}

/// A world of `n` contexts with the costs of all actions, in `[-1, 0]`.
fn world_of(costs: &[Vec<f64>]) -> Truth {
    let contexts = Contexts::dense((0..costs.len()).map(|i| i as f32).collect(), 1).unwrap();
    Truth::table(contexts, costs[0].len(), costs.concat()).unwrap()
}

/// A table of `n` rows of `k` numbers.
fn rows(n: usize, k: usize, range: std::ops::RangeInclusive<f64>) -> impl Strategy<Value = Vec<Vec<f64>>> {
    prop::collection::vec(prop::collection::vec(range, k), n)
}

/// Rows that sum to 1, from the fifth powers of weights, so that some are small.
fn normalised(weights: &[Vec<f64>]) -> Table {
    let powers = weights.iter().map(|row| row.iter().map(|w| w.powi(5)).collect::<Vec<f64>>());
    Table(powers.map(|row| row.iter().map(|p| p / row.iter().sum::<f64>()).collect()).collect())
}

/// Costs, and the weights of two policies.
fn worlds() -> impl Strategy<Value = [Vec<Vec<f64>>; 3]> {
    (1usize..6, 2usize..5).prop_flat_map(|(n, k)| {
        (rows(n, k, -1.0..=0.0), rows(n, k, 0.05..=1.0), rows(n, k, 0.05..=1.0)).prop_map(|(c, p, q)| [c, p, q])
    })
}

proptest! {
    #[test]
    fn the_quantities_of_two_policies_are_the_sums_over_all_outcomes([costs, of, logging] in worlds()) {
        let truth = world_of(&costs);
        let (of, logging) = (normalised(&of), normalised(&logging));
        let (profile, other) = (truth.profile(&logging).unwrap(), truth.profile(&of).unwrap());
        let n = costs.len() as f64;
        let (mut variance, mut distance) = (0.0, 0.0);
        for (i, row) in costs.iter().enumerate() {
            for (a, cost) in row.iter().enumerate() {
                let (p, q) = (of.0[i][a], logging.0[i][a]);
                // A cost of -1 has probability `-c`; a cost of 0 adds nothing.
                let chance = -cost / n;
                variance += q * chance * p / (q * q);
                // E over predictors of (d/q - 1)^2 under pi_j, where d is 1 with probability p.
                distance += q * chance * (p * (1.0 / q - 1.0).powi(2) + (1.0 - p));
            }
        }
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1.0 + b.abs());
        prop_assert!(close(profile.pseudo_variance(&other), variance));
        prop_assert!(close(profile.distance_of(&other), distance));
        prop_assert!(close(profile.risk(), truth.risk(&logging).unwrap()));
        prop_assert!(close(profile.coverage(), truth.coverage(&logging).unwrap()));
        prop_assert!(close(profile.distance(), truth.distance(&logging).unwrap()));
        let best = |i: usize| (0..costs[0].len()).map(|a| f64::from(u8::from(truth.best()[i] as usize == a))).collect();
        let optimal = Table((0..costs.len()).map(best).collect());
        prop_assert!(close(profile.distance_of(&truth.profile(&optimal).unwrap()), profile.distance()));
    }

    #[test]
    fn lemma_4_3_holds_for_the_margin_of_all_contexts([costs, _, weights] in worlds()) {
        let truth = world_of(&costs);
        let policy = normalised(&weights);
        let profile = truth.profile(&policy).unwrap();
        let gamma = truth.gamma_k(0.0, profile.coverage()).unwrap();
        prop_assume!(gamma.is_finite());
        let bound = gamma * (profile.risk() - truth.optimal_risk());
        prop_assert!(profile.distance() <= bound * (1.0 + 1e-9) + 1e-12, "{} {bound}", profile.distance());
    }
}

#[test]
fn lemma_4_3_fails_for_a_policy_that_errs_only_where_there_is_no_margin() {
    let truth = world_of(&[vec![-1.0, -0.99], vec![-1.0, 0.0]]);
    let policy = Table(vec![vec![0.5, 0.5], vec![1.0, 0.0]]);
    let profile = truth.profile(&policy).unwrap();
    let (excess, coverage) = (profile.risk() - truth.optimal_risk(), profile.coverage());
    // Half of the contexts have a margin of 1.
    assert_eq!((truth.margin(0.5).unwrap(), coverage), (1.0, 0.5));
    assert!(profile.distance() > 30.0 * truth.gamma_k(0.5, coverage).unwrap() * excess);
    assert!(profile.distance() <= truth.gamma_k(0.0, coverage).unwrap() * excess);
}

#[test]
fn an_action_that_is_never_logged_makes_the_quantities_infinite_unless_it_is_never_taken() {
    let truth = world_of(&[vec![-1.0, -0.5]]);
    let only = |a: usize| Table(vec![vec![f64::from(u8::from(a == 0)), f64::from(u8::from(a == 1))]]);
    let (zero, one) = (only(0), only(1));
    let (zero, one) = (truth.profile(&zero).unwrap(), truth.profile(&one).unwrap());
    assert_eq!((zero.pseudo_variance(&zero), zero.distance_of(&zero)), (1.0, 0.0));
    assert_eq!((zero.pseudo_variance(&one), zero.distance_of(&one)), (f64::INFINITY, f64::INFINITY));
}

#[test]
fn comparators_of_the_synthetic_world_approach_the_optimum_as_their_divergence_grows() {
    let world = Synthetic::new(SyntheticSettings::default()).unwrap();
    let (truth, prior) = (world.truth(0).unwrap(), world.first_policy(FeatureMap::identity(10), 0.0).unwrap());
    assert_eq!(world.comparator(0.0, 1.0).unwrap(), prior);
    assert_eq!(world.comparator(2.0, 1.0).unwrap(), world.first_policy(FeatureMap::identity(10), 2.0).unwrap());
    let at = |b: f64, s: f64| {
        let policy = world.comparator(b, s).unwrap();
        (truth.risk(&policy).unwrap() - truth.optimal_risk(), policy.kl(&prior).unwrap())
    };
    let (weak, strong) = (at(1.0, 1.0), at(8.0, 1.0));
    assert!(weak.0 > strong.0 && weak.1 < strong.1, "{weak:?} {strong:?}");
    // Only b/s matters for the policy; the divergence has a best scale.
    let narrow = at(1.0, 0.125);
    assert!((narrow.0 - strong.0).abs() < 1e-9 && narrow.1 < strong.1, "{narrow:?} {strong:?}");
    assert_eq!(world.comparator(-1.0, 1.0).unwrap_err().to_string(), "b should be at least 0, but is -1");
}

#[test]
fn features_in_the_world_are_as_good_as_features_in_the_policy() {
    let world = LabelBandit::new(&corners(), 0.2, 1).unwrap();
    let known = world.logging_split().contexts();
    let kernel = FeatureMap::kernel(known, 10, 0.7).unwrap();
    let fourier = FeatureMap::fourier(2, 30, 1.0, 1).unwrap().with_intercept();
    for map in [kernel.clone(), kernel.with_intercept(), fourier, FeatureMap::identity(2)] {
        let mapped = world.clone().with_features(&map).unwrap();
        assert_eq!((mapped.interactions(), mapped.logging_split().contexts().features()), (380, map.output()));
        let accuracies = |world: &LabelBandit, features: FeatureMap| -> Vec<f64> {
            let plan = crate::learn::Learner { lambda: crate::learn::Lambda::Fixed(0.5), ..Default::default() };
            let first = world.first_policy(features, 0.3).unwrap();
            let outcome = crate::simulate::simulate(world, first, &plan.into(), &[190, 190], |_| {}).unwrap();
            outcome.rounds.iter().map(|round| round.accuracy).collect()
        };
        let (by_policy, by_world) =
            (accuracies(&world, map.clone()), accuracies(&mapped, FeatureMap::identity(map.output())));
        let near = by_policy.iter().zip(&by_world).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near && by_policy.len() == 2, "{by_policy:?} {by_world:?}");
    }
    assert_eq!(
        world.with_features(&FeatureMap::identity(3)).unwrap_err().to_string(),
        "contexts should have 3 features, as the policy, but has 2"
    );
}

#[test]
fn first_policies_are_the_same_in_any_order_of_asking() {
    let world = || LabelBandit::new(&corners(), 0.2, 1).unwrap();
    let asked = world();
    let plain = FeatureMap::identity(2);
    for (map, alpha) in
        [(plain.clone(), 0.0), (plain.clone().with_intercept(), 1.0), (plain.clone(), 2.0), (plain, 1.0)]
    {
        let fresh = world().first_policy(map.clone(), alpha).unwrap();
        assert_eq!(asked.first_policy(map, alpha).unwrap(), fresh);
    }
}

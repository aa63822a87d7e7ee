//! The contract of every policy, and the divergence between posteriors.

use super::*;
use crate::contexts::Labelled;
use crate::features::FeatureMap;
use std::sync::Arc;

fn contexts() -> Contexts {
    let values = (0..60).map(|i| ((i * 7 % 11) as f32 - 5.0) / 4.0).collect();
    Contexts::dense(values, 3).unwrap()
}

fn wave(n: usize, phase: f64) -> Vec<f64> {
    (0..n).map(|i| (i as f64 + phase).sin()).collect()
}

/// One policy of each class, over 4 actions and 3 features.
fn all() -> Vec<Arc<dyn Policy>> {
    let identity = FeatureMap::identity(3);
    let shared = Posterior::new(4, wave(12, 0.3), Scale::Shared(0.5)).unwrap();
    let scales = Scale::PerFeature(vec![0.3, 1.0, 2.0]);
    let basis = Arc::new(Basis::principal(&contexts()).unwrap());
    let shaped = Posterior::new(4, wave(12, 1.0), scales).unwrap().with_basis(basis).unwrap();
    let map = FeatureMap::fourier(3, 10, 1.0, 1).unwrap().with_intercept();
    let fourier = Posterior::new(4, wave(44, 0.0), Scale::Shared(1.0)).unwrap();
    let gaussian: Arc<dyn Policy> = Arc::new(LinearGaussian::new(identity.clone(), shared).unwrap());
    let softmax: Arc<dyn Policy> = Arc::new(Softmax::new(identity.clone(), 4, wave(12, 2.0), 1.5).unwrap());
    let mixture = Mixture::new(vec![gaussian.clone(), softmax.clone()], vec![0.25, 0.75]).unwrap();
    vec![
        Arc::new(Uniform::new(4).unwrap()),
        Arc::new(LinearGaussian::new(identity, shaped).unwrap().with_exploration(0.1).unwrap()),
        Arc::new(LinearGaussian::new(map, fourier).unwrap()),
        Arc::new(mixture),
        gaussian,
        softmax,
    ]
}

#[test]
fn a_class_has_a_name_and_the_features_of_the_policy() {
    let found: Vec<_> =
        all().iter().map(|p| (p.class().name(), p.class().features().map(FeatureMap::output))).collect();
    assert_eq!(
        found,
        [
            ("uniform", None),
            ("gaussian", Some(3)),
            ("gaussian", Some(11)),
            ("mixture", None),
            ("gaussian", Some(3)),
            ("softmax", Some(3)),
        ]
    );
    assert_eq!(Class::Custom.name(), "custom");
}

#[test]
fn every_policy_keeps_the_contract() {
    let dense = contexts();
    let sets = Eligible::new((0..20).map(|i| if i % 2 == 0 { vec![0, 2, 3] } else { vec![1] })).unwrap();
    for policy in all() {
        for (contexts, eligible) in [
            (dense.clone(), None),
            (dense.to_sparse(), None),
            (dense.clone(), Some(&sets)),
            (dense.to_sparse(), Some(&sets)),
        ] {
            let p = policy.distribution(&contexts, eligible).unwrap();
            assert_eq!(p.len(), 80, "{policy:?}");
            for (i, row) in p.chunks_exact(4).enumerate() {
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{policy:?}: {row:?}");
                for (a, &p) in row.iter().enumerate() {
                    let allowed = eligible.is_none_or(|e| e.get(i).contains(&(a as u32)));
                    assert!(if allowed { (0.0..=1.0 + 1e-12).contains(&p) } else { p == 0.0 }, "{policy:?}");
                }
            }
            for a in 0..4 {
                let single = policy.propensity(&contexts, &[a; 20], eligible).unwrap();
                for (i, q) in single.iter().enumerate() {
                    assert!((q - p[i * 4 + a as usize]).abs() < 1e-9, "{policy:?}");
                }
            }
            let decisions = policy.decide(&contexts, eligible, 5).unwrap();
            assert_eq!(decisions, policy.decide(&contexts, eligible, 5).unwrap());
            assert_ne!(decisions, policy.decide(&contexts, eligible, 6).unwrap());
            for (i, d) in decisions.iter().enumerate() {
                assert!((d.propensity - p[i * 4 + d.action as usize]).abs() < 1e-9 && d.propensity > 0.0);
            }
        }
    }
}

#[test]
fn every_policy_draws_with_the_propensities_it_logs() {
    // 20,000 copies of one context; chi-squared with 3 degrees of freedom.
    let one = Contexts::dense([0.4, -1.0, 0.7].repeat(20_000), 3).unwrap();
    for policy in all() {
        let p = policy.distribution(&one.slice(0..1), None).unwrap();
        let mut counts = [0.0; 4];
        for d in policy.decide(&one, None, 1).unwrap() {
            counts[d.action as usize] += 1.0;
        }
        let chi2: f64 = (0..4).map(|a| (counts[a] - 20_000.0 * p[a]).powi(2) / (20_000.0 * p[a])).sum();
        assert!(chi2 < 16.27, "{policy:?}: {chi2} at the 99.9 % point 16.27");
    }
}

#[test]
fn a_decision_depends_on_the_key_and_not_on_the_place() {
    let contexts = contexts();
    let n = contexts.len();
    let keys: Vec<u64> = (0..n as u64).map(|i| u64::MAX - 7 * i).collect();
    let backwards: Vec<usize> = (0..n).rev().collect();
    for policy in all() {
        let there = policy.decide_keyed(&contexts, None, 3, &keys).unwrap();
        let turned: Vec<u64> = keys.iter().rev().copied().collect();
        let mut back = policy.decide_keyed(&contexts.select(&backwards), None, 3, &turned).unwrap();
        back.reverse();
        assert_eq!(there, back, "{policy:?}");
        assert_ne!(there, policy.decide(&contexts, None, 3).unwrap(), "{policy:?}");
        assert_eq!(
            policy.decide_keyed(&contexts, None, 3, &keys[1..]).unwrap_err().to_string(),
            format!("the keys should have {n} entries, one for each context, but has {}", n - 1)
        );
    }
}

#[test]
fn a_context_of_zeros_gives_the_uniform_distribution() {
    let zeros = Contexts::dense(vec![0.0; 3], 3).unwrap();
    let q = Posterior::new(4, wave(12, 0.3), Scale::Shared(0.5)).unwrap();
    let policy = LinearGaussian::new(FeatureMap::identity(3), q).unwrap();
    let p = policy.distribution(&zeros, None).unwrap();
    assert!(p.iter().all(|p| (p - 0.25).abs() < 1e-10));
}

#[test]
fn the_basis_changes_the_coordinates_and_not_the_policy() {
    let q = Posterior::new(4, wave(12, 0.3), Scale::Shared(0.5)).unwrap();
    let basis = Arc::new(Basis::principal(&contexts()).unwrap());
    let rotated = q.in_basis(Some(&basis)).unwrap();
    assert!(rotated.mean() != q.mean() && rotated.kl(&q).unwrap().abs() < 1e-12);
    let p = |q: &Posterior| {
        let policy = LinearGaussian::new(FeatureMap::identity(3), q.clone()).unwrap();
        policy.distribution(&contexts(), None).unwrap()
    };
    for (a, b) in p(&q).iter().zip(p(&rotated)) {
        // Rotated contexts are rounded to f32.
        assert!((a - b).abs() < 1e-6);
    }
    let shaped = Posterior::new(4, wave(12, 0.3), Scale::PerFeature(vec![1.0, 2.0, 3.0])).unwrap();
    assert!(shaped.in_basis(Some(&basis)).is_none() && shaped.in_basis(None).is_some());
}

#[test]
fn the_floor_keeps_every_action_and_scales_the_divergence() {
    let q = Posterior::new(4, wave(12, 0.3), Scale::Shared(0.01)).unwrap();
    let p = Posterior::standard(3, 4).unwrap();
    let with = |q: &Posterior, e: f64| {
        LinearGaussian::new(FeatureMap::identity(3), q.clone()).unwrap().with_exploration(e).unwrap()
    };
    let floored = with(&q, 0.2).distribution(&contexts(), None).unwrap();
    assert!(floored.iter().all(|p| *p >= 0.05));
    let kl = with(&q, 0.2).kl(&with(&p, 0.2)).unwrap();
    assert!((kl - 0.8 * q.kl(&p).unwrap()).abs() < 1e-12);
    assert_eq!(
        with(&q, 0.2).kl(&with(&p, 0.1)).unwrap_err().to_string(),
        "the prior's exploration should be 0.2, as this policy's, but is 0.1"
    );
}

#[test]
fn a_softmax_learns_labels() {
    let x = contexts();
    let labels = x.iter().map(|r| u32::from(r.values()[0] > r.values()[1])).collect();
    let data = Labelled::new(x, labels).unwrap();
    let policy = Softmax::train(FeatureMap::identity(3), &data, 2, &SoftmaxTraining::default()).unwrap();
    let p = policy.propensity(data.contexts(), data.labels(), None).unwrap();
    assert!(p.iter().sum::<f64>() / 20.0 > 0.7);
    let sharp = Softmax::new(FeatureMap::identity(1), 2, vec![1e300, 0.0], 1e300).unwrap();
    let one = Contexts::dense(vec![1.0], 1).unwrap();
    assert_eq!(sharp.distribution(&one, None).unwrap(), [1.0, 0.0]);
    let uniform = policy.with_alpha(0.0).unwrap();
    assert_eq!(uniform.propensity(data.contexts(), data.labels(), None).unwrap(), vec![0.5; 20]);
}

#[test]
fn a_probability_never_exceeds_one_by_rounding() {
    // Two deterministic policies, with weights whose sum exceeds 1 by as much as the constructor allows.
    let certain =
        || Arc::new(Softmax::new(FeatureMap::identity(1), 2, vec![1e6, 0.0], 1.0).unwrap()) as Arc<dyn Policy>;
    let mixture = Mixture::new(vec![certain(), certain()], vec![0.5, 0.5 + 5e-10]).unwrap();
    let one = Contexts::dense(vec![1.0], 1).unwrap();
    assert_eq!(mixture.decide(&one, None, 1).unwrap()[0], Decision { action: 0, propensity: 1.0 });
    // One eligible action: (1 - e) + e.
    let only = Eligible::new([[1u32]]).unwrap();
    for i in 0..1000 {
        let policy = LinearGaussian::new(FeatureMap::identity(1), Posterior::standard(1, 2).unwrap()).unwrap();
        let policy = policy.with_exploration(f64::from(i) / 1000.0).unwrap();
        let p = policy.decide(&one, Some(&only), 1).unwrap()[0].propensity;
        assert!(p <= 1.0 && p > 1.0 - 1e-12, "{i}: {p}");
    }
}

/// A custom policy that returns too few numbers.
#[derive(Debug)]
struct Short;

impl Policy for Short {
    fn actions(&self) -> usize {
        2
    }

    fn distribution(&self, contexts: &Contexts, _: Option<&Eligible>) -> Result<Vec<f64>> {
        Ok(vec![0.5; contexts.len()])
    }
}

#[test]
fn a_distribution_of_the_wrong_length_is_an_error() {
    let text = "the distribution of a policy should have 20 contexts x 2 actions, but has 20";
    assert_eq!(Short.propensity(&contexts(), &[0; 20], None).unwrap_err().to_string(), text);
    assert_eq!(Short.decide(&contexts(), None, 1).unwrap_err().to_string(), text);
    let truth = crate::worlds::Truth::table(contexts(), 2, vec![-0.5; 40]).unwrap();
    assert_eq!(truth.risk(&Short).unwrap_err().to_string(), text);
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let text = |e: Error| e.to_string();
    let q = Posterior::standard(3, 2).unwrap();
    assert_eq!(
        text(q.kl(&Posterior::standard(2, 2).unwrap()).unwrap_err()),
        "the mean of the prior should have 3 features x 2 actions, but has 4"
    );
    assert_eq!(text(Basis::new(vec![1.0; 3], 2).unwrap_err()), "a basis should have 2 x 2 entries, but has 3");
    let small = Arc::new(Basis::new(vec![1.0], 1).unwrap());
    assert_eq!(
        text(q.clone().with_basis(small).unwrap_err()),
        "the basis should have 3 features, as the mean, but has 1"
    );
    assert_eq!(text(Posterior::standard(3, 1).unwrap_err()), "the number of actions should be at least 2, but is 1");
    let policy = LinearGaussian::new(FeatureMap::identity(3), q).unwrap();
    assert_eq!(
        text(policy.propensity(&contexts(), &[0], None).unwrap_err()),
        "action should have 20 entries, one for each context, but has 1"
    );
    assert_eq!(text(Uniform::new(1).unwrap_err()), "the number of actions should be at least 2, but is 1");
    let softmax = |k, weights, alpha| text(Softmax::new(FeatureMap::identity(1), k, weights, alpha).unwrap_err());
    assert_eq!(softmax(1, vec![0.0], 1.0), "the number of actions should be at least 2, but is 1");
    assert_eq!(softmax(2, vec![0.0], 1.0), "the weights should have 1 features x 2 actions, but has 1");
    assert_eq!(softmax(2, vec![0.0, f64::NAN], 1.0), "row 0: the weight of action 1 should be finite, but is NaN");
    assert_eq!(softmax(2, vec![0.0; 2], -1.0), "alpha should be at least 0, but is -1");
    assert_eq!(softmax(2, vec![0.0; 2], f64::INFINITY), "alpha should be finite and at least 0, but is inf");
    let train = |labels: Vec<u32>, decay| {
        let data = Labelled::new(contexts().slice(0..labels.len()), labels).unwrap();
        let training = SoftmaxTraining { weight_decay: decay, ..SoftmaxTraining::default() };
        text(Softmax::train(FeatureMap::identity(3), &data, 2, &training).unwrap_err())
    };
    assert_eq!(train(vec![0, 2], 0.0), "row 1: label should be below 2, but is 2");
    assert_eq!(train(vec![], 0.0), "the labelled data should have at least 1 row, but has 0");
    assert_eq!(train(vec![0], -1.0), "the weight decay should be at least 0, but is -1");
    let uniform = || Arc::new(Uniform::new(3).unwrap()) as Arc<dyn Policy>;
    assert_eq!(text(Mixture::new(vec![], vec![]).unwrap_err()), "a mixture should have at least one policy, but has 0");
    assert_eq!(
        text(Mixture::new(vec![uniform()], vec![]).unwrap_err()),
        "weights should have 1 entries, one for each policy, but has 0"
    );
    assert_eq!(
        text(Mixture::new(vec![uniform(), uniform()], vec![1.5, -0.5]).unwrap_err()),
        "row 0: weight should be in [0, 1], but is 1.5"
    );
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let text = |e: Error| e.to_string();
    let posterior = |scale| Posterior::new(2, vec![0.0; 4], scale);
    assert_eq!(text(posterior(Scale::Shared(0.0)).unwrap_err()), "row 0: scale should be in [1e-50, 1e50], but is 0");
    assert_eq!(
        text(posterior(Scale::PerFeature(vec![1.0])).unwrap_err()),
        "the scales should have 2 entries, one for each feature, but has 1"
    );
    assert_eq!(
        text(Posterior::new(2, vec![0.0, f64::NAN], Scale::Shared(1.0)).unwrap_err()),
        "row 0: the mean of action 1 should be finite, but is NaN"
    );
    assert_eq!(
        text(Posterior::new(2, vec![0.0; 3], Scale::Shared(1.0)).unwrap_err()),
        "the mean should have 2 entries for each feature, but has 3"
    );
    assert_eq!(
        text(Basis::new(vec![1.0, 0.0, 0.5, 1.0], 2).unwrap_err()),
        "row 0: the product of basis vectors 0 and 0 should be 1, but is 1.25"
    );
    let q = posterior(Scale::Shared(1.0)).unwrap();
    assert_eq!(
        text(LinearGaussian::new(FeatureMap::identity(3), q.clone()).unwrap_err()),
        "the posterior should have 3 features, as the feature map, but has 2"
    );
    let policy = LinearGaussian::new(FeatureMap::identity(2), q).unwrap();
    assert_eq!(text(policy.clone().with_exploration(1.0).unwrap_err()), "exploration should be in [0, 1), but is 1");
    assert_eq!(
        text(policy.distribution(&contexts(), None).unwrap_err()),
        "contexts should have 2 features, as the policy, but has 3"
    );
    let one = Contexts::dense(vec![1.0, 1.0], 2).unwrap();
    assert_eq!(text(policy.propensity(&one, &[2], None).unwrap_err()), "row 0: action should be below 2, but is 2");
    let steep = Posterior::new(2, vec![1e300, 0.0, 1e300, 0.0], Scale::Shared(1e-40)).unwrap();
    let steep = LinearGaussian::new(FeatureMap::identity(2), steep).unwrap();
    assert_eq!(
        text(steep.decide(&one, None, 1).unwrap_err()),
        "row 0: the score of action 0 should be finite, but is inf"
    );
    let half = 0.5f64.sqrt();
    let turned = Arc::new(Basis::new(vec![half, -half, half, half], 2).unwrap());
    let turned = Posterior::standard(2, 2).unwrap().with_basis(turned).unwrap();
    let turned = LinearGaussian::new(FeatureMap::identity(2), turned).unwrap();
    let large = Contexts::dense(vec![3e38, 3e38], 2).unwrap();
    assert_eq!(text(turned.distribution(&large, None).unwrap_err()), "row 0: feature 0 should be finite, but is inf");
    let wide = Contexts::sparse(vec![0, 1], vec![7], vec![1.0], 1_000_000).unwrap();
    assert_eq!(
        text(Basis::principal(&wide).unwrap_err()),
        "the number of features should be at most 20000 for principal axes, but is 1000000"
    );
    let sets = Eligible::new([[0u32, 5]]).unwrap();
    assert_eq!(text(policy.decide(&one, Some(&sets), 1).unwrap_err()), "row 0: eligible should be below 2, but is 5");
    let other: Arc<dyn Policy> = Arc::new(Uniform::new(3).unwrap());
    assert_eq!(
        text(Mixture::new(vec![Arc::new(policy), other], vec![0.5, 0.5]).unwrap_err()),
        "every policy of a mixture should have 2 actions, as the first one, but has 3"
    );
    let uniform: Arc<dyn Policy> = Arc::new(Uniform::new(3).unwrap());
    assert_eq!(
        text(Mixture::new(vec![uniform], vec![0.9]).unwrap_err()),
        "the sum of the weights should be 1, but is 0.9"
    );
}

#[test]
fn a_prior_prefers_no_action_or_those_that_were_logged() {
    let map = FeatureMap::identity(3).with_intercept();
    let standard = LinearGaussian::standard(map.clone(), 4).unwrap();
    assert_eq!(standard.posterior(), &Posterior::standard(4, 4).unwrap());
    let p = standard.distribution(&contexts(), None).unwrap();
    assert!(p.iter().all(|p| (p - 0.25).abs() < 1e-9));

    let contexts = contexts();
    let action: Vec<u32> = (0..contexts.len() as u32).map(|i| if i % 5 == 0 { 1 } else { 2 }).collect();
    let logged = Labelled::new(contexts.clone(), action).unwrap();
    let imitating = LinearGaussian::imitating(map.clone(), &logged, 4).unwrap();
    let softmax = Softmax::train(map, &logged, 4, &SoftmaxTraining::default()).unwrap();
    assert_eq!(imitating.posterior().mean(), softmax.weights());
    assert_eq!(imitating.posterior().scale(), &Scale::Shared(1.0));
    let p = imitating.distribution(&contexts, None).unwrap();
    let sum = |a: usize| p.chunks(4).map(|p| p[a]).sum::<f64>();
    assert!(sum(2) > sum(1) && sum(1) > sum(0), "{} {} {}", sum(0), sum(1), sum(2));
}

/// A policy whose numbers are no distributions.
#[derive(Debug)]
struct Sums(f64);

impl Policy for Sums {
    fn actions(&self) -> usize {
        2
    }

    fn distribution(&self, contexts: &Contexts, _: Option<&Eligible>) -> Result<Vec<f64>> {
        Ok([self.0, 0.5].repeat(contexts.len()))
    }
}

#[test]
fn probabilities_that_do_not_sum_to_one_are_an_error() {
    let text = "row 0: the sum of the policy's probabilities should be 1, but is 0.75";
    assert_eq!(Sums(0.25).propensity(&contexts(), &[0; 20], None).unwrap_err().to_string(), text);
    assert_eq!(Sums(0.25).decide(&contexts(), None, 1).unwrap_err().to_string(), text);
    let text = "row 0: a probability of the policy should be in [0, 1], but is -0.5";
    assert_eq!(Sums(-0.5).decide(&contexts(), None, 1).unwrap_err().to_string(), text);
    assert!(Sums(0.5).decide(&contexts(), None, 1).is_ok());
}

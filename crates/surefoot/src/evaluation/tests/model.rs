//! The cost model.

use super::golden::reference;
use super::*;

fn fitted(features: usize, actions: usize, batch: usize) -> (CostModel, Contexts) {
    let mut rng = stream(12, Purpose::World, 4);
    let n = 3000;
    let x: Vec<f32> = (0..n * features).map(|_| rng.random::<f32>() - 0.5).collect();
    let contexts = Contexts::dense(x, features).unwrap();
    let mut fit = ModelFit::new(actions, features, 4, 0.5).unwrap();
    let action: Vec<u32> = (0..n).map(|i| (i % actions) as u32).collect();
    let cost: Vec<f64> = (0..n).map(|_| -rng.random::<f64>()).collect();
    for start in (0..n).step_by(batch) {
        let range = start..(start + batch).min(n);
        fit.add(&contexts.slice(range.clone()), &action[range.clone()], &cost[range]).unwrap();
    }
    (fit.finish().unwrap(), contexts)
}

#[test]
fn every_prediction_is_the_reference_s() {
    let models = reference().models;
    assert_eq!(models.len(), 3);
    for case in models {
        let dense = Contexts::dense(case.contexts.clone(), case.features).unwrap();
        for contexts in [dense.clone(), dense.to_sparse()] {
            let mut fit = ModelFit::new(case.actions, case.features, case.folds, case.penalty).unwrap();
            fit.add(&contexts.slice(0..5), &case.action[..5], &case.cost[..5]).unwrap();
            fit.add(&contexts.slice(5..contexts.len()), &case.action[5..], &case.cost[5..]).unwrap();
            let predicted = fit.finish().unwrap().predict(0, &contexts).unwrap();
            assert_eq!(predicted.len(), case.predicted.len());
            for (found, expected) in predicted.iter().zip(&case.predicted) {
                assert!((found - expected).abs() < 1e-11, "{found} {expected}");
            }
        }
    }
}

#[test]
fn batches_and_threads_change_no_bit_of_a_prediction() {
    let (model, contexts) = fitted(4, 3, 3000);
    let expected = model.predict(0, &contexts).unwrap();
    for (batch, threads) in [(3000, 1), (7, 1), (500, 2)] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let found = pool.install(|| fitted(4, 3, batch).0.predict(0, &contexts).unwrap());
        assert_eq!(found, expected, "batches of {batch}, {threads} threads");
    }
    let part = model.predict(1700, &contexts.slice(1700..2000)).unwrap();
    assert_eq!(part, expected[1700 * 3..2000 * 3]);
}

#[test]
fn a_record_is_not_predicted_from_its_own_cost() {
    let x: Vec<f32> = (0..40).map(|i| (i as f32).sin()).collect();
    let contexts = Contexts::dense(x, 1).unwrap();
    let predicted = |first: f64| {
        let mut fit = ModelFit::new(2, 1, 5, 1.0).unwrap();
        let cost: Vec<f64> = (0..40).map(|i| if i == 0 { first } else { -f64::from(i % 3) / 4.0 }).collect();
        fit.add(&contexts, &[0, 1].repeat(20), &cost).unwrap();
        fit.finish().unwrap().predict(0, &contexts).unwrap()
    };
    let (one, two) = (predicted(0.0), predicted(-1.0));
    assert_eq!(one[..2], two[..2]);
    assert_ne!(one, two);
}

#[test]
fn the_logged_action_and_the_policy_s_mean_are_read_off_the_predictions() {
    let (model, contexts) = fitted(2, 3, 3000);
    let contexts = contexts.slice(10..12);
    let predicted = model.predict(10, &contexts).unwrap();
    let (logged, mean) = model.judge(10, &contexts, &[2, 0], &[0.5, 0.5, 0.0, 0.0, 0.0, 1.0]).unwrap();
    assert_eq!(logged, [predicted[2], predicted[3]]);
    assert_eq!(mean, [0.5 * predicted[0] + 0.5 * predicted[1], predicted[5]]);
}

#[test]
fn what_a_model_cannot_hold_or_read_is_refused() {
    assert_eq!(text(ModelFit::new(3, 2, 1, 1.0)), "the number of folds should be at least 2, but is 1");
    assert_eq!(text(ModelFit::new(3, 2, 2, 0.0)), "the penalty should be in (0, inf), but is 0");
    assert_eq!(
        text(ModelFit::new(100, 10_000, 5, 1.0)),
        "the memory of a cost model should be at most 1 GiB for 5 folds x 100 actions x 10000 features (map the contexts \
         to fewer features, or take fewer folds), but is 186.3 GiB"
    );
    assert!(text(ModelFit::new(usize::MAX, usize::MAX, 5, 1.0)).contains("beyond counting"));
    let mut fit = ModelFit::new(2, 1, 2, 1.0).unwrap();
    assert_eq!(text(fit.finish()), "the logs should have at least 1 record, but has 0");
    let contexts = Contexts::dense(vec![1.0, 2.0], 1).unwrap();
    fit.add(&contexts, &[0, 1], &[0.0, -1.0]).unwrap();
    assert_eq!(text(fit.add(&contexts, &[0, 2], &[0.0, 0.0])), "row 3: action should be below 2, but is 2");
    assert_eq!(text(fit.add(&contexts, &[0, 1], &[0.5, 0.0])), "row 2: cost should be in [-1, 0], but is 0.5");
    assert_eq!(text(fit.add(&contexts, &[0], &[0.0])), "action should have 2 entries, one for each context, but has 1");
    let model = fit.finish().unwrap();
    let wide = Contexts::dense(vec![1.0, 2.0], 2).unwrap();
    assert_eq!(text(model.predict(0, &wide)), "contexts should have 1 features, as the cost model, but has 2");
    assert!(text(model.judge(0, &contexts, &[0, 1], &[1.0])).starts_with("the distribution of a policy"));
}

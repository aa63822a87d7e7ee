//! Trees agree with their definition.

use proptest::prelude::*;
use rayon::ThreadPoolBuilder;

use super::boost::{check_records, first_residuals, in_order};
use super::grow::{Limits, Node, UNIT, grow};
use super::*;
use crate::contexts::Contexts;
use crate::features::FeatureMap;

const LEAF: u32 = TreeFeatures::LEAF;

/// Records of three actions: contexts, actions and rewards.
type Sample = (Contexts, Vec<u32>, Vec<f64>);

/// Records over four features, some of them 0, one with few values and one that is always 1.
fn sample(n: usize, seed: usize) -> Sample {
    let noise = |i: usize| (f64::sin((i + 7919 * seed) as f64 * 12.9898) * 43758.5453).fract().abs();
    let value = |i: usize| match i % 4 {
        0 => noise(i) as f32 - 0.5,
        1 if noise(i) < 0.6 => 0.0,
        1 => noise(i) as f32,
        2 => (noise(i) * 5.0).floor() as f32,
        _ => 1.0,
    };
    let x: Vec<f32> = (0..4 * n).map(value).collect();
    let action: Vec<u32> = (0..n).map(|i| (3.0 * noise(5 * i + 3)) as u32).collect();
    let best = |i: usize| if x[4 * i] > 0.1 { 2 } else { u32::from(x[4 * i + 2] > 2.0) };
    let reward = (0..n).map(|i| 0.7 * f64::from(u8::from(best(i) == action[i])) + 0.3 * noise(11 * i + 1));
    let reward = reward.collect();
    (Contexts::dense(x, 4).unwrap(), action, reward)
}

/// Small trees on all features.
fn small() -> Boosting {
    Boosting { trees: 6, leaves: 5, least_records: 3, share: 1.0, ..Boosting::default() }
}

fn trees(boosting: &Boosting, (x, action, reward): &Sample) -> FeatureMap {
    FeatureMap::trees(boosting, 3, x, action, reward).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_record_is_mapped_to_the_leaf_that_it_grew(
        n in 1usize..300, seed in 0usize..1000, leaves in 2usize..20, least_records in 1usize..30,
    ) {
        let (x, action, reward) = sample(n, seed);
        let order = check_records(3, &x, &action, &reward).unwrap();
        let sorted = x.select(&order);
        let columns = bins::columns(&sorted);
        let records = first_residuals(3, &order, &action, &reward);
        let grown = grow(&columns.iter().collect::<Vec<_>>(), &records, &Limits { leaves, least_records, ridge: 1.0 });
        let (mut features, mut thresholds) = (Vec::new(), Vec::new());
        in_order(&grown.nodes, &mut features, &mut thresholds);
        let tree = TreeFeatures::from_parts(4, features, thresholds).unwrap();
        prop_assert!(tree.count() <= leaves && tree.trees() == 1 && tree.splits() + 1 == tree.count());
        let mut node_of = vec![None; tree.count()];
        let mut count = vec![0; tree.count()];
        for (i, &leaf) in tree.leaves_of(&sorted).unwrap().iter().enumerate() {
            let node = grown.leaf_of[i] as usize;
            prop_assert_eq!(grown.nodes[node], Node::Leaf);
            prop_assert_eq!(*node_of[leaf as usize].get_or_insert(node), node);
            count[leaf as usize] += 1;
        }
        node_of.sort_unstable();
        node_of.dedup();
        prop_assert_eq!(node_of.len(), tree.count());
        prop_assert!(count.iter().all(|&count| count >= least_records.min(n)));
    }

    #[test]
    fn every_tree_reduces_the_training_error(
        n in 1usize..300, seed in 0usize..1000,
        shrinkage in 0.01f64..=1.0, ridge in 0.01f64..20.0, share in 0.01f64..=1.0,
    ) {
        let (x, action, reward) = sample(n, seed);
        let mut errors: Vec<f64> = Vec::new();
        let boosting = Boosting { shrinkage, ridge, share, ..small() };
        let all = boosting.grow(3, &x, &action, &reward, |residuals| {
            errors.push(residuals.iter().map(|&r| (r as f64 / UNIT).powi(2)).sum());
        }).unwrap();
        prop_assert!(errors.len() == all.trees() || (errors.is_empty() && all.count() == 1));
        prop_assert!(errors.windows(2).all(|pair| pair[1] < pair[0] + 1e-9 * n as f64), "{errors:?}");
        let deviation = |a: u32| {
            let own: Vec<f64> = action.iter().zip(&reward).filter(|(b, _)| **b == a).map(|(_, &r)| r).collect();
            let mean = own.iter().sum::<f64>() / own.len().max(1) as f64;
            own.iter().map(|r| (r - mean).powi(2)).sum::<f64>()
        };
        let before: f64 = (0..3).map(deviation).sum();
        prop_assert!(errors.first().is_none_or(|&error| error < before + 1e-9 * n as f64));
    }

    #[test]
    fn one_feature_per_tree_is_not_0_and_the_norm_is_1(n in 1usize..200, seed in 0usize..1000) {
        let records = sample(n, seed);
        let map = trees(&small(), &records);
        let parts = map.tree_parts().unwrap();
        let phi = map.apply(&records.0).unwrap();
        prop_assert_eq!((phi.features(), phi.is_sparse()), (map.output(), true));
        prop_assert_eq!((map.input(), map.output()), (4, parts.count()));
        for (i, row) in phi.iter().enumerate() {
            prop_assert_eq!(row.values().len(), parts.trees());
            prop_assert!((phi.norm(i) - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn no_list_of_nodes_panics(
        nodes in prop::collection::vec(
            (prop_oneof![3 => Just(LEAF), 3 => 0u32..3, 1 => any::<u32>()], any::<f32>()), 0..30
        )
    ) {
        let (features, thresholds): (Vec<u32>, Vec<f32>) = nodes.into_iter().unzip();
        let zeroed = features.iter().zip(thresholds).map(|(&f, t)| if f == LEAF { 0.0 } else { t }).collect();
        if let Ok(map) = FeatureMap::trees_from_parts(3, features, zeroed) {
            let x = Contexts::dense(vec![0.0, -1.0, 1e30, f32::MAX, f32::MIN, 0.5], 3).unwrap();
            prop_assert_eq!(map.apply(&x).unwrap().len(), 2);
        }
    }
}

#[test]
fn the_bits_do_not_depend_on_threads_storage_or_the_order_of_records() {
    let records = sample(3000, 1);
    let boosting = Boosting { share: 0.6, ..Boosting::default() };
    let on = |threads, x: &Contexts| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let map = FeatureMap::trees(&boosting, 3, x, &records.1, &records.2).unwrap();
            let leaves = map.tree_parts().unwrap().leaves_of(x).unwrap();
            (map, leaves)
        })
    };
    let one = on(1, &records.0);
    assert_eq!(one.0.tree_parts().unwrap().trees(), 40);
    assert!(one == on(2, &records.0) && one == on(5, &records.0.to_sparse()));
    // Sums of whole numbers do not depend on their order.
    let order: Vec<usize> = (0..3000).map(|i| i * 7 % 3000).collect();
    let action: Vec<u32> = order.iter().map(|&i| records.1[i]).collect();
    let reward: Vec<f64> = order.iter().map(|&i| records.2[i]).collect();
    assert_eq!(trees(&boosting, &(records.0.select(&order), action, reward)), one.0);
    assert_ne!(trees(&Boosting { seed: 2, ..boosting }, &records), one.0);
}

#[test]
fn trees_find_the_contexts_in_which_an_action_is_good() {
    let map = trees(&Boosting { trees: 1, leaves: 3, share: 1.0, ..Boosting::default() }, &sample(5000, 3));
    let parts = map.tree_parts().unwrap();
    // Action 2 is best if the first feature is above 0.1; among others, the third feature decides.
    assert_eq!(parts.features(), [0, 2, LEAF, LEAF, LEAF]);
    assert!((parts.thresholds()[0] - 0.1).abs() < 0.02 && parts.thresholds()[1] == 2.5, "{:?}", parts.thresholds());
    let x = Contexts::dense(vec![0.2, 0.0, 9.0, 1.0, 0.0, 0.0, 2.5, 1.0, 0.0, 0.0, 2.6, 1.0], 4).unwrap();
    for x in [x.clone(), x.to_sparse()] {
        assert_eq!(parts.leaves_of(&x).unwrap(), [2, 0, 1]);
    }
}

#[test]
fn records_that_support_no_split_give_one_constant_feature() {
    let (x, action, reward) = sample(30, 1);
    let equal = vec![0.5; 30];
    let few = Boosting { least_records: 16, ..small() };
    for map in [trees(&small(), &(x.clone(), action.clone(), equal)), trees(&few, &(x.clone(), action, reward))] {
        assert_eq!((map.output(), map.tree_parts().unwrap().trees()), (1, 1));
        assert!(map.apply(&x).unwrap().iter().all(|row| row.values() == [1.0]));
    }
}

#[test]
fn trees_come_back_from_their_parts() {
    let map = trees(&small(), &sample(200, 5));
    let parts = map.tree_parts().unwrap();
    let from = |input, features: &[u32], thresholds: &[f32]| {
        FeatureMap::trees_from_parts(input, features.to_vec(), thresholds.to_vec()).unwrap()
    };
    let again = from(4, parts.features(), parts.thresholds());
    assert_eq!(again, map);
    assert_eq!(again.tree_parts().unwrap().fingerprint(), parts.fingerprint());
    let mut moved = parts.thresholds().to_vec();
    moved[0] = moved[0].next_up();
    for other in [from(5, parts.features(), parts.thresholds()), from(4, parts.features(), &moved)] {
        assert_ne!(other, map);
        assert_ne!(other.tree_parts().unwrap().fingerprint(), parts.fingerprint());
    }
    assert_eq!(from(1, &[0, LEAF, LEAF], &[-0.0, 0.0, -0.0]), from(1, &[0, LEAF, LEAF], &[0.0; 3]));
    assert!(map.kernel_parts().is_none() && map.fourier_settings().is_none() && !map.is_identity());
    assert!(FeatureMap::identity(3).tree_parts().is_none());
}

#[test]
fn parts_of_trees_are_checked() {
    let text = |input, features: &[u32], thresholds: &[f32]| {
        FeatureMap::trees_from_parts(input, features.to_vec(), thresholds.to_vec()).unwrap_err().to_string()
    };
    assert_eq!(text(0, &[LEAF], &[0.0]), "the number of features should be from 1 to 4294967295, but is 0");
    assert_eq!(text(2, &[], &[]), "trees should have from 1 to 4294967294 nodes, but has 0");
    assert_eq!(text(2, &[LEAF], &[]), "thresholds should have 1 entries, one for each node, but has 0");
    assert_eq!(
        text(2, &[0, LEAF, 2], &[0.0; 3]),
        "row 2: the feature of a node should be below 2, or 4294967295 for a leaf, but is 2"
    );
    assert_eq!(text(2, &[LEAF], &[1.0]), "row 0: the threshold of a leaf should be 0, but is 1");
    for (threshold, found) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        assert_eq!(
            text(2, &[0, LEAF, LEAF], &[threshold, 0.0, 0.0]),
            format!("row 0: the threshold of a node should be finite, but is {found}")
        );
    }
    for (features, missing) in [(&[0][..], 2), (&[0, LEAF], 1), (&[LEAF, 0, 1, LEAF], 2), (&[0, 1, 1], 4)] {
        assert_eq!(
            text(2, features, &vec![0.0; features.len()]),
            format!("the last tree should be complete, but is without {missing} of its parts")
        );
    }
}

#[test]
fn records_and_settings_are_checked() {
    let (x, action, reward) = sample(10, 1);
    let text = |boosting: &Boosting, x: &Contexts, action: &[u32], reward: &[f64]| {
        FeatureMap::trees(boosting, 3, x, action, reward).unwrap_err().to_string()
    };
    let with = |change: fn(&mut Boosting)| {
        let mut boosting = small();
        change(&mut boosting);
        text(&boosting, &x, &action, &reward)
    };
    assert_eq!(with(|b| b.trees = 0), "the number of trees should be from 1 to 65536, but is 0");
    assert_eq!(with(|b| b.leaves = 1), "the number of leaves of a tree should be from 2 to 65536, but is 1");
    assert_eq!(
        with(|b| b.least_records = 0),
        "the smallest number of records of a leaf should be at least 1, but is 0"
    );
    assert_eq!(with(|b| b.shrinkage = 0.0), "the shrinkage should be in (0, 1], but is 0");
    assert_eq!(with(|b| b.share = f64::NAN), "the share of features should be in (0, 1], but is NaN");
    assert_eq!(with(|b| b.ridge = f64::INFINITY), "the ridge should be finite and above 0, but is inf");
    assert_eq!(
        text(&small(), &x.slice(0..0), &[], &[]),
        "the records that trees are grown on should have from 1 to 2147483647 rows, but has 0"
    );
    assert_eq!(
        text(&small(), &x, &action[1..], &reward),
        "action should have 10 entries, one for each context, but has 9"
    );
    assert_eq!(
        text(&small(), &x, &action, &reward[1..]),
        "reward should have 10 entries, one for each context, but has 9"
    );
    assert_eq!(text(&small(), &x, &[3; 10], &reward), "row 0: action should be below 3, but is 3");
    assert_eq!(text(&small(), &x, &action, &[1.5; 10]), "row 0: reward should be in [0, 1], but is 1.5");
    assert_eq!(text(&small(), &x, &action, &[f64::NAN; 10]), "row 0: reward should be in [0, 1], but is NaN");
}

#[test]
fn few_records_and_features_do_not_panic() {
    for p in [1, 2, 70_000] {
        let x = Contexts::sparse(vec![0, 1, 1, 1], vec![p as u32 - 1], vec![-3.0], p).unwrap();
        let boosting = Boosting { least_records: 1, share: 1.0, ridge: 1e-3, ..Boosting::default() };
        let map = FeatureMap::trees(&boosting, 2, &x, &[1, 1, 0], &[1.0, 0.0, 1.0]).unwrap();
        // Only the first record has another value than the others.
        assert_eq!(map.tree_parts().unwrap().features()[..3], [p as u32 - 1, LEAF, LEAF]);
        assert_eq!(map.tree_parts().unwrap().thresholds()[0], -1.5);
    }
}

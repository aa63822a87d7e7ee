//! Features agree with their definitions.

use super::*;

fn dot(a: &Contexts, i: usize, j: usize) -> f64 {
    let pairs = a.row(i).values().iter().zip(a.row(j).values());
    pairs.map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

#[test]
fn inner_products_of_fourier_features_approach_the_kernel() {
    let x = Contexts::dense(vec![0.6, 0.8, 1.0, 0.0, 0.0, 0.0], 2).unwrap();
    let phi = FeatureMap::fourier(2, 20_000, 0.7, 1).unwrap().apply(&x).unwrap();
    for (i, j, distance2) in [(0, 1, 0.8), (0, 2, 1.0), (1, 1, 0.0)] {
        let kernel = f64::exp(-distance2 / (2.0 * 0.49));
        assert!((dot(&phi, i, j) - kernel).abs() < 0.03, "{i} {j}");
    }
}

#[test]
fn the_same_seed_gives_the_same_map_and_storage_does_not_matter() {
    let x = Contexts::dense(vec![0.0, 1.5, -2.0, 0.0, 0.0, 0.5], 3).unwrap();
    let map = || FeatureMap::fourier(3, 8, 1.0, 5).unwrap().with_intercept();
    let (a, b) = (map().apply(&x).unwrap(), map().apply(&x.to_sparse()).unwrap());
    assert_eq!(a.row(1).values(), b.row(1).values());
    assert_eq!(a.row(0).values()[8], 1.0);
    assert_ne!(map(), FeatureMap::fourier(3, 8, 1.0, 6).unwrap().with_intercept());
}

#[test]
fn the_intercept_is_the_last_feature_in_both_storages() {
    let x = Contexts::dense(vec![0.0, 2.0], 2).unwrap();
    for x in [x.clone(), x.to_sparse()] {
        let mapped = FeatureMap::identity(2).with_intercept().apply(&x).unwrap();
        assert_eq!(mapped.to_dense().row(0).values(), [0.0, 2.0, 1.0]);
    }
}

#[test]
fn the_rule_of_thumb_is_the_median_distance() {
    // Sorted: the median distance of two points of [0, 1] is 1 - sqrt(1/2).
    let x = Contexts::dense((0..1000).map(|i| i as f32 / 1000.0).collect(), 1).unwrap();
    assert!((FeatureMap::rule_of_thumb(&x) - 0.293).abs() < 0.05);
    assert_eq!(FeatureMap::rule_of_thumb(&x.slice(0..1)), 1.0);
}

#[test]
fn settings_and_sizes_are_checked() {
    assert_eq!(
        FeatureMap::fourier(3, 0, 1.0, 1).unwrap_err().to_string(),
        "the number of Fourier features should be from 1 to 4294967295, but is 0"
    );
    assert_eq!(FeatureMap::fourier(3, 5, 0.0, 1).unwrap_err().to_string(), "the bandwidth should be above 0, but is 0");
    assert_eq!(
        FeatureMap::fourier(1 << 20, 1 << 20, 1.0, 1).unwrap_err().to_string(),
        "features that go in x Fourier features should be at most 134217728, but is 1048576 x 1048576"
    );
    let x = Contexts::dense(vec![1.0], 1).unwrap();
    assert_eq!(
        FeatureMap::identity(2).apply(&x).unwrap_err().to_string(),
        "contexts should have 2 features, as the policy, but has 1"
    );
}

/// Points on a wave in three dimensions, some of their features 0.
fn wave(n: usize, shift: f32) -> Contexts {
    let point = |i: usize| {
        let t = i as f32 * 0.37 + shift;
        [t.sin(), if i.is_multiple_of(3) { 0.0 } else { (2.3 * t).cos() }, (0.7 * t).sin() * t.cos()]
    };
    Contexts::dense((0..n).flat_map(point).collect(), 3).unwrap()
}

fn kernel(a: &Contexts, i: usize, j: usize, bandwidth: f64) -> f64 {
    let pairs = a.row(i).values().iter().zip(a.row(j).values());
    let distance2: f64 = pairs.map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum();
    (-distance2 / (2.0 * bandwidth * bandwidth)).exp()
}

/// The largest error of the inner products as approximations of the kernel.
fn kernel_error(map: &FeatureMap, x: &Contexts, bandwidth: f64) -> f64 {
    let phi = map.apply(x).unwrap();
    let pairs = (0..x.len()).flat_map(|i| (0..=i).map(move |j| (i, j)));
    pairs.map(|(i, j)| (dot(&phi, i, j) - kernel(x, i, j, bandwidth)).abs()).fold(0.0, f64::max)
}

#[test]
fn inner_products_of_kernel_features_are_the_kernel_on_the_landmarks() {
    let x = wave(40, 0.0);
    for x in [x.clone(), x.to_sparse(), x.select(&[3, 1, 17, 30, 2])] {
        let map = FeatureMap::kernel(&x, x.len(), 0.4).unwrap();
        assert_eq!((map.input(), map.output(), map.is_identity(), map.is_linear()), (3, x.len(), false, false));
        assert!(kernel_error(&map, &x.to_dense(), 0.4) < 1e-6);
    }
}

#[test]
fn inner_products_of_kernel_features_approach_the_kernel() {
    let (known, x) = (wave(300, 0.1), wave(40, 0.0));
    let error = |count| kernel_error(&FeatureMap::kernel(&known, count, 0.7).unwrap(), &x, 0.7);
    let errors = [5, 20, 80].map(error);
    assert!(errors[0] > 0.1 && errors[1] < errors[0] / 5.0 && errors[2] < errors[1] / 20.0, "{errors:?}");
    // The same number of random features is less accurate.
    assert!(kernel_error(&FeatureMap::fourier(3, 80, 0.7, 1).unwrap(), &x, 0.7) > 0.1);
}

#[test]
fn kernel_features_are_uncorrelated_on_the_landmarks_and_lead_with_the_largest() {
    let x = wave(30, 0.0);
    let phi = FeatureMap::kernel(&x, 6, 0.8).unwrap().apply(&x).unwrap();
    let moment = |f: usize, g: usize| -> f64 {
        phi.iter().map(|row| f64::from(row.values()[f]) * f64::from(row.values()[g])).sum()
    };
    for f in 0..6 {
        assert!((0..f).all(|g| moment(f, g).abs() < 1e-5 && moment(f, f) < moment(g, g)));
    }
}

#[test]
fn kernel_features_do_not_depend_on_storage_threads_or_views() {
    let (known, x) = (wave(200, 0.1), wave(1000, 0.0));
    let map = FeatureMap::kernel(&known, 30, 0.8).unwrap().with_intercept();
    let bits = |threads, x: &Contexts| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let map = pool.install(|| FeatureMap::kernel(&known, 30, 0.8).unwrap().with_intercept());
        let phi = pool.install(|| map.apply(x).unwrap());
        phi.iter().flat_map(|row| row.values().to_vec()).map(f32::to_bits).collect::<Vec<u32>>()
    };
    assert_eq!(bits(1, &x), bits(2, &x));
    let phi = map.apply(&x).unwrap();
    let sparse = FeatureMap::kernel(&known.to_sparse(), 30, 0.8).unwrap().with_intercept();
    for other in [map.apply(&x.to_sparse()).unwrap(), sparse.apply(&x).unwrap(), sparse.apply(&x.to_sparse()).unwrap()]
    {
        for (a, b) in phi.iter().zip(other.iter()) {
            assert!(a.values().iter().zip(b.values()).all(|(a, b)| (a - b).abs() < 1e-6));
        }
    }
    assert!(phi.iter().all(|row| row.values()[30] == 1.0));
    let view = map.apply(&x.select(&[700])).unwrap();
    assert!(view.row(0).values().iter().zip(phi.row(700).values()).all(|(a, b)| (a - b).abs() < 1e-6));
}

#[test]
fn kernel_features_come_back_from_their_parts() {
    let map = FeatureMap::kernel(&wave(50, 0.0), 8, 0.8).unwrap();
    let parts = map.kernel_parts().unwrap();
    assert_eq!((parts.landmarks().len(), parts.count(), parts.bandwidth()), (50, 8, 0.8));
    let from = |landmarks: Contexts, bandwidth| {
        FeatureMap::kernel_from_parts(landmarks, bandwidth, parts.projection().to_vec()).unwrap()
    };
    let again = from(parts.landmarks().clone(), 0.8);
    assert_eq!(again, map);
    assert_eq!(from(parts.landmarks().to_sparse(), 0.8), map);
    assert_eq!(again.kernel_parts().unwrap().fingerprint(), parts.fingerprint());
    assert_ne!(from(parts.landmarks().clone(), 0.9), map);
    assert_ne!(from(wave(50, 0.1), 0.8), map);
    assert_ne!(map.clone().with_intercept(), map);
    assert!(map.fourier_settings().is_none() && FeatureMap::identity(3).kernel_parts().is_none());
}

#[test]
fn there_are_at_most_1500_landmarks_drawn_of_all_contexts() {
    // Sorted: the first 1,500 are those below 0.75.
    let x = Contexts::dense((0..2000).map(|i| i as f32 / 2000.0).collect(), 1).unwrap();
    let map = FeatureMap::kernel(&x, 3, 0.5).unwrap();
    let landmarks = map.kernel_parts().unwrap().landmarks();
    assert_eq!(landmarks.len(), FeatureMap::MOST_LANDMARKS);
    let above = landmarks.iter().filter(|row| row.values()[0] >= 0.75).count();
    assert!((300..450).contains(&above), "{above}");
}

#[test]
fn any_bandwidth_above_0_gives_numbers() {
    let x = Contexts::dense(vec![f32::MAX, 0.0, 1.0, f32::MIN_POSITIVE, -f32::MAX, 1.0], 2).unwrap();
    for (bandwidth, kernel) in [(5e-324, 0.0), (1e-200, 0.0), (1e300, 1.0), (f64::MAX, 1.0)] {
        let map = FeatureMap::kernel(&x, 1, bandwidth).unwrap();
        let phi = map.apply(&x.select(&[1, 0, 2])).unwrap();
        assert!((dot(&phi, 1, 2) - kernel).abs() < 1e-6, "{bandwidth}");
    }
}

#[test]
fn parts_of_kernel_features_are_checked() {
    let text = |result: Result<FeatureMap>| result.unwrap_err().to_string();
    let x = wave(20, 0.0);
    for (count, found) in [(0, "0"), (21, "21")] {
        assert_eq!(
            text(FeatureMap::kernel(&x, count, 1.0)),
            format!("the number of kernel features should be from 1 to 20, the number of landmarks, but is {found}")
        );
    }
    assert_eq!(
        text(FeatureMap::kernel(&x.slice(0..0), 1, 1.0)),
        "the contexts that landmarks are taken of should have at least 1 row, but has 0"
    );
    for (bandwidth, allowed) in [(0.0, "above 0, but is 0"), (f64::INFINITY, "finite and above 0, but is inf")] {
        assert_eq!(text(FeatureMap::kernel(&x, 3, bandwidth)), format!("the bandwidth should be {allowed}"));
    }
    // Each context twice.
    assert_eq!(
        text(FeatureMap::kernel(&x.select(&[0, 1, 2, 3, 0, 1, 2, 3]), 5, 0.3)),
        "the number of kernel features should be from 1 to 4, as many as the contexts support at this bandwidth, but is 5"
    );
    let parts = |x: Contexts, bandwidth, projection| text(FeatureMap::kernel_from_parts(x, bandwidth, projection));
    assert_eq!(parts(x.slice(0..0), 1.0, vec![1.0]), "landmarks should have at least 1 row, but has 0");
    for n in [0, 1, 3] {
        assert_eq!(
            parts(x.slice(0..2), 1.0, vec![1.0; n]),
            format!("the projection should have a multiple of 2 entries, a row for each landmark, but has {n}")
        );
    }
    assert_eq!(
        parts(x.slice(0..2), 1.0, vec![1.0; 6]),
        "the number of kernel features should be from 1 to 2, the number of landmarks, but is 3"
    );
    assert_eq!(
        parts(x.slice(0..2), 1.0, vec![1.0, 1.0, 1.0, f64::NAN]),
        "row 1: feature 1 of the projection should be finite, but is NaN"
    );
    assert_eq!(parts(x.slice(0..2), -1.0, vec![1.0; 2]), "the bandwidth should be above 0, but is -1");
    let wide = Contexts::sparse(vec![0, 0, 0], vec![], vec![], 1 << 30).unwrap();
    assert_eq!(
        parts(wide, 1.0, vec![1.0; 2]),
        "features that go in x landmarks should be at most 1073741824, but is 1073741824 x 2"
    );
    let steep = FeatureMap::kernel_from_parts(x.slice(0..1), 1.0, vec![1e300]).unwrap();
    assert_eq!(steep.apply(&x).unwrap_err().to_string(), "row 0: feature 0 should be finite, but is inf");
}

#[test]
fn contexts_come_before_made_features_and_the_intercept_last() {
    let known = Contexts::dense(vec![0.0, 1.0, 2.0, 0.5, 0.25, 0.0], 2).unwrap();
    let trees = FeatureMap::trees_from_parts(2, vec![1, u32::MAX, u32::MAX], vec![0.7, 0.0, 0.0]).unwrap();
    let maps = [FeatureMap::kernel(&known, 2, 1.0).unwrap(), FeatureMap::fourier(2, 3, 1.0, 1).unwrap(), trees];
    for kernel in maps {
        let both = kernel.clone().with_contexts().with_intercept();
        let made = kernel.output();
        assert_eq!((both.output(), both.contexts(), both.is_identity()), (2 + made + 1, true, false));
        assert_eq!(both.kinds(), [0..2, 2..2 + made, 2 + made..3 + made]);
        assert_eq!(kernel.kinds().first(), Some(&(0..made)));
        let made = kernel.apply(&known).unwrap().to_dense();
        for x in [known.clone(), known.to_sparse()] {
            let phi = both.apply(&x).unwrap();
            assert_eq!(phi.is_sparse(), x.is_sparse());
            let phi = phi.to_dense();
            for i in 0..3 {
                let expected = [known.row(i).values(), made.row(i).values(), &[1.0]].concat();
                assert_eq!(phi.row(i).values(), expected);
            }
        }
        let print = |map: &FeatureMap| {
            let mut hasher = Hasher::new("map");
            map.hash(&mut hasher);
            map.hash_made(&mut hasher);
            hasher.finish()
        };
        assert_ne!(print(&both), print(&kernel.clone().with_intercept()));
        assert_ne!(both, kernel.with_intercept());
    }
    let plain = FeatureMap::identity(2);
    assert_eq!(plain.clone().with_contexts(), plain);
    assert_eq!(plain.with_intercept().kinds(), [0..2, 2..3]);
}

#[test]
fn kernel_features_are_as_many_as_the_contexts_support() {
    // Four contexts, two of them equal.
    let known = Contexts::dense(vec![0.0, 1.0, 2.0, 2.0], 1).unwrap();
    let map = FeatureMap::kernel_at_most(&known, 100, 1.0).unwrap();
    assert_eq!(map, FeatureMap::kernel(&known, 3, 1.0).unwrap());
    assert_eq!(FeatureMap::kernel_at_most(&known, 2, 1.0).unwrap().output(), 2);
    assert!(FeatureMap::kernel_at_most(&known, 0, 1.0).is_err());
    assert!(FeatureMap::kernel_at_most(&known.slice(0..0), 2, 1.0).is_err());
}

/// Softmax features of two features and three scores.
fn softmax() -> SoftmaxFeatures {
    SoftmaxFeatures::new(2, vec![1.0, -0.5, 0.0, 2.0, 0.25, -1.0], vec![0.1, 0.0, -0.2]).unwrap()
}

#[test]
fn softmax_features_are_the_probabilities_of_the_scores_and_come_first() {
    let x = Contexts::dense(vec![0.5, -1.0, 300.0, 200.0], 2).unwrap();
    let map = FeatureMap::fourier(2, 4, 1.0, 7).unwrap();
    let beside = map.clone().with_softmax(Arc::new(softmax())).unwrap().with_intercept();
    assert_eq!(beside.kinds(), vec![0..3, 3..7, 7..8]);
    let (made, all) = (map.apply(&x).unwrap(), beside.apply(&x).unwrap());
    for i in 0..2 {
        let row = all.row(i).values().to_vec();
        assert_eq!((&row[3..7], row[7]), (made.row(i).values(), 1.0));
        let x: Vec<f64> = x.row(i).values().iter().map(|&v| f64::from(v)).collect();
        let score =
            |j: usize| softmax().weights()[j] * x[0] + softmax().weights()[3 + j] * x[1] + softmax().constants()[j];
        for (j, &found) in row[..3].iter().enumerate() {
            let p = 1.0 / (0..3).map(|b| (score(b) - score(j)).exp()).sum::<f64>();
            assert!((f64::from(found) - p).abs() < 1e-7, "{i} {j}: {found} {p}");
        }
    }
    let both = map.with_contexts().with_softmax(Arc::new(softmax())).unwrap();
    assert_eq!(both.kinds(), vec![0..2, 2..5, 5..9]);
    assert_eq!(&both.apply(&x).unwrap().row(0).values()[..5], [x.row(0).values(), &all.row(0).values()[..3]].concat());
}

#[test]
fn parts_of_softmax_features_are_checked() {
    let text = |input: usize, weights: &[f64], constants: &[f64]| {
        SoftmaxFeatures::new(input, weights.to_vec(), constants.to_vec()).unwrap_err().to_string()
    };
    assert_eq!(text(2, &[], &[]), "the scores of a softmax should have at least 1 feature x 1 score, but has 0");
    assert_eq!(text(2, &[1.0; 3], &[0.0; 2]), "the weights of a softmax should have 2 x 2 entries, but has 3");
    assert_eq!(text(1, &[1.0, f64::NAN], &[0.0; 2]), "row 1: the weights of a softmax should be finite, but is NaN");
    let softmax = Arc::new(softmax());
    let map = FeatureMap::identity(2).with_softmax(Arc::clone(&softmax)).unwrap_err().to_string();
    assert_eq!(map, "softmax features should be beside Fourier, kernel or tree features, but is alone");
    let map = FeatureMap::fourier(3, 4, 1.0, 7).unwrap().with_softmax(softmax).unwrap_err().to_string();
    assert_eq!(map, "the contexts of a softmax should have 3 features, as the feature map, but has 2");
}

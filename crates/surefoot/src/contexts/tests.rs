//! Contexts behave the same in every form and as every view.

use proptest::prelude::*;

use super::*;

#[test]
fn both_storages_hold_the_same_rows_and_norms() {
    let dense = Contexts::dense(vec![0.0, 3.0, 4.0, 0.0, 0.0, 0.0], 3).unwrap();
    let sparse = dense.to_sparse();
    assert!(sparse.is_sparse());
    for i in 0..2 {
        assert_eq!(dense.norm(i), sparse.norm(i));
    }
    let back = sparse.to_dense();
    assert_eq!(back.row(0).values(), dense.row(0).values());
    assert_eq!(back.row(1).values(), dense.row(1).values());
}

#[test]
fn parts_and_single_values_of_rows_are_those_of_the_row() {
    for p in [5, 70_000] {
        let sparse = Contexts::sparse(vec![0, 2, 2], vec![1, 3], vec![7.0, -2.0], p).unwrap();
        for x in [sparse.to_dense(), sparse] {
            assert_eq!([0, 1, 2, 3, p - 1].map(|f| x.row(0).value(f)), [0.0, 7.0, 0.0, -2.0, 0.0]);
            assert_eq!([0, 1, 2, 3, p - 1].map(|f| x.row(1).value(f)), [0.0; 5]);
            let within = |from: usize, to: usize| {
                let mut found = Vec::new();
                x.row(0).for_each_in(from..to, |f, v| {
                    if v != 0.0 {
                        found.push((f, v));
                    }
                });
                found
            };
            assert_eq!(within(0, p), [(1, 7.0), (3, -2.0)]);
            assert_eq!((within(1, 3), within(3, 4), within(4, p)), (vec![(1, 7.0)], vec![(3, -2.0)], vec![]));
        }
    }
}

#[test]
fn compact_picks_the_smaller_form() {
    let mut values = vec![0.0; 40];
    values[7] = 1.0;
    assert!(Contexts::dense(values, 10).unwrap().compact().is_sparse());
    assert!(!Contexts::dense(vec![1.0; 40], 10).unwrap().to_sparse().compact().is_sparse());
}

#[test]
fn errors_name_row_and_feature() {
    let text = |r: Result<Contexts>| r.unwrap_err().to_string();
    assert_eq!(
        text(Contexts::dense(vec![0.0, 1.0, f32::NAN, 2.0], 2)),
        "row 1: feature 0 should be finite, but is NaN"
    );
    assert_eq!(text(Contexts::dense(vec![0.0; 5], 2)), "dense contexts should have a multiple of 2 values, but has 5");
    assert_eq!(text(Contexts::dense(vec![], 0)), "the number of features should be from 1 to 4294967295, but is 0");
    assert_eq!(
        text(Contexts::sparse(vec![0, 1, 2], vec![0, 9], vec![1.0, 1.0], 9)),
        "row 1: feature index should be below 9, but is 9"
    );
    assert_eq!(
        text(Contexts::sparse(vec![0, 2], vec![4, 4], vec![1.0, 1.0], 9)),
        "row 0: feature index should be strictly increasing (at least 5 here), but is 4"
    );
    assert_eq!(
        text(Contexts::sparse(vec![0, 7, 1, 2], vec![0, 1], vec![1.0, 1.0], 9)),
        "row 1: offset should be at most the next one, 1, but is 7"
    );
    assert_eq!(
        text(Contexts::sparse(vec![0, 2], vec![0, 1], vec![1.0], 9)),
        "sparse values should have 2 entries, one for each index, but has 1"
    );
    assert_eq!(text(Contexts::sparse(vec![], vec![], vec![], 9)), "row 0: offset should be 0, but is None");
    assert_eq!(
        text(Contexts::sparse(vec![0, 3], vec![0], vec![1.0], 9)),
        "row 1: offset should be 1, the number of indices, but is 3"
    );
}

#[test]
fn slices_and_selections_share_the_rows() {
    let all = Contexts::dense((0..8).map(|v| v as f32).collect(), 2).unwrap();
    for contexts in [all.clone(), all.to_sparse()] {
        let (slice, selection) = (contexts.slice(1..4), contexts.select(&[3, 0]));
        assert_eq!(slice.row(1).values(), contexts.row(2).values());
        assert_eq!(selection.row(0).values(), contexts.row(3).values());
        let last = slice.select(&[0, 2]).slice(1..2);
        assert_eq!(last.norm(0), contexts.norm(3));
        for view in [slice, selection, last] {
            assert!(Arc::ptr_eq(&view.storage, &contexts.storage));
        }
    }
}

#[test]
fn unit_rows_have_norm_one_and_zero_rows_stay() {
    let x = Contexts::dense(vec![3.0, 4.0, 0.0, 0.0], 2).unwrap();
    for x in [x.clone(), x.to_sparse()] {
        let unit = x.unit_rows();
        assert!((unit.norm(0) - 1.0).abs() < 1e-7);
        assert_eq!(unit.norm(1), 0.0);
        assert_eq!(unit.to_dense().row(0).values(), [0.6, 0.8]);
    }
}

#[test]
fn unit_rows_are_made_in_place_unless_somebody_else_looks() {
    let address = |x: &Contexts| x.row(0).values().as_ptr();
    let x = Contexts::dense(vec![3.0, 4.0, 0.0, 5.0], 2).unwrap();
    let shared = x.clone().unit_rows();
    assert_ne!(address(&shared), address(&x));
    assert_eq!(x.norm(0), 5.0);
    let part = x.select(&[1]).unit_rows();
    assert_eq!((part.len(), part.row(0).values()), (1, &[0.0, 1.0][..]));
    let before = address(&x);
    let unit = x.unit_rows();
    assert_eq!(address(&unit), before);
    assert!(Arc::ptr_eq(&unit.clone().unit_rows().storage, &unit.storage), "they are unit rows already");
}

#[test]
fn indices_take_two_bytes_up_to_65536_features_and_four_beyond() {
    for (features, narrow) in [(65_536, true), (65_537, false)] {
        let last = features - 1;
        let x = Contexts::sparse(vec![0, 2, 2], vec![3, last as u32], vec![1.0, 2.0], features).unwrap();
        for x in [x.clone(), x.select(&[0]).with_ones().unwrap(), x.to_dense().to_sparse()] {
            let Row::Sparse { indices, .. } = x.row(0) else { panic!("sparse contexts have sparse rows") };
            let is_narrow = matches!(indices, Indices::Narrow(_));
            assert_eq!(is_narrow, narrow && x.features() == features, "{}", x.features());
            let mut seen = Vec::new();
            x.row(0).for_each(|f, v| seen.push((f, v)));
            assert_eq!(seen[..2], [(3, 1.0), (last, 2.0)]);
            assert_eq!(seen.get(2), (x.features() > features).then_some(&(features, 1.0)));
        }
    }
}

#[test]
fn a_builder_makes_what_compact_makes_of_all_values() {
    for values in [vec![0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], vec![1.0, 2.0, 0.0, 4.0, 0.0, 6.0, 0.0, 0.0, 0.0]]
    {
        let filled = values.iter().filter(|&&v| v != 0.0).count();
        let mut builder = ContextsBuilder::new(3, 3, filled).unwrap();
        values.chunks(2).for_each(|piece| builder.extend(piece.iter().copied()).unwrap());
        let expected = Contexts::dense(values, 3).unwrap().compact();
        assert_alike(&builder.finish().unwrap(), &expected);
    }
}

#[test]
fn a_builder_names_what_is_wrong() {
    let text = |rows, filled, values: &[f32]| {
        let built = ContextsBuilder::new(rows, 2, filled).and_then(|mut builder| {
            builder.extend(values.iter().copied())?;
            builder.finish()
        });
        built.unwrap_err().to_string()
    };
    assert_eq!(text(2, 4, &[0.0, 1.0, 2.0]), "contexts should have 2 rows x 2 values, but has 3");
    assert_eq!(text(1, 2, &[0.0; 4]), "contexts should have 1 rows x 2 values, but has 4");
    assert_eq!(text(1, 3, &[]), "contexts should have at most 1 x 2 non-zero values, but has 3");
    assert_eq!(text(2, 4, &[0.0, 1.0, f32::NAN]), "row 1: feature 0 should be finite, but is NaN");
}

/// Both have the same rows in the same form, bit for bit.
fn assert_alike(a: &Contexts, b: &Contexts) {
    let content = |x: &Contexts| {
        let row = |i| {
            let mut row = Vec::new();
            x.row(i).for_each(|f, v| row.push((f, v)));
            (row, x.norm(i))
        };
        (x.is_sparse(), x.features(), (0..x.len()).map(row).collect::<Vec<_>>())
    };
    assert_eq!(content(a), content(b));
    assert_eq!(a.iter().len(), a.len());
}

/// Rows of three features, a form, the indices of a selection, and both ends of a slice of it as fractions.
fn views() -> impl Strategy<Value = (Vec<f32>, bool, Vec<prop::sample::Index>, (f64, f64))> {
    let value = prop_oneof![3 => Just(0.0f32), 1 => -2.0f32..2.0];
    let rows = (1usize..8).prop_flat_map(move |n| prop::collection::vec(value.clone(), 3 * n));
    let places = prop::collection::vec(any::<prop::sample::Index>(), 0..12);
    (rows, any::<bool>(), places, (0.0..1.0f64, 0.0..1.0f64))
}

proptest! {
    #[test]
    fn a_view_behaves_as_a_copy((values, sparse, places, ends) in views()) {
        let all = Contexts::dense(values.clone(), 3).unwrap();
        let all = if sparse { all.to_sparse() } else { all };
        let places: Vec<usize> = places.iter().map(|place| place.index(all.len())).collect();
        let end = |share: f64| (share * (places.len() + 1) as f64) as usize;
        let range = end(ends.0.min(ends.1))..end(ends.0.max(ends.1));
        let backwards: Vec<usize> = (0..range.len()).rev().collect();
        let view = all.select(&places).slice(range.clone()).select(&backwards);

        let rows = places[range].iter().rev().flat_map(|&i| values[3 * i..3 * i + 3].iter().copied());
        let copy = Contexts::dense(rows.collect(), 3).unwrap();
        let copy = if sparse { copy.to_sparse() } else { copy };
        assert_alike(&view, &copy);
        assert_alike(&view.to_dense(), &copy.to_dense());
        assert_alike(&view.to_sparse(), &copy.to_sparse());
        assert_alike(&view.clone().compact(), &copy.clone().compact());
        assert_alike(&view.with_ones().unwrap(), &copy.with_ones().unwrap());
        assert_alike(&view.unit_rows(), &copy.unit_rows());
    }
}

#[test]
fn copied_rows_are_the_same_rows() {
    for features in [5, 70_000] {
        let parts = || (vec![0, 2, 2, 3], vec![0, 4, 3], vec![1.0, -2.0, 0.5]);
        let (offsets, indices, values) = parts();
        let one = Contexts::copied(offsets, &indices, &values, features).unwrap();
        let (offsets, indices, values) = parts();
        let other = Contexts::sparse(offsets, indices, values, features).unwrap();
        for i in 0..3 {
            assert_eq!(format!("{:?}", one.row(i)), format!("{:?}", other.row(i)));
            assert_eq!(one.norm(i).to_bits(), other.norm(i).to_bits());
        }
    }
    let wrong = Contexts::copied(vec![0, 2], &[3, 1], &[1.0, 1.0], 5).unwrap_err();
    assert_eq!(wrong.to_string(), "row 0: feature index should be strictly increasing (at least 4 here), but is 1");
}

#[test]
fn foreign_memory_is_looked_at_and_never_changed() {
    let rows: Arc<Vec<f32>> = Arc::new(vec![3.0, 4.0, 0.0, 1.0]);
    struct Theirs(Arc<Vec<f32>>);
    impl AsRef<[f32]> for Theirs {
        fn as_ref(&self) -> &[f32] {
            &self.0
        }
    }
    let contexts = Contexts::foreign(Box::new(Theirs(Arc::clone(&rows))), 2).unwrap();
    assert_eq!(contexts.row(0).values().as_ptr(), rows.as_ptr());
    assert_eq!(contexts.unit_rows().row(0).values(), [0.6, 0.8]);
    assert_eq!(rows[..], [3.0, 4.0, 0.0, 1.0]);
    assert_eq!(Arc::strong_count(&rows), 1);
    let wrong: Vec<f32> = vec![0.0, f32::NAN];
    assert!(Contexts::foreign(Box::new(wrong), 2).is_err());
}

#[test]
fn norms_do_not_depend_on_the_rows_beside() {
    for features in [1, 7, 30] {
        // Groups of rows, and a rest.
        let values: Vec<f32> = (0..19 * features).map(|i| (i as f32).sin() / 3.0).collect();
        let all = Contexts::dense(values.clone(), features).unwrap();
        for (i, row) in values.chunks_exact(features).enumerate() {
            let alone = Contexts::dense(row.to_vec(), features).unwrap();
            assert_eq!(all.norm(i).to_bits(), alone.norm(0).to_bits());
            let with_one = Contexts::dense([row, &[1.0]].concat(), features + 1).unwrap();
            assert_eq!(all.with_ones().unwrap().norm(i).to_bits(), with_one.norm(0).to_bits());
            let twice = Contexts::dense([row, row].concat(), 2 * features).unwrap();
            assert_eq!(all.beside(&all).unwrap().norm(i).to_bits(), twice.norm(0).to_bits());
        }
    }
}

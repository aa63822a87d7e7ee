//! The gate: which challenger is promoted, and by which certificate.

use super::*;

fn challenger(strength: f64, fixed_since: Option<(usize, usize)>) -> Challenger {
    let fixed_since = fixed_since.map(|(round, record)| FixedSince { round, since: Since { round, record }, size: 4 });
    Challenger { policy: Arc::new(policy(strength)), fixed_since }
}

fn incumbent() -> Challenger {
    challenger(0.5, Some((0, 0)))
}

/// The logs that the incumbent collected.
fn rounds(sizes: &[usize]) -> Vec<Logs> {
    sizes.iter().enumerate().map(|(i, &n)| collect(&policy(0.5), n, 10 + i as u64)).collect()
}

fn judge(gate: Gate, challengers: &[Challenger], rounds: &[Logs]) -> Result<Verdict> {
    let deployed = vec![policy(0.5); rounds.len()];
    gate.judge(challengers, &incumbent(), Some(0), &deployed, rounds, &Protocol::default())
}

const MARGIN: Gate = Gate::NonInferiority { margin: 0.1 };

#[test]
fn the_gate_that_is_always_open_promotes_the_newest() {
    let promoted = |challengers: &[Challenger]| judge(Gate::Always, challengers, &[]).unwrap();
    let worse = challenger(-2.0, None);
    assert_eq!(promoted(&[challenger(2.0, None), worse]), Verdict { promoted: Some(1), certificate: None });
    assert_eq!(promoted(&[]).promoted, None);
}

#[test]
fn every_other_gate_promotes_who_is_better_on_enough_records_and_nobody_else() {
    let (few, many) = (rounds(&[30]), rounds(&[4000]));
    for gate in [Gate::Improvement, MARGIN, Gate::CertifiedRisk] {
        for fixed_since in [None, Some((0, 10))] {
            let promoted =
                |strength, rounds: &[Logs]| judge(gate, &[challenger(strength, fixed_since)], rounds).unwrap().promoted;
            assert_eq!(promoted(2.0, &many), Some(0), "{gate:?} {fixed_since:?}");
            assert_eq!(promoted(-2.0, &many), None, "{gate:?} {fixed_since:?}");
            if gate != Gate::CertifiedRisk {
                assert_eq!(promoted(2.0, &few), None, "{gate:?} {fixed_since:?}");
            }
        }
        assert_eq!(judge(gate, &[], &many).unwrap(), Verdict { promoted: None, certificate: None });
        let verdict =
            judge(gate, &[challenger(-2.0, None), challenger(2.0, None), challenger(0.5, None)], &many).unwrap();
        assert_eq!(verdict.promoted, Some(1), "the best of all");
    }
}

#[test]
fn an_equal_is_no_improvement_and_not_inferior() {
    let (rounds, equal) = (rounds(&[4000]), [challenger(0.5, Some((0, 0)))]);
    assert_eq!(judge(Gate::Improvement, &equal, &rounds).unwrap().promoted, None);
    assert_eq!(judge(Gate::CertifiedRisk, &equal, &rounds).unwrap().promoted, None);
    assert_eq!(judge(MARGIN, &equal, &rounds).unwrap().promoted, Some(0));
    let none = Gate::NonInferiority { margin: 0.0 };
    let verdict = judge(none, &equal, &rounds).unwrap();
    assert_eq!(verdict.promoted, None);
    assert!(verdict.certificate.unwrap().vacuous);
}

#[test]
fn the_margin_is_at_least_zero_and_finite() {
    for (margin, expected) in [
        (-0.1, "the margin should be at least 0, but is -0.1"),
        (f64::NAN, "the margin should be at least 0, but is NaN"),
        (f64::INFINITY, "the margin should be finite and at least 0, but is inf"),
    ] {
        assert_eq!(text(judge(Gate::NonInferiority { margin }, &[], &[])), expected);
    }
}

#[test]
fn an_older_challenger_gains_records() {
    let rounds = rounds(&[200, 1000, 2000]);
    let found: Vec<Certificate> = (1..=3)
        .map(|n| judge(Gate::Improvement, &[challenger(2.0, Some((0, 150)))], &rounds[..n]).unwrap())
        .map(|verdict| verdict.certificate.unwrap())
        .collect();
    assert_eq!(found[1..].iter().map(|c| c.records).collect::<Vec<_>>(), [1050, 3050]);
    let uppers: Vec<f64> = found.iter().map(|c| c.upper).collect();
    assert!(uppers[0] > uppers[1].max(uppers[2]), "{uppers:?}");
    assert!(found[1..].iter().all(|c| c.theorem == Theorem::FixedAdjusted && c.size == 4));
    assert!(
        found[1..]
            .iter()
            .all(|c| c.share == Share::of_round(0, Parts::UNSEEN) && c.since == Since { round: 0, record: 150 })
    );
}

#[test]
fn a_challenger_is_judged_as_a_posterior_and_on_what_it_has_not_seen() {
    let rounds = rounds(&[1000, 1000]);
    let found =
        |fixed_since| judge(Gate::Improvement, &[challenger(1.0, fixed_since)], &rounds).unwrap().certificate.unwrap();
    let (posterior, unseen, too_few) = (found(None), found(Some((0, 500))), found(Some((1, 990))));
    assert_eq!((posterior.theorem, posterior.records, posterior.size), (Theorem::Adjusted, 2000, 1));
    assert_eq!((unseen.theorem, unseen.records), (Theorem::FixedAdjusted, 1500));
    assert!(unseen.upper < posterior.upper);
    assert_eq!(too_few, posterior);
    // It has seen all records.
    assert_eq!(found(Some((1, 1000))), posterior);
    let policies = [policy(1.0), policy(0.5)];
    assert_eq!(verify(&posterior, &policies, &rounds).unwrap(), []);
    assert_eq!(verify(&unseen, &policies, &rounds).unwrap(), []);
}

#[test]
fn only_what_the_incumbent_collected_counts() {
    let mut rounds = rounds(&[1000, 1000]);
    // A mixture may look at earlier rounds, to guess how much costs vary.
    let protocol = union();
    let judge = |rounds: &[Logs], fixed_since| {
        let deployed = [policy(-1.0), policy(0.5)];
        let verdict = Gate::Improvement.judge(
            &[challenger(2.0, fixed_since)],
            &incumbent(),
            Some(1),
            &deployed,
            rounds,
            &protocol,
        );
        verdict.unwrap().certificate.unwrap()
    };
    let before = [judge(&rounds, None), judge(&rounds, Some((0, 500)))];
    assert_eq!(before[0].since, Since::round(1));
    // Records of other policies make no difference.
    rounds[0] = collect(&policy(-1.0), 700, 3);
    assert_eq!(before, [judge(&rounds, None), judge(&rounds, Some((0, 500)))]);
}

#[test]
fn a_challenger_of_the_future_is_refused() {
    let rounds = rounds(&[50]);
    for gate in [Gate::Improvement, Gate::CertifiedRisk] {
        let judged = |fixed_since| text(judge(gate, &[challenger(2.0, Some(fixed_since))], &rounds));
        assert_eq!(judged((1, 0)), "the first round should be below 1, but is 1");
        assert_eq!(judged((0, 51)), "the first record should be at most 50, but is 51");
    }
}

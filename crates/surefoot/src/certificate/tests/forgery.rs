//! Verification: a correct certificate verifies, a forged one does not.

use super::*;

/// A loop of two rounds, with a certificate of every theorem.
struct Loop {
    policies: Vec<LinearGaussian>,
    rounds: Vec<Logs>,
    certificates: Vec<Certificate>,
}

fn a_loop() -> Loop {
    let policies = vec![policy(0.0), policy(0.6), policy(1.2)];
    let rounds = vec![collect(&policies[0], 120, 1), collect(&policies[1], 150, 2)];
    let (q, p) = (&policies[2], &policies[0]);
    let protocol = protocol(&[0.9, 0.4, 0.1], Form::Psi);
    let case = Case { share: Share::of_round(1, 0.5), ..Case::whole(&rounds, &protocol) };
    let late = Case { since: Since { round: 0, record: 20 }, ..case };
    let pairs = [(&policies[1], p), (q, &policies[1])];
    let fixed = |smoothing| Certificate::fixed(smoothing, q, 4, &late).unwrap();
    let (difference, running) = (Certificate::difference(q, p, &case).unwrap(), Certificate::running(&case).unwrap());
    let certificates = vec![
        Certificate::risk(q, p, &late).unwrap(),
        Certificate::shift(Smoothing::Ls, &pairs, &case).unwrap(),
        Certificate::shift(Smoothing::Adjusted, &pairs, &case).unwrap(),
        fixed(Smoothing::Ls),
        Certificate::combined(difference.clone(), running.clone()).unwrap(),
        Certificate::combined(fixed(Smoothing::Adjusted), Certificate::running(&late).unwrap()).unwrap(),
        difference,
        fixed(Smoothing::Adjusted),
        running,
    ];
    Loop { policies, rounds, certificates }
}

#[test]
fn a_certificate_of_every_theorem_verifies() {
    let Loop { mut policies, mut rounds, certificates } = a_loop();
    let verify_all = |policies: &[LinearGaussian], rounds: &[Logs]| {
        for made in &certificates {
            let read: Certificate = serde_json::from_str(&serde_json::to_string(made).unwrap()).unwrap();
            for certificate in [made, &read] {
                assert_eq!(verify(certificate, policies, rounds).unwrap(), [], "{:?}", made.theorem);
            }
        }
    };
    verify_all(&policies, &rounds);
    policies.reverse();
    policies.insert(0, policy(7.0));
    rounds.push(collect(&policies[1], 30, 3));
    verify_all(&policies, &rounds);
}

type Forgery = Box<dyn Fn(&mut Certificate)>;

#[test]
fn no_field_of_a_certificate_can_be_changed() {
    let Loop { policies, rounds, certificates } = a_loop();
    let other = rounds[0].slice(0..5).fingerprint();
    let forgeries: Vec<(&str, Forgery)> = vec![
        ("upper", Box::new(|c| c.upper -= 1e-6)),
        ("vacuous", Box::new(|c| c.vacuous = !c.vacuous)),
        ("estimate", Box::new(|c| c.estimate -= 1e-6)),
        ("numerical", Box::new(|c| c.numerical *= 0.9)),
        ("kl", Box::new(|c| c.kl -= 1e-6)),
        ("lambda", Box::new(|c| c.lambda *= 1.0 + 1e-12)),
        ("other lambdas", Box::new(|c| c.lambdas.iter_mut().for_each(|l| *l *= 1.001))),
        ("fewer lambdas", Box::new(|c| c.lambdas.retain(|l| *l == c.lambda))),
        ("more lambdas", Box::new(|c| c.lambdas.push(0.2))),
        ("records", Box::new(|c| c.records += 1)),
        ("delta", Box::new(|c| c.delta /= 2.0)),
        ("the part of delta", Box::new(|c| c.share.part *= 0.9)),
        ("the round of the share", Box::new(|c| c.share.round = Some(2))),
        ("no round of the share", Box::new(|c| c.share.round = None)),
        ("spending", Box::new(|c| c.spending = Spending::Even { rounds: 9 })),
        ("form", Box::new(|c| c.form = if c.form == Form::Psi { Form::Plain } else { Form::Psi })),
        ("the first record", Box::new(|c| c.since.record += 1)),
        ("the first round", Box::new(|c| c.since.round += 1)),
        ("a first round that overflows", Box::new(|c| c.since.round = usize::MAX)),
        ("size", Box::new(|c| c.size = 5 - c.size)),
        ("a round left out", Box::new(|c| c.logs.truncate(1))),
        ("another round", Box::new(move |c| c.logs[0] = other)),
        ("another policy", Box::new(|c| c.policies = vec![Some(policy(0.6).fingerprint()); 2])),
        ("no policy", Box::new(|c| c.policies = vec![None])),
        ("another prior", Box::new(|c| c.priors = vec![policy(1.2).fingerprint()])),
        ("a policy that is not there", Box::new(move |c| c.policies = vec![Some(other)])),
        ("parts", Box::new(|c| c.parts.push(c.clone()))),
        ("assumptions", Box::new(|c| c.assumptions.truncate(2))),
        (
            "bounds",
            Box::new(|c| c.bounds = if c.bounds == Quantity::Risk { Quantity::MeanRisk } else { Quantity::Risk }),
        ),
    ];
    let fails = |forged: &Certificate| verify(forged, &policies, &rounds).map_or(true, |found| !found.is_empty());
    for true_one in &certificates {
        let theorem = true_one.theorem;
        for (what, forge) in &forgeries {
            let mut forged = true_one.clone();
            forge(&mut forged);
            assert_ne!(&forged, true_one, "{what}");
            assert!(fails(&forged), "{theorem:?}: {what}");
            for part in 0..true_one.parts.len() {
                let mut forged = true_one.clone();
                forge(&mut forged.parts[part]);
                assert!(fails(&forged), "{theorem:?}, part {part}: {what}");
            }
        }
        for other in certificates.iter().map(|c| c.theorem).filter(|other| *other != theorem) {
            assert!(fails(&Certificate { theorem: other, ..true_one.clone() }), "{theorem:?} as {other:?}");
        }
    }
}

#[test]
fn no_logged_number_can_be_changed() {
    let Loop { policies, rounds, certificates } = a_loop();
    let forged = |column: &str| {
        let logs = &rounds[1];
        let (mut action, mut q, mut c) = (logs.action().to_vec(), logs.propensity().to_vec(), logs.cost().to_vec());
        let mut x: Vec<f32> = logs.contexts().iter().flat_map(|row| row.values().to_vec()).collect();
        match column {
            "action" => action[149] = (action[149] + 1) % 3,
            "propensity" => q[149] *= 1.0 - 1e-15,
            "cost" => c[149] = if c[149] == 0.0 { -f64::MIN_POSITIVE } else { 0.0 },
            _ => x[449] = f32::from_bits(x[449].to_bits() + 1),
        }
        let logs = Logs::new(3, Contexts::dense(x, 3).unwrap(), action, q, c).unwrap();
        vec![rounds[0].clone(), logs]
    };
    for column in ["action", "propensity", "cost", "context"] {
        for certificate in &certificates {
            let found = verify(certificate, &policies, &forged(column)).unwrap();
            assert!(found.iter().any(|d| d.what == "the logs of round 2"), "{:?}: {column}", certificate.theorem);
        }
    }
    let swapped = [rounds[1].clone(), rounds[0].clone()];
    assert!(certificates.iter().all(|c| !verify(c, &policies, &swapped).unwrap().is_empty()));
}

#[test]
fn what_is_missing_is_named() {
    let Loop { policies, rounds, certificates } = a_loop();
    let made = &certificates[0];
    assert_eq!(
        text(verify(made, &policies, &rounds[..1])),
        "the logs should have at least 2 rounds, as the certificate, but has 1"
    );
    assert_eq!(
        text(verify(made, &policies[..2], &rounds)),
        format!("a policy should be among those given, but is {}", policies[2].fingerprint())
    );
    // A custom policy has no fingerprint, so it cannot be looked up.
    let protocol = Protocol::default();
    let own = Certificate::fixed(Smoothing::Ls, &Constant(1.0 / 3.0), 1, &Case::whole(&rounds, &protocol)).unwrap();
    assert_eq!(
        text(verify(&own, &policies, &rounds)),
        "the judged policy should be named by its fingerprint, but is not"
    );
    assert_eq!(
        text(verify(&Certificate { priors: vec![], ..made.clone() }, &policies, &rounds)),
        "the prior should be named by its fingerprint, but is not"
    );
    let combined = &certificates[4];
    let parts = |parts: Vec<Certificate>| text(verify(&Certificate { parts, ..combined.clone() }, &policies, &rounds));
    assert_eq!(parts(vec![]), "a combined certificate should have 2 parts, but has 0");
    assert_eq!(
        parts(vec![combined.clone(), combined.clone()]),
        "a part of a combined certificate should be not combined itself, but is combined"
    );
    let forged = Certificate { upper: -0.75, ..made.clone() };
    assert_eq!(
        verify(&forged, &policies, &rounds).unwrap()[0].to_string(),
        format!("upper: the certificate says -0.75, but logs and policies give {}", made.upper)
    );
}

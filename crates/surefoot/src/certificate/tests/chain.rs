//! The chain: against the slow reference `reference/chains.py`, and what follows from its inequality.

use super::*;

#[derive(Deserialize)]
struct Reference {
    mixtures: Vec<Mixed>,
    chains: Vec<Chained>,
}

#[derive(Deserialize)]
struct Mixed {
    smoothing: Smoothing,
    judged: String,
    lambdas: Vec<f64>,
    delta: f64,
    kl: f64,
    size: usize,
    p: Vec<f64>,
    q: Vec<f64>,
    c: Vec<f64>,
    upper: f64,
}

#[derive(Deserialize)]
struct Chained {
    rounds: Vec<Round>,
    part: f64,
    delta: f64,
    upper: f64,
}

#[derive(Deserialize)]
struct Round {
    p: Vec<f64>,
    q: Vec<f64>,
    c: Vec<f64>,
    first: usize,
    size: usize,
}

fn reference() -> Reference {
    let path = format!("{}/tests/golden/chains.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The probabilities of a table: a context is the number of its row, and action 0 was always taken.
#[derive(Debug)]
struct Table(Vec<f64>);

impl Policy for Table {
    fn actions(&self) -> usize {
        2
    }

    fn distribution(&self, contexts: &Contexts, _: Option<&Eligible>) -> Result<Vec<f64>> {
        let mut all = Vec::new();
        for row in contexts.iter() {
            row.for_each(|_, v| all.extend([self.0[v as usize - 1], 1.0 - self.0[v as usize - 1]]));
        }
        Ok(all)
    }
}

fn logs(round: &Round) -> Logs {
    let n = round.c.len();
    let contexts = Contexts::dense((1..=n).map(|row| row as f32).collect(), 1).unwrap();
    Logs::new(2, contexts, vec![0; n], round.q.clone(), round.c.clone()).unwrap()
}

/// Never below the reference, and above it by no more than the numerical error that is allowed for.
#[track_caller]
fn close(found: f64, numerical: f64, expected: f64) {
    assert!(found >= expected - 1e-14 && found <= expected + 4.0 * numerical + 1e-12, "{found} {expected} {numerical}");
}

#[test]
fn every_mixture_is_the_reference_s() {
    let cases = reference().mixtures;
    assert_eq!(cases.len(), 12);
    for case in &cases {
        let judged = match case.judged.as_str() {
            "posterior" => Subject::Posterior { kl: case.kl, error: 0.0, turned: false },
            _ => Subject::Fixed { size: case.size },
        };
        let evidence = [Weighed::of(&case.p, &case.q, &case.c)];
        let found = bound_of(&evidence, case.smoothing, judged, &mixed(&case.lambdas), case.delta).unwrap();
        close(found.upper, found.numerical, case.upper);
    }
}

#[test]
fn every_chain_is_the_reference_s() {
    let cases = reference().chains;
    assert_eq!(cases.len(), 5);
    for case in &cases {
        let rounds: Vec<Logs> = case.rounds.iter().map(logs).collect();
        let tables: Vec<Table> = case.rounds.iter().map(|round| Table(round.p.clone())).collect();
        let next: Vec<&dyn Policy> = tables.iter().map(|table| table as &dyn Policy).collect();
        let links: Vec<_> = case.rounds.iter().map(|r| Some(Link { first: r.first, size: r.size })).collect();
        let protocol = Protocol { delta: case.delta, ..Protocol::default() };
        let found = Certificate::chain(&next, &links, case.part, &rounds, &protocol).unwrap().unwrap();
        close(found.upper, found.numerical, case.upper);
        assert_eq!(found.size, case.rounds.iter().map(|round| round.size).product::<usize>());
        assert_eq!(
            (found.links.len(), found.logs.len(), found.policies.len()),
            (links.len(), links.len(), links.len())
        );
    }
}

/// The strengths of the policies of a loop, the first of which collects round 0.
fn strengths(strengths: &[f64]) -> Vec<LinearGaussian> {
    strengths.iter().map(|&strength| policy(strength)).collect()
}

fn chain(policies: &[LinearGaussian], rounds: &[Logs], links: &[Option<Link>]) -> Certificate {
    let next: Vec<&dyn Policy> = policies[1..].iter().map(|policy| policy as &dyn Policy).collect();
    Certificate::chain(&next, links, 0.8, rounds, &Protocol::default()).unwrap().unwrap()
}

const WHOLE: Option<Link> = Some(Link { first: 0, size: 1 });

#[test]
fn more_rounds_of_near_policies_make_a_tighter_bound() {
    let policies = strengths(&[2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6]);
    let rounds: Vec<Logs> = (0..6).map(|k| collect(&policies[k], 800, 40 + k as u64)).collect();
    let long = chain(&policies, &rounds, &[WHOLE; 6]);
    assert_eq!((long.theorem, long.bounds, long.since), (Theorem::Chain, Quantity::Risk, Since::round(0)));
    // A link that is not known cuts the chain: only what follows it counts.
    let mut links = [WHOLE; 6];
    links[4] = None;
    let short = chain(&policies, &rounds, &links);
    assert_eq!((short.since, short.records, short.policies.len()), (Since::round(5), 800, 1));
    assert!(long.upper < short.upper - 0.01, "{} {}", long.upper, short.upper);
    // A larger set costs more, and so do fewer records.
    let links = [Some(Link { first: 0, size: 5 }); 6];
    assert!(chain(&policies, &rounds, &links).upper > long.upper);
    let links = [Some(Link { first: 400, size: 1 }); 6];
    assert!(chain(&policies, &rounds, &links).upper > long.upper);
    // Without a record that the newest policy has not seen there is no chain.
    let next: Vec<&dyn Policy> = policies[1..].iter().map(|policy| policy as &dyn Policy).collect();
    for last in [None, Some(Link { first: 800, size: 1 })] {
        let links = [WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, last];
        assert_eq!(Certificate::chain(&next, &links, 0.8, &rounds, &Protocol::default()).unwrap(), None);
    }
}

#[test]
fn a_chain_of_one_round_bounds_a_fixed_policy() {
    let policies = strengths(&[1.0, 2.0]);
    let rounds = [collect(&policies[0], 600, 7)];
    let protocol = Protocol::default();
    let case = Case { share: Share::of_round(0, 0.8), ..Case::whole(&rounds, &protocol) };
    let fixed = Certificate::fixed(Smoothing::Ls, &policies[1], 1, &case).unwrap();
    let chain = chain(&policies, &rounds, &[WHOLE]);
    assert!((chain.upper - fixed.upper).abs() < 1e-12, "{} {}", chain.upper, fixed.upper);
    assert_eq!((chain.lambda, chain.records), (fixed.lambda, fixed.records));
}

#[test]
fn a_chain_verifies_and_none_of_its_values_can_be_changed() {
    let policies = strengths(&[1.0, 1.5, 2.0, 2.2]);
    let rounds: Vec<Logs> = (0..3).map(|k| collect(&policies[k], 300, 50 + k as u64)).collect();
    let true_one = chain(&policies, &rounds, &[Some(Link { first: 100, size: 2 }), WHOLE, WHOLE]);
    let read: Certificate = serde_json::from_str(&serde_json::to_string(&true_one).unwrap()).unwrap();
    assert_eq!(read, true_one);
    assert_eq!(verify(&read, &policies, &rounds).unwrap(), []);
    type Forgery = fn(&mut Certificate);
    let forgeries: [(&str, Forgery); 12] = [
        ("upper", |c| c.upper -= 1e-6),
        ("a link's first record", |c| c.links[0].first = 50),
        ("a link's set", |c| c.links[0].size = 1),
        ("an empty set", |c| c.links[0].size = 0),
        ("a first record that is not there", |c| c.links[1].first = 301),
        ("no links", |c| c.links.clear()),
        ("a policy", |c| c.policies[1] = c.policies[0]),
        ("fewer policies", |c| c.policies.truncate(2)),
        ("the part", |c| c.share.part = 0.9),
        ("the round of the share", |c| c.share.round = Some(1)),
        ("combine", |c| c.combine = Combine::Union),
        ("since", |c| c.since.record = 0),
    ];
    for (what, forge) in forgeries {
        let mut forged = true_one.clone();
        forge(&mut forged);
        assert!(verify(&forged, &policies, &rounds).map_or(true, |found| !found.is_empty()), "{what}");
    }
}

#[test]
fn what_is_no_chain_is_refused() {
    let (policies, rounds) = (strengths(&[1.0, 1.0]), [collect(&policy(1.0), 20, 1)]);
    let next: Vec<&dyn Policy> = vec![&policies[0]];
    let made = |next: &[&dyn Policy], links: &[Option<Link>], part: f64| {
        text(Certificate::chain(next, links, part, &rounds, &Protocol::default()))
    };
    assert_eq!(
        made(&[], &[WHOLE], 0.8),
        "the policies of a chain should have 1 entries, one for each round, but has 0"
    );
    assert_eq!(made(&next, &[], 0.8), "the links of a chain should have 1 entries, one for each round, but has 0");
    let empty = Some(Link { first: 0, size: 0 });
    assert_eq!(made(&next, &[empty], 0.8), "the set of policies of a link should be at least one of them, but is 0");
    assert_eq!(made(&next, &[WHOLE], 0.0), "the part of delta should be in (0, 1], but is 0");
}

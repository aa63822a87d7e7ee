//! Chains of rounds, and chains that are wrong on purpose.

use surefoot::certificate::{Link, Theorem};
use surefoot::learn::Portfolio;
use surefoot::simulate::{Certify, Plan};
use surefoot::worlds::{Environment, Finite, Turn};
use surefoot::{Algorithm, Certificate, Gate, Lambda, Learner, Logs, Policy, Protocol, Result};

use super::runs::{Seen, learner, upper};
use super::worlds::{Played, SET, World};

const ROUNDS: usize = 8;
const SIZE: usize = 60;
/// The part of each round's share that the chains here use.
const PART: f64 = 0.8;
const WHOLE: Option<Link> = Some(Link { first: 0, size: 1 });

/// Loops that hold the newest round, or a part of it, back, and choose lambda by the round before. Every policy is
/// certified at every round, and nearly always by the chain.
pub(super) fn learned(world: &World, seed: u64, held_back: f64, delta: f64) -> Result<Vec<Seen>> {
    let learner = Learner {
        lambda: Lambda::Auto,
        held_back,
        protocol: Protocol { delta, ..Protocol::default() },
        ..learner(Algorithm::SeqAdjLs, 0.9, seed)
    };
    let plan = Plan { learner, gate: Gate::Always, certify: Certify::Each };
    let sizes: Vec<usize> = (0..ROUNDS).map(|k| SIZE + 15 * (k % 3)).collect();
    let Played { rounds, .. } = world.play(&world.still, &plan, &sizes)?;
    let name = if held_back < 1.0 { "chain, half a round held back" } else { "chain, a round held back" };
    let mut chain = Seen::claim(name, world);
    for round in &rounds {
        let found = round.proven.as_ref().and_then(|proven| proven.ladder.as_ref());
        let found = found.filter(|found| found.theorem == Theorem::Chain);
        chain.look(found.map_or(f64::INFINITY, |found| found.upper), round.true_risk);
    }
    Ok(vec![chain])
}

/// Thompson sampling and the whole portfolio: the policies that collect, and those that would be handed over.
pub(super) fn modelled(world: &World, seed: u64, delta: f64) -> Result<Vec<Seen>> {
    let mut all = Vec::new();
    for (portfolio, chain, hand_over) in [
        (Portfolio::thompson(), "chain, Thompson sampling", "handed over, Thompson sampling"),
        (Portfolio::default(), "chain, portfolio", "handed over, portfolio"),
    ] {
        let learner = Learner {
            held_back: 0.5,
            protocol: Protocol { delta, ..Protocol::default() },
            ..learner(Algorithm::Portfolio(portfolio), 0.9, seed)
        };
        let plan = Plan { learner, gate: Gate::Always, certify: Certify::Each };
        let Played { rounds, .. } = world.play(&world.still, &plan, &[SIZE; ROUNDS])?;
        let (mut chain, mut hand_over) = (Seen::claim(chain, world), Seen::claim(hand_over, world));
        for round in &rounds {
            let found = round.proven.as_ref().and_then(|proven| proven.ladder.as_ref());
            chain.look(found.map_or(f64::INFINITY, |found| found.upper), round.true_risk);
            let policy = round.hand_over.as_ref();
            let found = policy.and_then(|policy| policy.certificate.as_ref());
            hand_over.look(found.map_or(f64::INFINITY, |found| found.upper), policy.map_or(0.0, |p| p.true_risk));
        }
        all.extend([chain, hand_over]);
    }
    Ok(all)
}

/// Each round's records choose which of many fixed policies is handed over; another one collects all rounds. The chain pays
/// for their number.
pub(super) fn handed_over(world: &World, seed: u64, delta: f64) -> Result<Vec<Seen>> {
    let place = Finite::new(world.still.clone(), seed)?;
    let mut logs = Vec::new();
    let mut seen = Seen::claim("handed over, one of 20", world);
    for k in 0..ROUNDS {
        logs.push(place.collect(&world.set[0], Turn { round: k, start: SIZE * k, n: SIZE })?);
        let mut links = vec![WHOLE; k + 1];
        links[k] = Some(Link { first: 0, size: SET });
        let mut lowest: Option<(f64, usize)> = None;
        for (i, policy) in world.set.iter().enumerate() {
            let mut next = vec![&world.set[0] as &dyn Policy; k];
            next.push(policy);
            let upper = hand_over(&next, &links, &logs, delta)?;
            if lowest.is_none_or(|(least, _)| upper < least) {
                lowest = Some((upper, i));
            }
        }
        let (upper, chosen) = lowest.expect("there is a policy");
        seen.look(upper, world.still[0].risk(&world.set[chosen])?);
    }
    Ok(vec![seen])
}

/// Controls: every policy, also the one that is handed over, has seen the records of its own link.
pub(super) fn leaking(world: &World, seed: u64, delta: f64) -> Result<Vec<Seen>> {
    let learner = learner(Algorithm::SeqAdjLs, 0.9, seed);
    let Played { logs, policies, .. } = world.play(&world.still, &learner.into(), &[SIZE; ROUNDS])?;
    let mut leaking = Seen::control("chain, every link was learned from", world);
    let mut handed = Seen::control("handed over, learned from its own records", world);
    for k in 1..=ROUNDS {
        let next: Vec<&dyn Policy> = policies[1..=k].iter().map(|policy| policy as &dyn Policy).collect();
        let risk = world.still[0].risk(&policies[k])?;
        leaking.look(bound(&next, &logs[..k], delta)?, risk);
        handed.look(hand_over(&next, &vec![WHOLE; k], &logs[..k], delta)?, risk);
    }
    Ok(vec![leaking, handed])
}

/// Two policies that take turns. Honestly, all rounds have one size. As a control, each round ends where the next policy
/// looks best.
pub(super) fn taking_turns(world: &World, seed: u64, delta: f64) -> Result<Vec<Seen>> {
    /// The error of each round adds up, so it takes many of them to show.
    const MANY: usize = 24;
    /// No round is shorter.
    const SHORTEST: usize = 15;
    let place = Finite::new(world.still.clone(), seed)?;
    let mut seen =
        [Seen::claim("chain of fixed policies", world), Seen::control("chain, sizes depend on costs", world)];
    for (peeks, seen) in [false, true].into_iter().zip(&mut seen) {
        let policy = |k: usize| &world.set[k % 2] as &dyn Policy;
        let (mut next, mut logs) = (Vec::new(), Vec::new());
        for k in 0..MANY {
            let whole = place.collect(policy(k), Turn { round: k, start: SIZE * k, n: SIZE })?;
            let end = if peeks { best_end(policy(k + 1), &whole, SHORTEST)? } else { SIZE };
            logs.push(whole.slice(0..end));
            next.push(policy(k + 1));
            seen.look(bound(&next, &logs, delta)?, world.still[0].risk(policy(k + 1))?);
        }
    }
    Ok(seen.to_vec())
}

/// The end at which the mean of `(w - 1) c` is lowest.
fn best_end(policy: &dyn Policy, logs: &Logs, shortest: usize) -> Result<usize> {
    let p = policy.propensity(logs.contexts(), logs.action(), logs.eligible())?;
    let (mut sum, mut best, mut lowest) = (0.0, logs.len(), f64::INFINITY);
    for (i, ((p, q), c)) in p.iter().zip(logs.propensity()).zip(logs.cost()).enumerate() {
        sum += (p / q - 1.0) * c;
        let mean = sum / (i + 1) as f64;
        if i + 1 >= shortest && mean < lowest {
            (best, lowest) = (i + 1, mean);
        }
    }
    Ok(best)
}

/// Each round's records choose the next of many fixed policies. Honestly the chain pays for their number; the control
/// spends the same share on every one of them.
pub(super) fn chosen(world: &World, seed: u64, delta: f64) -> Result<Vec<Seen>> {
    let place = Finite::new(world.still.clone(), seed)?;
    let mut seen = [
        Seen::claim("chain, each policy is one of 20", world),
        Seen::control("chain, 20 policies share one price", world),
    ];
    for (size, seen) in [SET, 1].into_iter().zip(&mut seen) {
        let (mut chosen, mut next, mut links, mut logs) = (0, Vec::new(), Vec::new(), Vec::new());
        for k in 0..ROUNDS {
            logs.push(place.collect(&world.set[chosen], Turn { round: k, start: SIZE * k, n: SIZE })?);
            links.push(Some(Link { first: 0, size }));
            let with = |policy: usize| {
                let mut next: Vec<&dyn Policy> = next.clone();
                next.push(&world.set[policy]);
                linked(&next, &links, &logs, delta)
            };
            let uppers = (0..SET).map(with).collect::<Result<Vec<f64>>>()?;
            chosen = (1..SET).fold(0, |best, i| if uppers[i] < uppers[best] { i } else { best });
            next.push(&world.set[chosen] as &dyn Policy);
            seen.look(uppers[chosen], world.still[0].risk(&world.set[chosen])?);
        }
    }
    Ok(seen.to_vec())
}

fn bound(next: &[&dyn Policy], logs: &[Logs], delta: f64) -> Result<f64> {
    linked(next, &vec![WHOLE; logs.len()], logs, delta)
}

fn hand_over(next: &[&dyn Policy], links: &[Option<Link>], logs: &[Logs], delta: f64) -> Result<f64> {
    let protocol = Protocol { delta, ..Protocol::default() };
    upper(Certificate::hand_over(next, links, logs, &protocol).map(|found| found.expect("every round is linked")))
}

fn linked(next: &[&dyn Policy], links: &[Option<Link>], logs: &[Logs], delta: f64) -> Result<f64> {
    let protocol = Protocol { delta, ..Protocol::default() };
    upper(Certificate::chain(next, links, PART, logs, &protocol).map(|found| found.expect("every round is linked")))
}

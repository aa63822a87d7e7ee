//! One run: every certificate at every round of loops in worlds with known risks.

use std::sync::Arc;

use surefoot::certificate::{Case, Challenger, Combine, Form, Share, Smoothing, Spending};
use surefoot::learn::{Family, Sharpness};
use surefoot::optim::{Adam, Optimiser};
use surefoot::simulate::{Certify, Plan};
use surefoot::worlds::{Environment, Finite, Turn};
use surefoot::{Algorithm, Certificate, Gate, Lambda, Learner, Logs, Policy, Protocol, Result};

use super::chains;
use super::worlds::{CLEAR, NARROW, Played, SET, WIDE, World};

/// The result of a run for one statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// The name of the statement.
    pub(super) name: &'static str,
    /// The world in which it was tested.
    pub(super) world: &'static str,
    /// Whether it is a negative control: a false statement that the study must detect.
    pub(super) control: bool,
    /// The smallest difference of claimed and true value over all rounds; below 0, the statement was missed.
    pub(super) margin: f64,
}

impl Seen {
    pub(super) fn claim(name: &'static str, world: &World) -> Self {
        Seen { name, world: world.name, control: false, margin: f64::INFINITY }
    }

    pub(super) fn control(name: &'static str, world: &World) -> Self {
        Seen { control: true, ..Self::claim(name, world) }
    }

    /// Compares the claimed value with the true value.
    pub(super) fn look(&mut self, claimed: f64, truth: f64) {
        self.margin = self.margin.min(claimed - truth);
    }
}

/// The worlds of a run.
#[derive(Debug)]
pub(super) struct Run {
    wide: World,
    narrow: World,
    clear: World,
}

impl Run {
    pub(super) fn new(seed: u64) -> Result<Self> {
        Ok(Run { wide: World::new(WIDE, seed)?, narrow: World::new(NARROW, seed)?, clear: World::new(CLEAR, seed)? })
    }

    /// Tests all statements in one run.
    pub(super) fn see(&self, seed: u64, delta: f64) -> Result<Vec<Seen>> {
        let Run { wide, narrow, clear } = self;
        let seen = [
            sequential(wide, &learner(Algorithm::SeqAdjLs, 0.9, seed), &[60; 5], delta, 0.5)?,
            sequential(narrow, &learner(Algorithm::SeqLs, 0.4, seed), &[40; 10], delta, 0.4)?,
            batch(narrow, seed, delta)?,
            shift(wide, seed, &[60; 5], delta, 0.3)?,
            shift(narrow, seed, &[40; 10], delta, 0.4)?,
            fixed(wide, seed, delta)?,
            held_back(narrow, seed, &[60; 5], delta)?,
            held_back(clear, seed, &[100; 5], delta)?,
            gates(clear, seed, delta)?,
            defaults(clear, seed, Loop::Default, delta)?,
            defaults(clear, seed, Loop::HoldingMoreBack, delta)?,
            defaults(clear, seed, Loop::KeepingSettings, delta)?,
            chains::learned(wide, seed, 1.0, delta)?,
            chains::learned(clear, seed, 1.0, delta)?,
            chains::learned(clear, seed, 0.5, delta)?,
            chains::modelled(wide, seed, delta)?,
            chains::taking_turns(clear, seed, delta)?,
            chains::chosen(wide, seed, delta)?,
            chains::handed_over(clear, seed, delta)?,
            chains::leaking(wide, seed, delta)?,
            without_divergence(wide, seed, delta)?,
            wrong_propensities(wide, seed, delta)?,
            reused_delta(wide, seed, delta)?,
        ];
        Ok(seen.concat())
    }
}

/// Certifies learned policies on the records they were learned from.
fn sequential(world: &World, learner: &Learner, sizes: &[usize], delta: f64, lambda: f64) -> Result<Vec<Seen>> {
    let Played { logs, policies, .. } = world.play(&world.still, &learner.clone().into(), sizes)?;
    let risks = policies.iter().map(|policy| world.still[0].risk(policy)).collect::<Result<Vec<f64>>>()?;
    let mut psi = Seen::claim("Theorem 3.2", world);
    let mut plain = Seen::claim("Theorem 3.2, plain form", world);
    let mut grid = Seen::claim("Theorem 3.2, 13 lambdas", world);
    let mut adjusted = Seen::claim("Theorem 4.1", world);
    let mut running = Seen::claim("running", world);
    let mut combined = Seen::claim("combined", world);
    let protocol = one(delta, lambda);
    let many = Protocol { delta, ..Protocol::default() };
    let bare = Protocol { form: Form::Plain, ..protocol.clone() };
    for k in 1..=sizes.len() {
        let (policy, prior, risk) = (&policies[k], &policies[0], risks[k]);
        let mean = risks[..k].iter().sum::<f64>() / k as f64;
        let case = |protocol| Case::whole(&logs[..k], protocol);
        psi.look(Certificate::risk(policy, prior, &case(&protocol))?.upper, risk);
        plain.look(Certificate::risk(policy, prior, &case(&bare))?.upper, risk);
        grid.look(Certificate::risk(policy, prior, &case(&many))?.upper, risk);
        adjusted.look(Certificate::difference(policy, prior, &case(&protocol))?.upper, risk - mean);
        running.look(Certificate::running(&case(&protocol))?.upper, mean);
        let half = Case { share: Share { round: None, part: 0.5 }, ..case(&protocol) };
        let difference = Certificate::difference(policy, prior, &half)?;
        combined.look(Certificate::combined(difference, Certificate::running(&half)?)?.upper, risk);
    }
    Ok(vec![psi, plain, grid, adjusted, running, combined])
}

/// Certifies a policy that was learned from one batch.
fn batch(world: &World, seed: u64, delta: f64) -> Result<Vec<Seen>> {
    let learner = learner(Algorithm::BatchLs, 0.5, seed);
    let Played { newest, policies, logs, .. } = world.play(&world.still, &learner.into(), &[60])?;
    let found = Certificate::risk(&newest, &policies[0], &Case::whole(&logs, &one(delta, 0.5)))?;
    let mut batch = Seen::claim("batch LS", world);
    batch.look(found.upper, world.still[0].risk(&newest)?);
    Ok(vec![batch])
}

/// Certifies policies on drifting contexts: each policy's risk is that in the round it was learned from.
fn shift(world: &World, seed: u64, sizes: &[usize], delta: f64, lambda: f64) -> Result<Vec<Seen>> {
    let learner = learner(Algorithm::ShiftAdjLs, lambda, seed);
    let Played { logs, policies, .. } = world.play(&world.drifting, &learner.into(), sizes)?;
    let mut ls = Seen::claim("Theorem C.1", world);
    let mut adjusted = Seen::claim("Theorem C.1, adjusted", world);
    let protocol = one(delta, lambda);
    let (mut learned, mut deployed) = (0.0, 0.0);
    for k in 1..=sizes.len() {
        let truth = &world.drifting[(k - 1) % world.drifting.len()];
        learned += truth.risk(&policies[k])?;
        deployed += truth.risk(&policies[k - 1])?;
        let pairs: Vec<_> = policies[1..=k].iter().zip(&policies).collect();
        let case = Case::whole(&logs[..k], &protocol);
        ls.look(Certificate::shift(Smoothing::Ls, &pairs, &case)?.upper, learned / k as f64);
        let found = Certificate::shift(Smoothing::Adjusted, &pairs, &case)?;
        adjusted.look(found.upper, (learned - deployed) / k as f64);
    }
    Ok(vec![ls, adjusted])
}

/// Certifies policies that were fixed before the records. The policy with the best bound collects the next round.
fn fixed(world: &World, seed: u64, delta: f64) -> Result<Vec<Seen>> {
    const ROUNDS: usize = 25;
    const SIZE: usize = 20;
    let (place, set, protocol) = (Finite::new(world.still.clone(), seed)?, &world.set, one(delta, 0.3));
    let risks = set.iter().map(|policy| world.still[0].risk(policy)).collect::<Result<Vec<f64>>>()?;
    let mut ls = Seen::claim("fixed policy", world);
    let mut adjusted = Seen::claim("fixed policy, adjusted", world);
    let mut best = Seen::claim("best of 20 fixed policies", world);
    let (mut logs, mut chosen, mut mean) = (Vec::new(), 0, 0.0);
    for round in 0..ROUNDS {
        logs.push(place.collect(&set[chosen], Turn { round, start: SIZE * round, n: SIZE })?);
        mean += (risks[chosen] - mean) / (round + 1) as f64;
        let case = Case::whole(&logs, &protocol);
        ls.look(Certificate::fixed(Smoothing::Ls, &set[0], 1, &case)?.upper, risks[0]);
        adjusted.look(Certificate::fixed(Smoothing::Adjusted, &set[0], 1, &case)?.upper, risks[0] - mean);
        let judge = |policy| Ok(Certificate::fixed(Smoothing::Ls, policy, SET, &case)?.upper);
        let uppers = set.iter().map(|policy| judge(policy as &dyn Policy)).collect::<Result<Vec<f64>>>()?;
        chosen = (1..SET).fold(0, |best, i| if uppers[i] < uppers[best] { i } else { best });
        best.look(uppers[chosen], risks[chosen]);
    }
    Ok(vec![ls, adjusted, best])
}

/// Holds records back and chooses lambda on them. Certifies each policy on the ladder and against the policy before it.
fn held_back(world: &World, seed: u64, sizes: &[usize], delta: f64) -> Result<Vec<Seen>> {
    let protocol = Protocol { spending: Spending::Even { rounds: sizes.len() }, ..one(delta, 0.6) };
    let learner = Learner {
        lambda: Lambda::Auto,
        held_back: 0.5,
        protocol: protocol.clone(),
        ..learner(Algorithm::SeqAdjLs, 0.9, seed)
    };
    let plan = Plan { learner, gate: Gate::Always, certify: Certify::Each };
    let Played { rounds, logs, policies, .. } = world.play(&world.still, &plan, sizes)?;
    let mut ladder = Seen::claim("ladder", world);
    let mut improvement = Seen::claim("improvement on the incumbent", world);
    let mut before = world.still[0].risk(&policies[0])?;
    for (k, round) in rounds.iter().enumerate() {
        let found = round.proven.as_ref().and_then(|proven| proven.ladder.as_ref());
        ladder.look(found.map_or(f64::INFINITY, |found| found.upper), round.true_risk);
        let challenger =
            Challenger { policy: Arc::new(policies[k + 1].clone()), fixed_since: round.learned.fixed_since };
        let incumbent = Challenger { policy: Arc::new(policies[k].clone()), fixed_since: None };
        let verdict =
            Gate::Improvement.judge(&[challenger], &incumbent, Some(k), &policies[..=k], &logs[..=k], &protocol)?;
        improvement.look(verdict.certificate.map_or(f64::INFINITY, |found| found.upper), round.true_risk - before);
        before = round.true_risk;
    }
    Ok(vec![ladder, improvement])
}

/// Checks promotions: none may be a step back, by more than the margin.
fn gates(world: &World, seed: u64, delta: f64) -> Result<Vec<Seen>> {
    const MARGIN: f64 = 0.05;
    let sizes = [150; 5];
    let protocol = Protocol { spending: Spending::Even { rounds: sizes.len() }, ..one(delta, 0.5) };
    let judge = |(mut seen, gate, margin): (Seen, Gate, f64)| {
        let learner = Learner { held_back: 0.5, protocol: protocol.clone(), ..learner(Algorithm::SeqAdjLs, 0.9, seed) };
        let plan = Plan { learner, gate, certify: Certify::Never };
        let Played { rounds, policies, .. } = world.play(&world.still, &plan, &sizes)?;
        let mut before = world.still[0].risk(&policies[0])?;
        for round in &rounds {
            if round.decision.as_ref().is_none_or(|decision| decision.promoted) {
                seen.look(before + margin, round.true_risk);
            }
            before = round.true_risk;
        }
        Ok(seen)
    };
    let gates = [
        (Seen::claim("gate: improvement", world), Gate::Improvement, 0.0),
        (Seen::claim("gate: non-inferiority", world), Gate::NonInferiority { margin: MARGIN }, MARGIN),
        (Seen::control("no gate", world), Gate::Always, 0.0),
    ];
    gates.into_iter().map(judge).collect()
}

/// A loop with the settings of the command line and a gate, over rounds of unequal size.
#[derive(Clone, Copy, PartialEq)]
enum Loop {
    Default,
    /// More than one round is held back.
    HoldingMoreBack,
    /// More than one round is held back, and lambda and the sharpness of the prior are kept between the rounds in which
    /// they are chosen.
    KeepingSettings,
}

fn defaults(world: &World, seed: u64, kind: Loop, delta: f64) -> Result<Vec<Seen>> {
    let keeps = kind == Loop::KeepingSettings;
    let learner = Learner {
        lambda: if keeps { Lambda::AutoDoubling } else { Lambda::Auto },
        sharpness: if keeps { Sharpness::Auto } else { Sharpness::Fixed(1.0) },
        family: Family::Shaped,
        held_back: if kind == Loop::Default { 1.0 } else { 1.5 },
        protocol: Protocol { delta, ..Protocol::default() },
        ..learner(Algorithm::SeqAdjLs, 0.9, seed)
    };
    let plan = Plan { learner, gate: Gate::Improvement, certify: Certify::Each };
    let Played { rounds, policies, .. } = world.play(&world.still, &plan, &[150, 100, 250, 120, 200])?;
    let (ladder, gate) = match kind {
        Loop::Default => ("ladder, defaults", "gate, defaults"),
        Loop::HoldingMoreBack => ("ladder, 1.5 rounds held back", "gate, 1.5 rounds held back"),
        Loop::KeepingSettings => ("ladder, settings kept", "gate, settings kept"),
    };
    let (mut ladder, mut gate) = (Seen::claim(ladder, world), Seen::claim(gate, world));
    let mut before = world.still[0].risk(&policies[0])?;
    for round in &rounds {
        let found = round.proven.as_ref().and_then(|proven| proven.ladder.as_ref());
        ladder.look(found.map_or(f64::INFINITY, |found| found.upper), round.true_risk);
        if round.decision.as_ref().is_some_and(|decision| decision.promoted) {
            gate.look(before, round.true_risk);
        }
        before = round.true_risk;
    }
    Ok(vec![ladder, gate])
}

/// Control: Theorem 3.2 with the learned policy as its own prior.
fn without_divergence(world: &World, seed: u64, delta: f64) -> Result<Vec<Seen>> {
    let sizes = [60; 5];
    let learner = learner(Algorithm::SeqAdjLs, 0.9, seed);
    let Played { logs, policies, .. } = world.play(&world.still, &learner.into(), &sizes)?;
    let mut free = Seen::control("no divergence", world);
    for (k, policy) in policies.iter().enumerate().skip(1) {
        let found = Certificate::risk(policy, policy, &Case::whole(&logs[..k], &one(delta, 0.2)));
        free.look(upper(found)?, world.still[0].risk(policy)?);
    }
    Ok(vec![free])
}

/// Control: a fixed policy, with importance weights that are too large.
fn wrong_propensities(world: &World, seed: u64, delta: f64) -> Result<Vec<Seen>> {
    let place = Finite::new(world.still.clone(), seed)?;
    let policy = &world.set[0];
    let logs = place.collect(&world.set[1], Turn { round: 0, start: 0, n: 500 })?;
    let propensity = logs.propensity().iter().map(|q| 0.8 * q).collect();
    let (action, cost) = (logs.action().to_vec(), logs.cost().to_vec());
    let logs = [Logs::new(logs.actions(), logs.contexts().clone(), action, propensity, cost)?];
    let mut wrong = Seen::control("propensities 20 % too small", world);
    let found = Certificate::fixed(Smoothing::Ls, policy, 1, &Case::whole(&logs, &one(delta, 0.1)));
    wrong.look(upper(found)?, world.still[0].risk(policy)?);
    Ok(vec![wrong])
}

/// Control: another policy in each round, certified on that round alone with all of delta.
fn reused_delta(world: &World, seed: u64, delta: f64) -> Result<Vec<Seen>> {
    const ROUNDS: usize = 100;
    const SIZE: usize = 20;
    let place = Finite::new(world.still.clone(), seed)?;
    let protocol = one(delta, 0.5);
    let mut reused = Seen::control("delta reused at every round", world);
    for round in 0..ROUNDS {
        let (policy, logger) = (&world.set[round % SET], &world.set[(round + 1) % SET]);
        let logs = [place.collect(logger, Turn { round, start: SIZE * round, n: SIZE })?];
        let found = Certificate::fixed(Smoothing::Ls, policy, 1, &Case::whole(&logs, &protocol));
        reused.look(upper(found)?, world.still[0].risk(policy)?);
    }
    Ok(vec![reused])
}

/// The bound of a certificate. One below every risk is refused; it counts as the lowest risk.
pub(super) fn upper(found: Result<Certificate>) -> Result<f64> {
    match found {
        Err(surefoot::Error::Refuted { .. }) => Ok(-1.0),
        found => found.map(|certificate| certificate.upper),
    }
}

/// A fast learner, which overfits at a large lambda.
pub(super) fn learner(algorithm: Algorithm, lambda: f64, seed: u64) -> Learner {
    let adam = Adam { learning_rate: 0.3, epochs: 6, batch_size: 32, ..Adam::default() };
    Learner { algorithm, lambda: Lambda::Fixed(lambda), optimiser: Optimiser::Adam(adam), seed, ..Learner::default() }
}

/// A protocol with a single lambda.
fn one(delta: f64, lambda: f64) -> Protocol {
    Protocol { delta, lambdas: vec![lambda], combine: Combine::Union, ..Protocol::default() }
}

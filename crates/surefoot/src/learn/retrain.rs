//! RETRAIN: learns the next policy from all rounds of some logs at once, and certifies it.
//!
//! A portfolio learns twice. First its members learn from the older part of the records that are not held back, and the
//! newer part chooses one of them. Then that one learns from both parts. The records held back only certify, so the
//! certificate does not pay for the choice, however many policies there were to choose from. Of very many records, an even
//! share chooses ([`MOST_COMPARED`]): the choice still depends on no record that is held back.

use std::fmt;
use std::sync::Arc;

use super::step::fixed_since;
use crate::certificate::{Certificate, Challenger, FixedSince, Gate, ladder};
use crate::error::{Error, Result};
use crate::evaluation::{Estimate, Estimator, EvaluationSettings, Evaluator, Observed};
use crate::learn::{
    Algorithm, Choice, Coverage, Goal, Lambda, Learner, MemberKind, MemberReport, Members, Portfolio, Sharpness, State,
    StepReport,
};
use crate::logs::Logs;
use crate::observer::Observer;
use crate::optim::{Optimiser, Trace};
use crate::policy::{LinearGaussian, Policy, Propensities};

/// A policy that was learned from all rounds, with its certificates and estimates. Costs are in `[-1, 0]`, lower is
/// better.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Retrained {
    /// The new policy.
    pub policy: Arc<dyn Policy>,
    /// The report of the step. The members of a portfolio are judged by the records that chose one of them.
    pub round: StepReport,
    /// The candidates of the user's own, judged by the same records.
    pub contenders: Vec<ContenderReport>,
    /// The certificate of its risk: the best rung of the ladder.
    pub proven: Certificate,
    /// The certificate of its risk minus that of the newest round's logging policy.
    pub better: Certificate,
    /// The mean cost of the newest round, and its standard error.
    pub logged: (f64, f64),
    /// The self-normalised importance weighting estimate of its risk, on the records that were held back; on all, if
    /// none were; on an even share of them if they are more than 4,194,304.
    pub estimate: Estimate,
    /// How many of the newest records were held back.
    pub held_back: usize,
}

/// A learner or a policy of the user's own, which competes with the members of a portfolio.
pub trait Contender: fmt::Debug + Send + Sync {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// The policy that it learns from these records, the oldest round first. A fixed policy ignores them; it must not have
    /// been fitted to the records that are held back.
    fn fit(&self, rounds: &[Arc<Logs>]) -> Result<Arc<dyn Policy>>;
}

/// What the records that choose say about a candidate of the user's own.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ContenderReport {
    /// Its name.
    pub name: String,
    /// Whether it is the result.
    pub leads: bool,
    /// Its risk, by the same estimator as [`MemberReport::modelled`].
    pub modelled: f64,
}

/// Learns the next policy from all rounds, the oldest first.
///
/// The prior must have been fixed before all of them. The logging policies may be any policies, because only their
/// propensities are used. Algorithms that learn from the newest round only are rejected, because they would ignore the
/// other rounds.
pub fn retrain(
    learner: &Learner,
    prior: &LinearGaussian,
    rounds: &[Logs],
    observer: &mut dyn Observer,
) -> Result<Retrained> {
    retrain_among(learner, prior, rounds, &[], observer)
}

/// Like [`retrain`], with candidates of the user's own beside the members of a portfolio. The best one is the result.
pub fn retrain_among(
    learner: &Learner,
    prior: &LinearGaussian,
    rounds: &[Logs],
    contenders: &[Arc<dyn Contender>],
    observer: &mut dyn Observer,
) -> Result<Retrained> {
    let Some(newest) = rounds.last() else {
        return Err(Error::size("the list of rounds", "at least 1 round", 0));
    };
    if !learner.algorithm.learns_from_all() {
        let (allowed, value) = ("one that learns from all rounds", "one that learns from the newest");
        return Err(Error::setting("the algorithm", allowed, value));
    }
    if rounds.iter().any(Logs::is_elsewhere) {
        learner.check_engine(contenders)?;
    }
    rounds.iter().try_for_each(Logs::check_propensities)?;
    let learner = &learner.for_one_log();
    let shared: Vec<Arc<Logs>> = rounds.iter().cloned().map(Arc::new).collect();
    let (seen, unseen) = learner.hold_back(&shared);
    let chosen = match learner.algorithm.portfolio() {
        None if !contenders.is_empty() => {
            return Err(Error::setting("the algorithm", "a portfolio, if there are candidates of your own", "another"));
        }
        Some(_) if !contenders.is_empty() && unseen.is_empty() => {
            let allowed = "above 0, if there are candidates of your own";
            return Err(Error::setting("the share held back", allowed, learner.held_back));
        }
        Some(portfolio) if !unseen.is_empty() && portfolio.members().kinds().count() + contenders.len() > 1 => {
            Some(choose(portfolio, learner, prior, &seen, contenders, observer)?)
        }
        _ => None,
    };
    let records: usize = shared.iter().map(|logs| logs.len()).sum();
    let held_back: usize = unseen.iter().map(|logs| logs.len()).sum();
    let (policy, round, contenders) = match chosen {
        None => {
            // There is no round before whose verdict could choose.
            let learner = Learner { choice: Choice::Newest, ..learner.clone() };
            let (policy, round) = learned(&learner, prior, &shared, observer)?;
            (policy, round, Vec::new())
        }
        Some(Chosen { winner: Winner::Member(learner), members, contenders }) => {
            let (policy, round) = learned(&learner, prior, &shared, observer)?;
            (policy, StepReport { members, ..round }, contenders)
        }
        Some(Chosen { winner: Winner::Contender(place), members, contenders: reports }) => {
            // As for a member: in round 0 the set has one more policy, the first one.
            let fixed_since = fixed_since(&shared, &unseen, 1 + usize::from(shared.len() == 1));
            let round = StepReport {
                n: newest.len(),
                records: records - held_back,
                lambda: 0.0,
                sharpness: 1.0,
                kl: 0.0,
                trace: Trace::default(),
                candidates: Vec::new(),
                members,
                coverage: None,
                fixed_since,
            };
            (contenders[place].fit(&seen)?, round, reports)
        }
    };
    observer.begins("certifying");
    let round = StepReport { coverage: Coverage::of(policy.as_ref(), newest)?, ..round };
    let (proven, better) = certified(&policy, round.fixed_since, prior, rounds, learner)?;
    let estimate = self_normalised(policy.as_ref(), if unseen.is_empty() { &shared } else { &unseen })?;
    let logged = mean(newest.cost());
    Ok(Retrained { policy, round, contenders, proven, better, logged, estimate, held_back })
}

impl Learner {
    /// The same settings for [`retrain`]: for records that nothing was learned from before, and nothing is collected after.
    #[must_use]
    pub fn for_one_log(&self) -> Self {
        let mut learner = self.clone();
        if let Algorithm::Portfolio(portfolio) = &mut learner.algorithm {
            portfolio.one_log = portfolio.goal == Goal::Policy;
        }
        learner
    }
}

impl Learner {
    /// Checks that an engine can learn with these settings, which holds the contexts: everything must be a sum over records.
    pub fn check_engine(&self, contenders: &[Arc<dyn Contender>]) -> Result<()> {
        if let Some(contender) = contenders.first() {
            return Err(Error::setting("candidates of your own", "absent, with an engine", contender.name()));
        }
        let searches = match self.for_one_log().algorithm {
            Algorithm::Portfolio(portfolio) => portfolio.members().kinds().any(|kind| kind == MemberKind::Search),
            _ => true,
        };
        match &self.optimiser {
            Optimiser::Adam(_) if searches => {
                let allowed =
                    "lbfgs, with an engine: minibatches of Adam are no sums over shards; or members without search";
                Err(Error::setting("the optimiser", allowed, "adam"))
            }
            _ => Ok(()),
        }
    }
}

/// The policy that a learner learns from all rounds at once.
fn learned(
    learner: &Learner,
    prior: &LinearGaussian,
    rounds: &[Arc<Logs>],
    observer: &mut dyn Observer,
) -> Result<(Arc<dyn Policy>, StepReport)> {
    let (state, round) = stepped(learner, prior, rounds, observer)?;
    let goal = learner.algorithm.portfolio().map_or(Goal::Reward, |portfolio| portfolio.goal);
    let policy = state.hand_over().filter(|_| goal == Goal::Policy).unwrap_or(state.current()).clone();
    Ok((Arc::new(policy), round))
}

fn stepped(
    learner: &Learner,
    prior: &LinearGaussian,
    rounds: &[Arc<Logs>],
    observer: &mut dyn Observer,
) -> Result<(State, StepReport)> {
    let (newest, earlier) = rounds.split_last().expect("there is a round");
    let mut state = State::new(prior.clone());
    for logs in earlier {
        state = learner.remember_in(state, logs)?;
    }
    learner.step_observed(&state, newest, observer)
}

/// The result of the choice.
struct Chosen {
    winner: Winner,
    members: Vec<MemberReport>,
    contenders: Vec<ContenderReport>,
}

enum Winner {
    /// The settings of a portfolio with this member alone.
    Member(Box<Learner>),
    /// The place of a candidate of the user's own.
    Contender(usize),
}

/// Lets the newer part of the records that are seen choose between policies learned from the older part. The newer part is
/// the same share of them as the held-back records are of all. Both are taken from at most [`MOST_COMPARED`] records.
fn choose(
    portfolio: Portfolio,
    learner: &Learner,
    prior: &LinearGaussian,
    seen: &[Arc<Logs>],
    contenders: &[Arc<dyn Contender>],
    observer: &mut dyn Observer,
) -> Result<Chosen> {
    let seen = &Logs::thinned(seen, MOST_COMPARED)?[..];
    let newest = seen[seen.len() - 1].len() as f64;
    let records: usize = seen.iter().map(|logs| logs.len()).sum();
    let held_back = CHOOSING * records as f64 / newest;
    let early = Learner { choice: Choice::Newest, held_back, ..learner.clone() };
    let (state, mut report) = stepped(&early, prior, seen, observer)?;
    let (older, newer) = early.hold_back(seen);
    let memory = state.portfolio.as_ref().expect("a portfolio has learned");
    let policies = contenders.iter().map(|contender| contender.fit(&older)).collect::<Result<Vec<_>>>()?;
    let policies: Vec<&dyn Policy> = policies.iter().map(AsRef::as_ref).collect();
    let risks = memory.estimated_risks(&policies, &newer)?;
    let leader = report.members.iter().position(|member| member.leads).expect("a member leads");
    let best = report.members[leader].modelled;
    let better = risks.iter().enumerate().filter(|(_, risk)| best.is_none_or(|best| **risk < best));
    let contender = better.min_by(|a, b| a.1.total_cmp(b.1)).map(|(place, _)| place);
    report.members[leader].leads = contender.is_none();
    let winner = match contender {
        Some(place) => Winner::Contender(place),
        None => {
            let kind = report.members[leader].member;
            let portfolio = Portfolio { members: Some(Members::only(kind)), ..portfolio };
            let kept = memory.kept().filter(|_| kind == MemberKind::Search);
            let fixed = |(lambda, sharpness)| (Lambda::Fixed(lambda), Sharpness::Fixed(sharpness));
            let (lambda, sharpness) = kept.map_or((learner.lambda, learner.sharpness), fixed);
            let algorithm = Algorithm::Portfolio(portfolio);
            let choice = Choice::Previous;
            Winner::Member(Box::new(Learner { algorithm, choice, lambda, sharpness, ..learner.clone() }))
        }
    };
    let contender_report = |(place, (contender, risk)): (usize, (&Arc<dyn Contender>, f64))| ContenderReport {
        name: contender.name().to_owned(),
        leads: matches!(winner, Winner::Contender(best) if best == place),
        modelled: risk,
    };
    let contenders = contenders.iter().zip(risks).enumerate().map(contender_report).collect();
    Ok(Chosen { winner, members: report.members, contenders })
}

/// The members of a portfolio are compared on at most this many records, the same share of every round. The one that is chosen
/// learns from all of them.
pub const MOST_COMPARED: usize = 1 << 17;

/// An estimate for the report takes at most this many records. No certificate uses it.
const MOST_ESTIMATED: usize = 1 << 22;

/// The share of the records that are not held back which chooses between members.
const CHOOSING: f64 = 0.2;

/// The certificates of a policy: of its risk, and of its risk minus that of the newest round's logging policy.
fn certified(
    policy: &Arc<dyn Policy>,
    fixed_since: Option<FixedSince>,
    prior: &LinearGaussian,
    rounds: &[Logs],
    learner: &Learner,
) -> Result<(Certificate, Certificate)> {
    let first: Arc<dyn Policy> = Arc::new(prior.clone());
    let deployed = vec![Arc::clone(&first); rounds.len()];
    let proven = ladder(policy.as_ref(), fixed_since, &deployed, rounds, &learner.protocol)?;
    let challenger = Challenger { policy: Arc::clone(policy), fixed_since };
    let incumbent = Challenger { policy: first, fixed_since: None };
    let started = Some(rounds.len() - 1);
    let verdict = Gate::Improvement.judge(&[challenger], &incumbent, started, &deployed, rounds, &learner.protocol)?;
    Ok((proven, verdict.certificate.expect("there is a challenger")))
}

/// The mean, and its standard error (0 for one value).
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let deviation = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    (mean, deviation / n.sqrt())
}

/// The self-normalised importance weighting estimate of a policy's risk.
fn self_normalised(policy: &dyn Policy, rounds: &[Arc<Logs>]) -> Result<Estimate> {
    let estimators = vec![Estimator::SelfNormalised];
    let mut evaluator =
        Evaluator::new(&EvaluationSettings { estimators, replicates: 0, ..EvaluationSettings::default() })?;
    for logs in &Logs::thinned(rounds, MOST_ESTIMATED)? {
        // Chunk by chunk, so that nothing is held per record.
        for some in logs.pieces() {
            let p = some.over(&Propensities { policy, weighing: false })?.unwrap_or_default();
            evaluator.add(&Observed { p: &p, q: some.propensity(), c: some.cost(), model: None, custom: &[] })?;
        }
    }
    Ok(evaluator.finish()?.estimates.swap_remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::FeatureMap;
    use crate::learn::Lambda;
    use crate::observer::Silent;
    use crate::worlds::{Environment, Synthetic, SyntheticSettings, Turn};

    fn world() -> (LinearGaussian, Vec<Logs>) {
        let world = Synthetic::new(SyntheticSettings::default()).unwrap();
        let first = world.first_policy(FeatureMap::identity(10), 0.0).unwrap();
        let round = |round: usize| world.collect(&first, Turn { round, start: 300 * round, n: 300 }).unwrap();
        let rounds = vec![round(0), round(1)];
        (first, rounds)
    }

    #[test]
    fn all_rounds_are_learned_from_and_the_newest_records_judge() {
        let (first, rounds) = world();
        for (share, held_back) in [(0.0, 0), (0.5, 150), (2.0, 300)] {
            let learner = Learner { lambda: Lambda::Fixed(0.4), held_back: share, ..Learner::default() };
            let found = retrain(&learner, &first, &rounds, &mut Silent).unwrap();
            assert_eq!(found.held_back, held_back);
            let state = learner.remember(&State::new(first.clone()), &rounds[0]).unwrap();
            let (state, round) = learner.step(&state, &rounds[1]).unwrap();
            assert_eq!((found.policy.as_gaussian(), &found.round), (Some(state.current()), &round));

            let deployed = [first.clone(), first.clone()];
            let proven =
                ladder(found.policy.as_ref(), round.fixed_since, &deployed, &rounds, &learner.protocol).unwrap();
            assert_eq!(found.proven, proven);
            assert!(found.better.upper > found.proven.upper, "a difference to what costs less than 0");

            let (mut weights, mut costs) = (0.0, 0.0);
            let unseen = vec![rounds[1].slice(300 - held_back..300)];
            for logs in if held_back == 0 { &rounds } else { &unseen } {
                let p = found.policy.propensity(logs.contexts(), logs.action(), logs.eligible()).unwrap();
                for ((p, q), c) in p.iter().zip(logs.propensity()).zip(logs.cost()) {
                    weights += p / q;
                    costs += p / q * c;
                }
            }
            assert!((found.estimate.value - costs / weights).abs() < 1e-12);
            assert!(found.estimate.standard_error > 0.0);

            let cost = rounds[1].cost();
            assert!((found.logged.0 - cost.iter().sum::<f64>() / 300.0).abs() < 1e-12);
            assert!(found.logged.1 > 0.0 && found.logged.1 < 0.5 / 299.0f64.sqrt() + 1e-12);
        }
    }

    fn portfolio(members: &str, held_back: f64) -> Learner {
        let portfolio = Portfolio { members: Some(members.parse().unwrap()), ..Portfolio::default() };
        Learner { algorithm: Algorithm::Portfolio(portfolio), lambda: Lambda::Auto, held_back, ..Learner::default() }
    }

    /// Remembers the numbers of records that it was fitted to.
    #[derive(Debug)]
    struct Spy {
        policy: Arc<dyn Policy>,
        records: std::sync::Mutex<Vec<usize>>,
    }

    impl Contender for Spy {
        fn name(&self) -> &str {
            "spy"
        }

        fn fit(&self, rounds: &[Arc<Logs>]) -> Result<Arc<dyn Policy>> {
            self.records.lock().unwrap().push(rounds.iter().map(|logs| logs.len()).sum());
            Ok(Arc::clone(&self.policy))
        }
    }

    fn beside(policy: Arc<dyn Policy>) -> (Retrained, Vec<usize>) {
        let (first, rounds) = world();
        let spy = Arc::new(Spy { policy, records: Default::default() });
        let contenders = [Arc::clone(&spy) as Arc<dyn Contender>];
        let found = retrain_among(&portfolio("linear", 0.5), &first, &rounds, &contenders, &mut Silent).unwrap();
        let records = spy.records.lock().unwrap().clone();
        (found, records)
    }

    #[test]
    fn the_certificate_of_a_portfolio_does_not_pay_for_the_choice() {
        let (first, rounds) = world();
        let found = retrain(&portfolio("all", 0.5), &first, &rounds, &mut Silent).unwrap();
        assert_eq!(found.round.fixed_since.unwrap().size, 1);
        assert_eq!(found.round.members.len(), 5);
        // The policy is that of the leader alone, learned from everything that is not held back.
        let leader = found.round.members.iter().find(|member| member.leads).unwrap();
        assert!(found.round.members.iter().all(|member| member.modelled.is_some()));
        let alone = portfolio(&leader.member.to_string(), 0.5);
        assert!(leader.member != MemberKind::Search, "its lambda would be chosen again");
        let alone = retrain(&alone, &first, &rounds, &mut Silent).unwrap();
        assert_eq!(found.policy.identity(), alone.policy.identity());
        assert_eq!((found.held_back, found.round.records), (150, 450));
        assert_eq!(found.proven.size, 1);
    }

    #[test]
    fn kernel_features_have_the_contexts_beside_them_in_one_log_that_is_not_explored_from() {
        let (first, rounds) = world();
        for (goal, beside) in [(Goal::Policy, true), (Goal::Reward, false)] {
            let mut learner = portfolio("kernel", 0.5);
            let Algorithm::Portfolio(portfolio) = &mut learner.algorithm else { unreachable!("it is a portfolio") };
            portfolio.goal = goal;
            let found = retrain(&learner, &first, &rounds, &mut Silent).unwrap();
            assert_eq!(found.policy.as_gaussian().unwrap().features().contexts(), beside);
        }
        let (state, _) = portfolio("kernel", 0.5).step(&State::new(first), &rounds[0]).unwrap();
        assert!(!state.hand_over().unwrap().features().contexts());
    }

    #[test]
    fn the_usual_members_of_one_log_are_all_and_a_loop_leaves_out_logistic() {
        let (first, rounds) = world();
        let usual = Algorithm::Portfolio(Portfolio::default());
        let learner = Learner { algorithm: usual, lambda: Lambda::Auto, held_back: 0.5, ..Learner::default() };
        let names =
            |members: &[MemberReport]| members.iter().map(|m| m.member.to_string()).collect::<Vec<_>>().join(",");
        let found = retrain(&learner, &first, &rounds, &mut Silent).unwrap();
        assert_eq!(names(&found.round.members), "kernel,linear,logistic,search,trees");
        let (_, round) = learner.step(&State::new(first), &rounds[0]).unwrap();
        assert_eq!(names(&round.members), "kernel,linear,search,trees");
    }

    #[test]
    fn the_search_of_a_portfolio_learns_from_all_rounds() {
        let (first, rounds) = world();
        let found = retrain(&portfolio("search", 0.5), &first, &rounds, &mut Silent).unwrap();
        let newest = retrain(&portfolio("search", 0.5), &first, &rounds[1..], &mut Silent).unwrap();
        assert_ne!(found.policy.identity(), newest.policy.identity());
        assert_eq!(found.round.members[0].records, 450);
    }

    #[test]
    fn a_contender_that_is_worse_loses_and_changes_nothing() {
        let (first, rounds) = world();
        let alone = retrain(&portfolio("linear", 0.5), &first, &rounds, &mut Silent).unwrap();
        let (found, records) = beside(Arc::new(crate::policy::Uniform::new(5).unwrap()));
        assert_eq!((found.policy.identity(), found.proven), (alone.policy.identity(), alone.proven));
        assert!(!found.contenders[0].leads && found.round.members[0].leads);
        // A fifth of the 450 records that are not held back chooses.
        assert_eq!(records, [360]);
    }

    #[test]
    fn a_contender_that_is_better_wins_and_is_certified_by_records_that_it_has_not_seen() {
        let world = Synthetic::new(SyntheticSettings::default()).unwrap();
        let best: Arc<dyn Policy> = Arc::new(world.first_policy(FeatureMap::identity(10), 50.0).unwrap());
        let (found, records) = beside(Arc::clone(&best));
        assert!(found.contenders[0].leads && !found.round.members[0].leads);
        assert_eq!(found.policy.identity(), best.identity());
        assert_eq!(records, [360, 450]);
        let fixed = found.round.fixed_since.unwrap();
        assert_eq!((fixed.since.round, fixed.since.record, fixed.size), (1, 150, 1));
        let risk = world.truth(0).unwrap().risk(best.as_ref()).unwrap();
        assert!(found.proven.upper >= risk, "{} is below the truth {risk}", found.proven.upper);
        assert!(!found.proven.vacuous);
    }

    #[test]
    fn contenders_need_a_portfolio_and_records_that_are_held_back() {
        let (first, rounds) = world();
        let spy = || -> [Arc<dyn Contender>; 1] {
            [Arc::new(Spy { policy: Arc::new(first.clone()), records: Default::default() })]
        };
        let refused =
            |learner: &Learner| retrain_among(learner, &first, &rounds, &spy(), &mut Silent).unwrap_err().to_string();
        let said = refused(&Learner { held_back: 0.5, ..Learner::default() });
        assert_eq!(said, "the algorithm should be a portfolio, if there are candidates of your own, but is another");
        let said = refused(&portfolio("linear", 0.0));
        assert_eq!(said, "the share held back should be above 0, if there are candidates of your own, but is 0");
    }

    #[test]
    fn one_record_has_no_standard_error() {
        assert_eq!(mean(&[-0.5]), (-0.5, 0.0));
        assert_eq!(mean(&[-1.0, 0.0]), (-0.5, 0.5));
    }

    #[test]
    fn without_a_round_nothing_is_learned() {
        let (first, _) = world();
        let said = retrain(&Learner::default(), &first, &[], &mut Silent).unwrap_err().to_string();
        assert_eq!(said, "the list of rounds should have at least 1 round, but has 0");
    }

    #[test]
    fn what_learns_from_the_newest_round_only_is_refused() {
        let world = crate::worlds::Synthetic::new(crate::worlds::SyntheticSettings::default()).unwrap();
        let first = world.first_policy(crate::FeatureMap::identity(10), 0.0).unwrap();
        let turn = crate::worlds::Turn { round: 0, start: 0, n: 20 };
        let logs = crate::worlds::Environment::collect(&world, &first, turn).unwrap();
        for algorithm in [crate::Algorithm::ShiftLs, crate::Algorithm::Scrm(crate::learn::Crm::default())] {
            let learner = Learner { algorithm, ..Learner::default() };
            let refused = retrain(&learner, &first, std::slice::from_ref(&logs), &mut Silent).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "the algorithm should be one that learns from all rounds, but is one that learns from the newest"
            );
        }
    }
}

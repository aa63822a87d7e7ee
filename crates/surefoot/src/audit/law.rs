//! What the ledger of a run allows: the order of its entries, the policy of each statement, and its share of delta.

use std::collections::{BTreeMap, HashMap};

use super::ledger::{Entry, Ledger, Opening, hash_of};
use super::{Statement, StatementKind};
use crate::certificate::{Certificate, FixedSince, Gate, Link, Parts, Share, Since, Theorem};
use crate::fingerprint::Fingerprint;

/// A round as the ledger tells it.
#[derive(Debug, Clone)]
pub(super) struct Collected {
    pub(super) by: Option<Fingerprint>,
    pub(super) logs: Fingerprint,
    pub(super) records: usize,
    /// Its fingerprints before records of it were erased.
    former: Vec<Fingerprint>,
    /// The place of its entry.
    pub(super) place: usize,
    learned: Option<(Fingerprint, Option<FixedSince>)>,
    /// The policy that would be handed over, learned from the same records.
    hand_over: Option<Fingerprint>,
    /// The policy that was deployed after it.
    deployed: Option<Fingerprint>,
}

/// The facts of a ledger.
#[derive(Debug)]
pub(crate) struct Law<'a> {
    opening: &'a Opening,
    pub(super) rounds: Vec<Collected>,
    /// The policy that was deployed before round 0.
    start: Option<Fingerprint>,
    /// The challengers of the caller's own, each with the first round that judges it.
    own: Vec<(usize, Fingerprint)>,
    /// The numbers of records that were erased, by round.
    erased: BTreeMap<usize, usize>,
    /// The certificates, by the number of rounds and the kind.
    stated: HashMap<(usize, StatementKind), Fingerprint>,
}

impl<'a> Law<'a> {
    /// Reads a ledger. Also returns everything that is out of order in it.
    pub(crate) fn of(ledger: &'a Ledger) -> (Self, Vec<String>) {
        let (rounds, own) = (Vec::new(), Vec::new());
        let (erased, stated) = (BTreeMap::new(), HashMap::new());
        let mut law = Law { opening: ledger.opening(), rounds, start: None, own, erased, stated };
        let (mut wrong, mut deployed) = (Vec::new(), Vec::new());
        // Whether a policy was deployed since the last round was collected.
        let mut committed = false;
        for (place, entry) in ledger.entries().iter().enumerate() {
            // The header of the file is its line 0.
            let mut odd = |what: String| wrong.push(format!("ledger, line {}: {what}", place + 1));
            match *entry {
                Entry::Open(_) => {}
                Entry::Deploy { policy } => {
                    committed = true;
                    deployed.push(policy);
                    match law.rounds.last_mut() {
                        Some(round) => round.deployed = Some(policy),
                        None => law.start = Some(policy),
                    }
                }
                Entry::Challenge { policy, round } => {
                    if round < law.rounds.len() {
                        odd(format!("{policy} was fixed after round {round}, whose records should judge it"));
                    }
                    if !law.gated() {
                        odd(format!("{policy} is a challenger, and no gate judges it"));
                    }
                    law.own.push((round, policy));
                }
                Entry::Collect { round, by, logs, records } => {
                    if round != law.rounds.len() {
                        odd(format!("round {round} comes where round {} should", law.rounds.len()));
                    }
                    if let Some(by) = by {
                        if !deployed.contains(&by) {
                            odd(format!("round {round} was collected by {by}, which was not deployed before"));
                        }
                        if !committed {
                            odd(format!("no policy was deployed between round {round} and the round before"));
                        }
                    }
                    committed = false;
                    law.rounds.push(Collected {
                        by,
                        logs,
                        records,
                        former: Vec::new(),
                        place,
                        learned: None,
                        hand_over: None,
                        deployed: None,
                    });
                }
                Entry::Erase { round, records, logs } => {
                    *law.erased.entry(round).or_default() += records;
                    match (law.rounds.get_mut(round), logs) {
                        (Some(collected), Some(logs)) => {
                            let former = std::mem::replace(&mut collected.logs, logs);
                            collected.former.push(former);
                        }
                        (None, None) => {}
                        (collected, _) => odd(format!(
                            "records of round {round} are erased, which was{} collected, with{} a fingerprint",
                            if collected.is_some() { "" } else { " not" },
                            if logs.is_some() { "" } else { "out" }
                        )),
                    }
                }
                Entry::Learn { round, policy, fixed_since, hand_over } => {
                    if let Some(fixed) = fixed_since
                        && fixed.size <= law.own_of(round)
                    {
                        let own = law.own_of(round);
                        odd(format!("the set of round {round} should have more than its {own} own challengers"));
                    }
                    match law.rounds.iter_mut().enumerate().next_back() {
                        Some((number, newest)) if number == round && newest.learned.is_none() => {
                            newest.learned = Some((policy, fixed_since));
                            newest.hand_over = hand_over;
                        }
                        _ => odd(format!("a policy learned from round {round} comes twice, or not after that round")),
                    }
                }
                Entry::State { round, kind, certificate } => {
                    if round != law.rounds.len() {
                        odd(format!("a {kind} of {round} rounds comes after {} rounds", law.rounds.len()));
                    }
                    if law.stated.insert((round, kind), certificate).is_some() {
                        odd(format!("a second {kind} of {round} rounds: its share of delta can be spent once"));
                    }
                }
            }
        }
        (law, wrong)
    }

    /// The policy that collected each round, and the fingerprint of its records as they are now.
    pub(crate) fn collected(&self) -> impl ExactSizeIterator<Item = (Option<Fingerprint>, Fingerprint)> {
        self.rounds.iter().map(|round| (round.by, round.logs))
    }

    /// Whether the ledger deployed a policy before the first round.
    pub(super) fn began_before_the_data(&self) -> bool {
        self.start.is_some()
    }

    /// The policy that runs after this many rounds, if it is known.
    fn runs(&self, rounds: usize) -> Option<Fingerprint> {
        match rounds.checked_sub(1) {
            None => self.start,
            Some(newest) => self.rounds.get(newest)?.deployed.or_else(|| self.runs(newest)),
        }
    }

    /// The result after this many rounds: the policy that is deployed next, or the newest one if none is deployed.
    fn current(&self, rounds: usize) -> Option<Fingerprint> {
        let newest = self.rounds.get(rounds.checked_sub(1)?)?;
        let learned = newest.learned.map(|(policy, _)| policy);
        if self.opening.redeploys { newest.deployed.or(learned) } else { learned }
    }

    /// The prior of the rung that begins with round `j`: the policy that collected it. Where nobody knows that policy,
    /// only the first policy may be a prior, from round 0 on.
    fn prior(&self, j: usize) -> Option<Fingerprint> {
        match self.rounds.get(j)?.by {
            None if j == 0 => Some(self.opening.first),
            by => by,
        }
    }

    /// The number of the caller's own challengers that this round judges first.
    fn own_of(&self, round: usize) -> usize {
        self.own.iter().filter(|(first, _)| *first == round).count()
    }

    /// The size of the set of policies that share the share of a round: the policies learned from it, the caller's own
    /// challengers that it judges first, and in round 0 the first policy.
    fn set(&self, round: usize) -> usize {
        let learned = self.rounds.get(round).and_then(|round| round.learned?.1);
        learned.map_or(self.own_of(round) + usize::from(round == 0), |fixed| fixed.size)
    }

    /// The number of erased records because of which a certificate cannot be recomputed; 0 if it can.
    pub(super) fn lost(&self, certificate: &Certificate) -> usize {
        // A forged round may be any number.
        let first = certificate.since.round;
        let rounds = certificate.logs.iter().enumerate().map(|(i, logs)| (first.saturating_add(i), logs));
        let gone = rounds.filter(|(k, logs)| self.rounds.get(*k).is_some_and(|round| round.former.contains(logs)));
        let own: usize = gone.map(|(k, _)| self.erased.get(&k).copied().unwrap_or(0)).sum();
        own.max(certificate.parts.iter().map(|part| self.lost(part)).max().unwrap_or(0))
    }

    /// The number of all erased records.
    pub(super) fn erased(&self) -> usize {
        self.erased.values().sum()
    }

    /// Since when the policy has been fixed, by each of the entries that name it within this many rounds.
    fn fixed(&self, policy: Fingerprint, rounds: usize) -> Vec<FixedSince> {
        let learned = self.rounds.iter().take(rounds).filter_map(|round| round.learned);
        let mut all: Vec<FixedSince> =
            learned.clone().filter(|(learned, _)| *learned == policy).filter_map(|(_, fixed)| fixed).collect();
        let first = (policy == self.opening.first).then_some(0);
        let own = self.own.iter().filter(|(round, own)| *own == policy && *round < rounds).map(|(round, _)| *round);
        all.extend(first.into_iter().chain(own).map(|round| FixedSince {
            round,
            since: Since::round(round),
            size: self.set(round),
        }));
        all
    }

    /// Checks a statement against the ledger.
    pub(super) fn check(&self, statement: &Statement) -> Vec<String> {
        let Statement { round, kind, certificate, .. } = statement;
        let mut wrong = Vec::new();
        match self.stated.get(&(*round, *kind)) {
            None => wrong.push(format!("ledger: has no {kind} of {round} rounds")),
            Some(hash) if *hash != hash_of(statement) => {
                wrong.push(format!("ledger: its {kind} of {round} rounds is another one"));
            }
            Some(_) => {}
        }
        // Everything below looks at these rounds.
        if !(1..=self.rounds.len()).contains(round) {
            wrong.push(format!("round: should be from 1 to {}, but is {round}", self.rounds.len()));
            return wrong;
        }
        if certificate.protocol() != self.opening.protocol {
            wrong.push("ledger: delta, lambdas, form or spending are not those of its opening".into());
        }
        let subject = certificate.policies.last().copied().flatten();
        match kind {
            StatementKind::Certificate | StatementKind::Ladder => {
                let expected = self.current(*round);
                if expected.is_none() || subject != expected {
                    wrong.push(format!(
                        "policies: should be about {}, which the run had after {round} rounds, but is about {}",
                        named(expected),
                        named(subject)
                    ));
                }
            }
            StatementKind::HandOver => {}
            StatementKind::Gate => {
                let learned = self.rounds.iter().take(*round).filter_map(|round| round.learned);
                let mut own = self.own.iter().filter(|(first, _)| first < round);
                let known = learned.clone().any(|(policy, _)| Some(policy) == subject)
                    || own.any(|(_, policy)| Some(*policy) == subject);
                if !known {
                    wrong.push(format!("policies: {} was not learned in {round} rounds", named(subject)));
                }
            }
        }
        let lawful = match kind {
            StatementKind::Certificate => self.whole(certificate),
            StatementKind::HandOver => self.handed_over(certificate, *round),
            StatementKind::Ladder | StatementKind::Gate
                if *kind == StatementKind::Ladder || self.opening.gate == Gate::CertifiedRisk =>
            {
                self.rung(certificate, *kind, *round)
            }
            _ => self.comparison(certificate, *round),
        };
        if let Err(reason) = lawful {
            wrong.push(reason);
        }
        wrong
    }

    /// A statement about all records, with all of delta.
    fn whole(&self, certificate: &Certificate) -> Result<(), String> {
        let Certificate { theorem, share, since, priors, policies, .. } = certificate;
        expect("share", &Share::WHOLE, share)?;
        expect("since", &Since::round(0), since)?;
        match theorem {
            Theorem::Ls => expect("priors", self.prior(0).as_slice(), &priors[..]),
            Theorem::Shift | Theorem::ShiftAdjusted => {
                let rounds = self.rounds.iter().take(certificate.logs.len());
                let by: Vec<_> = rounds.clone().filter_map(|round| round.by).collect();
                expect("priors", &by, priors)?;
                let learned: Vec<_> = rounds.map(|round| round.learned.map(|(policy, _)| policy)).collect();
                expect("policies", &learned, policies)
            }
            _ => Err(format!("theorem: {theorem:?} is none that may have all of delta")),
        }
    }

    /// A rung of the ladder, with its part of the share of one round.
    fn rung(&self, certificate: &Certificate, kind: StatementKind, rounds: usize) -> Result<(), String> {
        // The chain belongs to the ladder: the gate judges each challenger by its own records.
        let chained = kind == StatementKind::Ladder && self.chained();
        let posterior = |certificate: &Certificate, part: f64| {
            let j = certificate.since.round;
            expect("share", &Share::of_round(j, part), &certificate.share)?;
            expect("since", &Since::round(j), &certificate.since)?;
            expect("priors", self.prior(j).as_slice(), &certificate.priors[..])
        };
        match certificate.theorem {
            Theorem::Fixed => {
                let part = match (self.opening.shifts, chained) {
                    (true, _) => 1.0,
                    (false, false) => Parts::FIXED,
                    (false, true) if self.gated() => Parts::FIXED_GATED,
                    (false, true) => return Err("theorem: a fixed policy has no rung beside the chain".into()),
                };
                self.one_of(certificate, rounds, |FixedSince { round, since, size }| {
                    Some((Share::of_round(round, part), since, size))
                })
            }
            Theorem::Chain if chained => self.chain(certificate, rounds),
            _ if self.opening.shifts => Err("theorem: where contexts may shift, only a fixed policy has a rung".into()),
            Theorem::Ls => posterior(certificate, Parts::LS),
            Theorem::Combined => {
                let [difference, running] = &certificate.parts[..] else {
                    return Err(format!("parts: should be 2, but are {}", certificate.parts.len()));
                };
                posterior(difference, Parts::DIFFERENCE)?;
                expect("since", &difference.since, &running.since)?;
                expect("share", &Share::of_round(running.since.round, Parts::RUNNING), &running.share)
            }
            theorem => Err(format!("theorem: {theorem:?} is no rung of the ladder")),
        }
    }

    /// Whether a gate decides which policy is deployed.
    pub(crate) fn gated(&self) -> bool {
        self.opening.redeploys && self.opening.gate != Gate::Always
    }

    /// Whether the ladder has a chain. A policy that was learned once, from logs that were there, has none: its ledger
    /// deploys nothing.
    fn chained(&self) -> bool {
        let deploys = self.start.is_some() || self.rounds.iter().any(|round| round.deployed.is_some());
        deploys && !self.opening.shifts && self.opening.protocol.mixes()
    }

    /// How each of this many rounds is linked to the policy that follows it: the one that collected the next round, and
    /// last the current one.
    pub(crate) fn links(&self, rounds: usize) -> Vec<Option<Link>> {
        (0..rounds).map(|k| self.link(k, self.follows(k, rounds)?)).collect()
    }

    /// The policy that follows round `k` in a chain over this many rounds.
    ///
    /// A statement after `k + 1` rounds was about the policy that ran then. If another policy collected the next round, a
    /// chain through it would be another martingale, for which the shares before it are spent already.
    fn follows(&self, k: usize, rounds: usize) -> Option<Fingerprint> {
        let current = self.current(k + 1)?;
        (k + 1 == rounds || self.rounds.get(k + 1)?.by == Some(current)).then_some(current)
    }

    fn link(&self, k: usize, next: Fingerprint) -> Option<Link> {
        let round = &self.rounds[k];
        let deployed = self.rounds[..k].iter().filter_map(|earlier| earlier.deployed).chain(self.start);
        let first = if deployed.into_iter().any(|policy| policy == next) {
            0
        } else {
            let fixed = self.fixed(next, k + 1);
            let seen = fixed.iter().filter(|fixed| fixed.since.round <= k);
            seen.map(|fixed| if fixed.since.round == k { fixed.since.record } else { 0 }).min()?
        };
        let Some((newest, fixed)) = round.learned else { return Some(Link { first, size: 1 }) };
        // The set of round 0 has one more member: the first policy.
        let own = match fixed {
            Some(fixed) => fixed.size.saturating_sub(usize::from(k == 0)).max(1),
            None => 1 + self.own_of(k),
        };
        let size = if self.gated() {
            // The incumbent, the older challengers, and the candidates of this round.
            self.challengers(k) + own
        } else if next == newest {
            own
        } else if self.opening.redeploys {
            own + 1
        } else {
            1
        };
        Some(Link { first, size })
    }

    /// The number of policies that were learned from round `k` and the rounds before, or that the caller brought for the
    /// rounds before, since the last promotion.
    fn challengers(&self, k: usize) -> usize {
        let promoted = |j: usize| self.rounds[j].deployed.is_some_and(|policy| Some(policy) != self.runs(j));
        let since = (0..k).rev().find(|&j| promoted(j)).map_or(0, |j| j + 1);
        let own = self.own.iter().filter(|(first, _)| (since..k).contains(first)).count();
        own + self.rounds[since..=k].iter().filter(|round| round.learned.is_some()).count()
    }

    /// A chain: its links are those of the ledger, and each of its rounds is collected by the policy of the link before.
    fn chain(&self, certificate: &Certificate, rounds: usize) -> Result<(), String> {
        let part = if self.gated() { Parts::CHAIN_GATED } else { Parts::CHAIN };
        let first = certificate.since.round;
        expect("share", &Share::of_round(first, part), &certificate.share)?;
        let links: Vec<Option<Link>> = self.links(rounds).split_off(first.min(rounds));
        expect("links", &links, &certificate.links.iter().copied().map(Some).collect())?;
        let policies: Vec<_> = (first..rounds).map(|k| self.follows(k, rounds)).collect();
        expect("policies", &policies, &certificate.policies)
    }

    /// The links to the policy that would be handed over after this many rounds, and that policy. `None` if there is none,
    /// or if it has seen all records.
    pub(crate) fn hand_over(&self, rounds: usize) -> Option<(Vec<Option<Link>>, Fingerprint)> {
        let newest = self.rounds.get(rounds.checked_sub(1)?)?;
        let (policy, fixed) = (newest.hand_over?, newest.learned?.1?);
        if self.opening.shifts || fixed.since.round > rounds - 1 {
            return None;
        }
        let first = if fixed.since.round == rounds - 1 { fixed.since.record } else { 0 };
        // Nothing chose it: it was learned from what had been seen by the member that led already.
        let own = fixed.size.saturating_sub(usize::from(rounds == 1)).max(1);
        let mut links = self.links(rounds - 1);
        // Links before one that is broken do not count, as in any chain.
        if let Some(last) = links.last_mut()
            && self.current(rounds - 1) != newest.by
        {
            *last = None;
        }
        links.push(Some(Link { first, size: own }));
        Some((links, policy))
    }

    /// A chain that ends with the policy that would be handed over.
    fn handed_over(&self, certificate: &Certificate, rounds: usize) -> Result<(), String> {
        if certificate.theorem != Theorem::HandOver {
            return Err(format!("theorem: {:?} is not that of a policy that is handed over", certificate.theorem));
        }
        let Some((links, policy)) = self.hand_over(rounds) else {
            return Err(format!("policies: no policy would be handed over after {rounds} rounds"));
        };
        let first = certificate.since.round;
        expect("share", &Share::of_round(rounds - 1, 1.0), &certificate.share)?;
        let links: Vec<Option<Link>> = links.into_iter().skip(first).collect();
        expect("links", &links, &certificate.links.iter().copied().map(Some).collect())?;
        let before = (first + 1..rounds).map(|k| self.rounds[k].by);
        let policies: Vec<_> = before.chain([Some(policy)]).collect();
        expect("policies", &policies, &certificate.policies)
    }

    /// The first round of those that the running policy has collected without a break, up to the newest of this many. A
    /// policy that nobody knows has collected the newest round, and perhaps no other.
    fn started(&self, rounds: usize) -> usize {
        let incumbent = self.rounds[rounds - 1].by;
        let by = |k: &usize| incumbent.is_some() && self.rounds[*k].by == incumbent;
        (0..rounds).rev().take_while(by).last().unwrap_or(rounds - 1)
    }

    /// Whether a challenger that was there after round `since` was compared before round `started`: the running policy
    /// has collected a round in between. A later comparison begins with another record, and would need another share.
    fn compared_before(&self, since: usize, started: usize) -> bool {
        // With an unknown policy, it was compared right after it was learned.
        (since..started).any(|k| self.rounds[k].by.is_none() || self.rounds[k].by == self.runs(k))
    }

    /// A comparison with the running policy, which has collected all rounds from `started` on.
    fn comparison(&self, certificate: &Certificate, rounds: usize) -> Result<(), String> {
        let incumbent = self.rounds[rounds - 1].by;
        let started = self.started(rounds);
        match certificate.theorem {
            Theorem::Adjusted => {
                let since = certificate.since.round;
                if since >= rounds || since < started {
                    return Err(format!(
                        "since: the running policy has not collected all rounds from {} on",
                        since + 1
                    ));
                }
                expect("share", &Share::of_round(since, Parts::POSTERIOR), &certificate.share)?;
                expect("since", &Since::round(since), &certificate.since)?;
                expect("priors", &[incumbent.unwrap_or(self.opening.first)][..], &certificate.priors[..])
            }
            Theorem::FixedAdjusted => self.one_of(certificate, rounds, |FixedSince { round, since, size }| {
                // With an unknown policy, a challenger is compared once, right after it was learned: each round may
                // have another policy, and would need another share of delta.
                let timely = match incumbent {
                    None => round + 1 == rounds,
                    Some(_) => !self.compared_before(round, started),
                };
                let size = size * (round.saturating_sub(since.round) + 1);
                timely.then(|| (Share::of_round(round, Parts::UNSEEN), since.max(Since::round(started)), size))
            }),
            theorem => Err(format!("theorem: {theorem:?} does not compare with the running policy")),
        }
    }

    /// Share, first record and size of a fixed policy must be those of an entry that learned it.
    fn one_of(
        &self,
        certificate: &Certificate,
        rounds: usize,
        lawful: impl Fn(FixedSince) -> Option<(Share, Since, usize)>,
    ) -> Result<(), String> {
        let policy = certificate.policies.first().copied().flatten();
        let claimed = (certificate.share, certificate.since, certificate.size);
        let fixed = policy.map(|policy| self.fixed(policy, rounds)).unwrap_or_default();
        let all: Vec<_> = fixed.into_iter().filter_map(lawful).collect();
        match all.first() {
            _ if all.contains(&claimed) => Ok(()),
            None => Err(format!("policies: no entry says since when {} has been fixed", named(policy))),
            Some(lawful) => Err(format!("share, since or size: should be {lawful:?}, but are {claimed:?}")),
        }
    }

    /// Checks that every deployment followed the rule that the run was opened with.
    pub(super) fn promotions(&self, statements: &[Statement]) -> Vec<String> {
        let mut wrong = Vec::new();
        for (k, round) in self.rounds.iter().enumerate() {
            let Some(deployed) = round.deployed else { continue };
            let before = self.runs(k);
            let newest = round.learned.map(|(policy, _)| policy);
            let lawful = match self.opening.gate {
                _ if !self.opening.redeploys => Some(deployed) == before,
                Gate::Always => Some(deployed) == newest.or(before),
                _ if Some(deployed) == before => true,
                gate => {
                    let of_gate = |s: &&Statement| s.round == k + 1 && s.kind == StatementKind::Gate;
                    statements.iter().find(of_gate).is_some_and(|statement| {
                        let Certificate { policies, upper, .. } = &statement.certificate;
                        let passes = match gate {
                            Gate::Improvement => *upper < 0.0,
                            Gate::NonInferiority { margin } => *upper <= margin,
                            _ => true,
                        };
                        passes && policies.first() == Some(&Some(deployed))
                    })
                }
            };
            if !lawful {
                wrong.push(format!(
                    "ledger: after {} rounds {deployed} was deployed, but no certificate passes the gate {} for it",
                    k + 1,
                    self.opening.gate
                ));
            }
        }
        wrong
    }

    /// How much reward all promotions together may have cost, where each may cost a margin. Margins add up.
    pub(super) fn margins(&self) -> Option<f64> {
        let Gate::NonInferiority { margin } = self.opening.gate else { return None };
        let changed = |k: &usize| self.rounds[*k].deployed.is_some_and(|policy| Some(policy) != self.runs(*k));
        let [lowest, highest] = self.opening.terms.reward_range;
        Some((0..self.rounds.len()).filter(changed).count() as f64 * margin * (highest - lowest))
    }

    /// What a statement needs that the ledger cannot show.
    pub(super) fn trust(&self, certificate: &Certificate) -> Vec<String> {
        let mut trust = Vec::new();
        let parts = if certificate.parts.is_empty() { std::slice::from_ref(certificate) } else { &certificate.parts };
        for part in parts {
            let since = part.since;
            let unknown = self.rounds.iter().skip(since.round).take(part.logs.len()).filter(|r| r.by.is_none()).count();
            if unknown > 0 {
                let rounds = counted(unknown, "round");
                trust.push(format!("the propensities of {rounds} whose logging policy is not given"));
            }
            let end = since.round.saturating_add(part.logs.len());
            let erased: usize = self.erased.range(..end).map(|(_, records)| records).sum();
            // A bound on a risk only gets larger if a cost becomes 0. A bound on a difference may get smaller, and the
            // lambdas of a fixed policy depend on the rounds before.
            let worst = matches!(part.theorem, Theorem::Ls | Theorem::Running);
            if erased > 0 && !worst {
                trust.push(format!(
                    "whether a record is erased does not depend on its reward: {erased} erased records count as if they \
                     had earned the lowest"
                ));
            }
            // Named in the ledger before the records, a policy cannot have been learned from them.
            let known = |policy: Fingerprint, round: usize| {
                let deployed = self.rounds.iter().take(round).filter_map(|round| round.deployed);
                let own = self.own.iter().filter(|(first, _)| *first <= round).map(|(_, own)| *own);
                deployed.chain(self.start).chain(own).any(|named| named == policy)
            };
            let policies = part.policies.iter().copied().flatten();
            match part.theorem {
                Theorem::Fixed | Theorem::FixedAdjusted if policies.clone().any(|p| !known(p, since.round)) => {
                    trust.push(format!(
                        "the policy was learned without the records from {since} on, and from at most {}",
                        counted(part.size, "candidate")
                    ));
                }
                Theorem::Chain | Theorem::HandOver
                    if (since.round..).zip(policies.clone()).any(|(k, policy)| !known(policy, k)) =>
                {
                    trust.push(
                        "the policies of the chain were learned without the records that were held back from them"
                            .into(),
                    );
                }
                _ => {}
            }
        }
        trust.dedup();
        trust
    }
}

/// A number with its noun, in the plural where needed.
fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

fn named(policy: Option<Fingerprint>) -> String {
    policy.map_or_else(|| "a policy that is not known".into(), |policy| policy.to_string())
}

fn expect<T: PartialEq + std::fmt::Debug + ?Sized>(what: &str, lawful: &T, found: &T) -> Result<(), String> {
    if lawful == found { Ok(()) } else { Err(format!("{what}: should be {lawful:?}, but is {found:?}")) }
}

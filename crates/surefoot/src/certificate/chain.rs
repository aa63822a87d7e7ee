//! The chain: the evidence of many rounds about the newest policy, by differences of consecutive policies.
//!
//! Round `k` is collected by `pi_k`, and `pi_{k+1}` was fixed before `n_k` of its records. Consecutive policies are close,
//! so the difference of their risks is known far better than either risk. For a chain that begins with round `a`, with
//! `N_k = n_a + .. + n_k` and `w = pi_{k+1}(a|x)/q`, each record contributes
//!
//! `X_i = c_i (1 + (N_k/n_k) (w_i - 1))`, at `0 < l < 1/max_k(N_k/n_k - 1)`.
//!
//! Given the past, `X_i` has the mean `mu_k = R(pi_k) + (N_k/n_k) (R(pi_{k+1}) - R(pi_k))`, and `n_k mu_k` is
//! `N_k R(pi_{k+1}) - N_{k-1} R(pi_k)`. So `sum_k n_k mu_k = N_T R(pi_{T+1})` (telescoping): it only depends on the newest
//! policy. `X_i` is at most `N_k/n_k - 1`, so every factor `1 - l X_i` is positive, and the product of the factors over
//! `prod_k (1 - l mu_k)^{n_k}` is a martingale of mean 1. `ln(1 - l .)` is concave, so that denominator is at most
//! `(1 - l R(pi_{T+1}))^{N_T}`. Hence the inequality of `bound.rs` holds with `X_i` in the place of `p c/q`.
//!
//! Neither `X_i` nor `l` depends on the number of rounds: a chain that began with round `a` is one martingale for all later
//! rounds, and is paid for once, by the share of round `a`. A lambda is dropped from the round on in which its limit is
//! reached. The sizes of rounds must not depend on their costs. If the records of round `k` chose `pi_{k+1}` from several
//! policies that were fixed before them, the mean of the martingales of these policies is one, so the chain pays `ln` of
//! their number.
//!
//! A policy that is handed over collects no round. A chain that ends with it is not continued by the chain of the next round,
//! so each such chain is a statement of its own, and pays the share of its newest round.

use serde::{Deserialize, Serialize};

use super::bound::{PROPENSITY, Smoothing, Term, possible, solve};
use super::case::Since;
use super::evidence::{LogSum, Weighed};
use super::protocol::{Protocol, Share};
use super::stakes::stakes;
use super::{Certificate, Theorem};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::logs::Logs;
use crate::policy::Policy;

/// How a round is linked to the policy that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The first record of the round that the next policy has not seen.
    pub first: usize,
    /// The number of policies, all fixed before that record, among which this round's records chose the next one.
    pub size: usize,
}

/// The largest share of its limit that a lambda may reach: every factor stays above 0.01.
const LIMIT: f64 = 0.99;

/// The lengths of the chains that are computed, in rounds. Longer ones bring next to nothing: the coefficients of the
/// differences grow with the length.
const LENGTHS: [usize; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// How a chain is paid for.
#[derive(Debug, Clone, Copy)]
enum Payment {
    /// By this part of the share of the round that it begins with. The chain of the next round continues it.
    Once { part: f64 },
    /// By the share of the newest round, equally for all rounds that it may begin with. Its last policy collects no round,
    /// so the chain of the next round does not continue it.
    Anew,
}

/// A chain up to the newest round. All slices have one entry per round of the loop.
struct Chain<'a> {
    next: &'a [&'a dyn Policy],
    links: &'a [Option<Link>],
    payment: Payment,
    rounds: &'a [Logs],
    protocol: &'a Protocol,
}

impl Chain<'_> {
    /// The first round of the longest chain: every round from it on is linked to the next.
    fn earliest(&self) -> Option<usize> {
        let rounds = self.rounds.len();
        let linked = |k: usize| self.links[k].is_some_and(|link| link.first < self.rounds[k].len());
        (0..rounds).rev().take_while(|&k| linked(k)).take(LENGTHS[LENGTHS.len() - 1]).last()
    }

    /// The certificate; `None` if the newest round has no record that the policy has not seen.
    fn certificate(&self) -> Result<Option<Certificate>> {
        let Some(earliest) = self.earliest() else { return Ok(None) };
        let rounds = self.rounds.len();
        let weighed = (earliest..rounds).map(|k| Weighed::new(self.next[k], &self.rounds[k]));
        let weighed = weighed.collect::<Result<Vec<_>>>()?;
        // The first rounds have the largest shares, so chains from them are always worth computing.
        let begins: Vec<usize> = (earliest..rounds).filter(|a| LENGTHS.contains(&(rounds - a)) || *a < 2).collect();
        let mut terms = Vec::new();
        for &a in &begins {
            let delta = match self.payment {
                Payment::Once { part } => Share::of_round(a, part).delta(self.protocol)?,
                Payment::Anew => Share::of_round(rounds - 1, 1.0).delta(self.protocol)? / begins.len() as f64,
            };
            terms.extend(self.terms(a, delta, &weighed[a - earliest..]));
        }
        let (theorem, share) = match self.payment {
            Payment::Once { part } => (Theorem::Chain, Share::of_round(earliest, part)),
            Payment::Anew => (Theorem::HandOver, Share::of_round(rounds - 1, 1.0)),
        };
        let bound = solve(&terms, PROPENSITY, self.protocol)?;
        possible(bound.upper, bound.numerical, Smoothing::Ls)?;
        let links: Vec<Link> = self.links[earliest..].iter().copied().flatten().collect();
        let size = links.iter().map(|link| link.size).fold(1, usize::saturating_mul);
        Ok(Some(Certificate {
            theorem,
            bounds: theorem.bounds(),
            upper: bound.upper,
            vacuous: bound.upper >= 0.0,
            delta: self.protocol.delta,
            share,
            spending: self.protocol.spending,
            form: self.protocol.form,
            combine: self.protocol.combine,
            lambda: bound.lambda,
            lambdas: self.protocol.lambdas.clone(),
            records: bound.records,
            estimate: bound.estimate,
            kl: 0.0,
            size,
            numerical: bound.numerical,
            policies: self.next[earliest..].iter().map(|policy| policy.identity()).collect(),
            priors: Vec::new(),
            since: Since { round: earliest, record: links[0].first },
            logs: self.rounds[earliest..].iter().map(Logs::fingerprint).collect(),
            links,
            parts: Vec::new(),
            assumptions: theorem.assumptions(),
        }))
    }

    /// The martingales of the chain that begins with round `a`, one per lambda.
    fn terms(&self, a: usize, delta: f64, weighed: &[Weighed]) -> Vec<Term> {
        let link = |k: usize| self.links[k].expect("every round from the earliest on is linked");
        let begins = Since { round: a, record: link(a).first };
        let mut terms = Vec::new();
        'stakes: for stake in stakes(self.rounds, begins, Smoothing::Ls, delta) {
            let (mut records, mut sum, mut price) = (0, LogSum::default(), -(delta * stake.weight).ln());
            for (k, weighed) in (a..).zip(weighed) {
                let Link { first, size } = link(k);
                let own = self.rounds[k].len() - first;
                records += own;
                let ratio = records as f64 / own as f64;
                if stake.lambda * (ratio - 1.0) >= LIMIT {
                    continue 'stakes;
                }
                sum.merge(&weighed.chained(first, stake.lambda, ratio));
                price += (size as f64).ln();
            }
            terms.push(Term { lambda: stake.lambda, price, price_error: 0.0, records, sum });
        }
        terms
    }
}

impl Certificate {
    /// The chain (`certificate/chain.rs` has the inequality and its proof): bounds the risk of the last of several
    /// policies, with the evidence of all rounds. Every slice has one entry per round:
    ///
    /// - `next[k]` is the policy that follows round `k`. It collected round `k + 1`; the last one is certified.
    /// - `links[k]` tells which records of round `k` it has not seen, and among how many policies these records chose
    ///   it. `None` where that is not known; the chain begins after that round.
    ///
    /// The chain may begin with any round, and each beginning is paid for by this `part` of the share of its round. It
    /// holds for all later rounds at once, as long as every certified policy also collects the next round. Returns `None`
    /// if the policy has seen all records of the newest round.
    pub fn chain(
        next: &[&dyn Policy],
        links: &[Option<Link>],
        part: f64,
        rounds: &[Logs],
        protocol: &Protocol,
    ) -> Result<Option<Self>> {
        Self::chained(next, links, Payment::Once { part }, rounds, protocol)
    }

    /// Like [`chain`](Certificate::chain), for a last policy that is handed over: it collects no round. After every round
    /// there may be another one, and each is paid for by the share of that round.
    pub fn hand_over(
        next: &[&dyn Policy],
        links: &[Option<Link>],
        rounds: &[Logs],
        protocol: &Protocol,
    ) -> Result<Option<Self>> {
        Self::chained(next, links, Payment::Anew, rounds, protocol)
    }

    fn chained(
        next: &[&dyn Policy],
        links: &[Option<Link>],
        payment: Payment,
        rounds: &[Logs],
        protocol: &Protocol,
    ) -> Result<Option<Self>> {
        for (what, found) in [("the policies of a chain", next.len()), ("the links of a chain", links.len())] {
            if found != rounds.len() {
                return Err(Error::size(what, format!("{} entries, one for each round", rounds.len()), found));
            }
        }
        if links.iter().flatten().any(|link| link.size == 0) {
            return Err(Error::setting("the set of policies of a link", "at least one of them", 0));
        }
        protocol.check()?;
        Chain { next, links, payment, rounds, protocol }.certificate()
    }
}

/// The chain that a certificate names, from logs and policies.
pub(super) fn recompute<'a>(
    claimed: &Certificate,
    rounds: &[Logs],
    protocol: &Protocol,
    find: impl Fn(&Fingerprint) -> Result<&'a dyn Policy>,
) -> Result<Certificate> {
    let earliest = claimed.since.round;
    let unnamed = || Error::setting("a policy of a chain", "named by its fingerprint", "not");
    let named = claimed.policies.iter().map(|print| find(&print.ok_or_else(unnamed)?));
    let named = named.collect::<Result<Vec<_>>>()?;
    let none = || Error::size("a chain", "at least one link", 0);
    // Rounds before the first link only tell how much costs vary.
    let any = *named.first().ok_or_else(none)?;
    let next: Vec<&dyn Policy> = std::iter::repeat_n(any, earliest).chain(named).collect();
    let links: Vec<Option<Link>> =
        std::iter::repeat_n(None, earliest).chain(claimed.links.iter().copied().map(Some)).collect();
    let payment = match claimed.theorem {
        Theorem::HandOver => Payment::Anew,
        _ => Payment::Once { part: claimed.share.part },
    };
    Certificate::chained(&next, &links, payment, rounds, protocol)?.ok_or_else(none)
}

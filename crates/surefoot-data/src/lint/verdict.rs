//! What the mean importance weights say about the propensities, and the likely causes.
//!
//! Mean weights above 1 are judged by a test that holds for weights of any distribution
//! ([`PropensityTest`](surefoot::logs::PropensityTest)), and by a limit theorem only if all weights are small. No such test exists for means below 1: however many records
//! there are, rare actions of even smaller probability may not have been drawn yet. So a mean below 1 counts only if
//! all weights are small, and the logs of a sharp policy raise no alarm.

use super::choices::Choices;
use super::findings::{Finding, Severity, of, short};
use super::{LEVEL, Support, normal};
use surefoot::evaluation::{ENOUGH, WeightSums, WeightVerdict};

/// Other facts about the logs.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    /// The drop probability, if it is logged and the same for all records.
    pub(super) dropped: Option<f64>,
    /// The share of propensities that are 1.
    pub(super) ones: f64,
    /// The number of actions that were chosen.
    pub(super) chosen: usize,
}

/// The statistics of a policy's weights.
fn support(policy: &str, weights: &WeightSums) -> Support {
    // One weight has no standard error, so nothing is known of its distance.
    let z = if weights.count < 2.0 { f64::NAN } else { weights.z() };
    Support {
        policy: policy.into(),
        records: weights.count as usize,
        mean_weight: weights.mean(),
        standard_error: weights.standard_error(),
        z,
        p: if z.is_nan() { 1.0 } else { normal::beyond(z) },
        effective: weights.effective(),
        largest: weights.largest,
    }
}

/// Judges whether the weights of a policy are consistent with the propensities.
fn judge(check: &'static str, support: &Support, verdict: WeightVerdict, cannot_tell: Severity) -> Option<Finding> {
    let Support { policy, mean_weight, standard_error, z, effective, .. } = support;
    let mean = format!(
        "the mean weight of the {policy} policy is {} ± {} (z {}), and should be 1",
        short(*mean_weight),
        short(*standard_error),
        short(*z)
    );
    let (severity, message) = match verdict {
        WeightVerdict::Fits => return None,
        WeightVerdict::CannotTell => {
            let message = format!(
                "the {policy} policy cannot test the propensities: the effective sample size is {} of {}, and the \
                 test needs {ENOUGH}",
                // As the table rounds it, but never as many as the test needs.
                short(effective.round_ties_even().min(ENOUGH - 1.0)),
                of(support.records, "record")
            );
            return Some(Finding::new(cannot_tell, check, message).counted(support.records));
        }
        WeightVerdict::Above => (Severity::Error, format!("{mean}: propensities are too small")),
        WeightVerdict::Below => {
            (Severity::Error, format!("{mean}: propensities are too large, or some actions had probability 0"))
        }
        WeightVerdict::BelowOrRare => (
            Severity::Note,
            format!("{mean}: propensities are too large, or some actions had a tiny probability and were never drawn"),
        ),
    };
    Some(Finding::new(severity, check, message).counted(support.records))
}

/// Judges the uniform policy.
pub(super) fn uniform(choices: &Choices, about: &About, findings: &mut Vec<Finding>) -> Option<Support> {
    let weights = choices.weights()?;
    let support = support("uniform", &weights);
    if let Some(finding) = overflow("mean-weight", &support) {
        findings.push(finding);
        return Some(support);
    }
    let verdict = match weights.verdict(normal::limit(LEVEL)) {
        _ if choices.test.pooled() >= -LEVEL.ln() => WeightVerdict::Above,
        WeightVerdict::Above if !weights.light() => WeightVerdict::Fits,
        verdict => verdict,
    };
    // Weights that are too uneven for the uniform policy may be fine for others.
    findings.extend(judge("mean-weight", &support, verdict, Severity::Note).map(|finding| match verdict {
        WeightVerdict::CannotTell => finding,
        _ => finding.hint(hint(&support, verdict, about)),
    }));
    Some(support)
}

/// Weights whose sums are not finite numbers.
fn overflow(check: &'static str, support: &Support) -> Option<Finding> {
    let Support { policy, mean_weight, standard_error, effective, largest, .. } = support;
    let finite = [mean_weight, standard_error, effective, largest].iter().all(|x| x.is_finite());
    (!finite).then(|| {
        let message = format!(
            "the weights of the {policy} policy cannot be added up: the largest is {}, because a propensity is tiny",
            short(*largest)
        );
        let finding = Finding::new(Severity::Error, check, message).counted(support.records);
        finding.hint(
            "an action of such a probability is never drawn: the propensity is that of another action, or rounded",
        )
    })
}

/// Judges all numbers together that right propensities bound, if no other finding says that they are wrong.
pub(super) fn refuted(choices: &Choices, findings: &mut Vec<Finding>) {
    let found = |finding: &Finding| {
        finding.severity == Severity::Error && matches!(finding.check, "mean-weight" | "action-weight")
    };
    if findings.iter().any(found) {
        return;
    }
    let named = |place: u32| choices.vocabulary.name(place).to_owned();
    if let Some(what) = choices.test.contradiction(1.0 / LEVEL, named) {
        let finding = Finding::new(Severity::Error, "sharp-propensities", what).counted(choices.test.records());
        findings.push(finding.hint("was the probability of the best action logged, whatever action was drawn?"));
    }
}

/// Judges a given target policy.
pub(super) fn given(name: &str, weights: &WeightSums, about: &About, findings: &mut Vec<Finding>) -> Support {
    let (support, verdict) = (support(name, weights), weights.verdict(normal::limit(LEVEL)));
    if let Some(finding) = overflow("policy-weight", &support) {
        findings.push(finding);
        return support;
    }
    findings.extend(judge("policy-weight", &support, verdict, Severity::Warning).map(|finding| {
        match verdict {
            WeightVerdict::CannotTell => finding
                .hint("an estimate would depend on few records: log more, or with a policy that is closer to this one"),
            _ => finding.hint(hint(&support, verdict, about)),
        }
    }));
    support
}

/// The likely cause of a mean weight.
fn hint(support: &Support, verdict: WeightVerdict, about: &About) -> String {
    let mean = support.mean_weight;
    let near = |x: f64| (mean - x).abs() <= 3.0 * support.standard_error + 1e-3;
    if let Some(dropped) = about.dropped.filter(|&dropped| dropped > 0.0) {
        if near(1.0 / (1.0 - dropped)) {
            return format!(
                "it is 1/(1 - pdrop) for pdrop {dropped}: were the propensities multiplied by the probability of \
                 keeping a record?"
            );
        }
        if near(1.0 - dropped) {
            return format!(
                "it is 1 - pdrop for pdrop {dropped}: were the propensities divided by the probability of keeping a \
                 record?"
            );
        }
    }
    let k = about.chosen as f64;
    if support.policy == "uniform" && verdict != WeightVerdict::BelowOrRare {
        for others in [k + 1.0, k - 1.0] {
            if others > 1.0 && near(others / k) && !near(1.0) {
                return format!("it fits {others} actions instead of {k}: is the number of actions wrong?");
            }
        }
    }
    match verdict {
        WeightVerdict::Above => format!(
            "logged propensities are about {} of the true ones on average; are they the probabilities of the policy \
             that drew the action, at that time, before any record was dropped?",
            short(1.0 / mean)
        ),
        _ if about.ones > 0.0 => format!(
            "{}% of the propensities are 1: was the greedy action logged as certain although others were drawn too?",
            short((about.ones * 1000.0).round() / 10.0)
        ),
        _ => "if some actions could not be chosen in some records, list those that could in a column eligible".into(),
    }
}

/// Checks each action on its own: `E[1{a = b}/q] = 1` over the records in which `b` was eligible.
///
/// It finds errors that the uniform policy cannot, such as propensities of `1/K` for actions that were not drawn
/// uniformly.
pub(super) fn actions(choices: &Choices, about: &About, findings: &mut Vec<Finding>) {
    let tested: Vec<(&str, WeightSums, f64)> =
        choices.weights_by_action().filter(|(_, weights, _)| weights.effective() >= ENOUGH).collect();
    let limit = normal::limit(LEVEL / tested.len().max(1) as f64);
    let mut wrong: Vec<(&str, WeightSums, WeightVerdict)> = tested
        .iter()
        .filter_map(|&(name, weights, evidence)| match weights.verdict(limit) {
            _ if evidence >= -LEVEL.ln() => Some((name, weights, WeightVerdict::Above)),
            WeightVerdict::Above if weights.light() => Some((name, weights, WeightVerdict::Above)),
            verdict @ (WeightVerdict::Below | WeightVerdict::BelowOrRare) => Some((name, weights, verdict)),
            _ => None,
        })
        .collect();
    wrong.sort_by(|(a, v, _), (b, w, _)| w.z().abs().total_cmp(&v.z().abs()).then(a.cmp(b)));
    // Rare actions may explain means below 1, but not those of the others.
    if wrong.iter().all(|(.., verdict)| *verdict == WeightVerdict::BelowOrRare) {
        return;
    }
    let shown: Vec<String> = wrong
        .iter()
        .take(3)
        .map(|(name, weights, _)| format!("{name} {} (z {})", short(weights.mean()), short(weights.z())))
        .collect();
    let more = if wrong.len() > 3 { ", ..." } else { "" };
    let message = format!(
        "the mean weight of {} of {} is not 1, as it should be: {}{more}",
        wrong.len(),
        of(tested.len(), "action"),
        shown.join(", ")
    );
    let high = wrong.iter().filter(|(.., verdict)| *verdict == WeightVerdict::Above).count();
    let hint = match (high, wrong.len() - high) {
        (_, 0) => "actions above 1 are drawn more often than their propensities say".into(),
        (0, _) if about.ones > 0.0 => {
            "actions below 1 are drawn less often than their propensities say; some of these propensities are 1".into()
        }
        (0, _) => {
            "actions below 1 are drawn less often than their propensities say, or had probability 0 in some records"
                .into()
        }
        _ => format!(
            "{high} are drawn more often than their propensities say, the others less often: the propensities are \
             those of another policy"
        ),
    };
    findings.push(Finding::new(Severity::Error, "action-weight", message).counted(wrong.len()).hint(hint));
}

//! VERDICT: why the gate promoted a policy or did not, in words. All numbers are rewards.

use serde::Serialize;
use surefoot::session::RoundReport;
use surefoot::{Fingerprint, Gate};

/// What decided about a promotion, for gates that compare.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GateReport {
    gate: String,
    /// The challenger with the best certificate, which is not always the newest.
    challenger: Option<Fingerprint>,
    /// The upper end of its certificate: of the difference to the risk of the policy that ran, or of the risk itself under
    /// the gate `certified-risk`.
    certified_risk_difference: f64,
}

impl GateReport {
    pub(crate) fn of(gate: Gate, report: &RoundReport) -> Option<Self> {
        let certificate = report.decided_by.as_ref()?;
        Some(GateReport {
            gate: gate.to_string(),
            challenger: certificate.policies.last().copied().flatten(),
            certified_risk_difference: certificate.upper,
        })
    }
}

/// The verdict of the gate with its reason. `range` is that of the rewards.
pub(crate) fn verdict(gate: Gate, report: &RoundReport, range: [f64; 2]) -> String {
    let width = range[1] - range[0];
    let outcome = if report.promoted { "promoted" } else { "not promoted" };
    let Some(certificate) = &report.decided_by else {
        return match (gate, report.promoted) {
            (Gate::Always, _) => format!("{outcome}: the gate always lets every learned policy run"),
            (_, true) => outcome.into(),
            (_, false) => {
                format!(
                    "{outcome}: the policy that runs has collected no round yet, so nothing can be compared with it"
                )
            }
        };
    };
    let name = match certificate.policies.last().copied().flatten() {
        Some(policy) => format!("policy {}", &policy.to_string()[..12]),
        None => "the challenger".into(),
    };
    // The certificate bounds a difference of costs in [-1, 0].
    let gain = -certificate.upper * width;
    let less = format!("by what is proven it may bring up to {} less per decision", shown(-gain));
    match (gate, report.promoted) {
        (Gate::CertifiedRisk, promoted) => {
            let proven = shown(range[0] - certificate.upper.min(0.0) * width);
            let than = if promoted { "more than was" } else { "not more than is" };
            format!(
                "{outcome}: {name} is proven to bring at least {proven} per decision, {than} proven of the policy before"
            )
        }
        (_, true) if gain > 0.0 => {
            format!(
                "{outcome}: {name} is proven to bring at least {} more per decision than the policy that ran",
                shown(gain)
            )
        }
        (Gate::NonInferiority { margin }, promoted) => {
            let (than, allowed) = (if promoted { "ran" } else { "runs" }, shown(margin * width));
            format!("{outcome}: {name} is compared with the policy that {than}; {less}, and the gate allows {allowed}")
        }
        _ => format!("{outcome}: {name} is not proven to bring more than the policy that runs; {less}"),
    }
}

/// Four significant digits.
fn shown(x: f64) -> String {
    format!("{x:.3e}").parse::<f64>().map_or_else(|_| x.to_string(), |rounded| (rounded + 0.0).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_significant_digits() {
        let written = [0.412_345_6, -0.0, 1234.56, 1e-7 / 3.0].map(shown);
        assert_eq!(written, ["0.4123", "0", "1235", "0.00000003333"]);
    }
}

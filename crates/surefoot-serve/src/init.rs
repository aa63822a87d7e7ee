//! INIT: a commented file of loops, from a log.

use std::fmt::Write as _;

use surefoot_data::{Actions, EncodingFit, EncodingSettings, Field, Grouping, LogReader, Scan};

use crate::error::{Error, Result};

/// Writes the text of a file with one loop, whose actions, features and rewards are those of a log. The features are
/// fitted to its records, without the columns to ignore: the records of the loop come later, so they are fixed before them.
pub fn init(name: &str, reader: &LogReader, ignore: &[String]) -> Result<String> {
    let place = reader.place();
    let scan = Scan::of(reader, &Grouping::File)?;
    if scan.candidates.is_some() {
        let allowed = "a log whose actions are the same in every record";
        return Err(Error::setting(&place, "the log", allowed, "one with candidates"));
    }
    let malformed = |reason| Error::Malformed { place: place.clone(), reason };
    let settings = EncodingSettings { ignore: ignore.to_vec(), ..EncodingSettings::default() };
    let mut fit = EncodingFit::new(settings).map_err(&malformed)?;
    let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
    for batch in reader.batches() {
        let batch = batch?;
        fit.add(&batch)?;
        for &reward in batch.reward()?.iter() {
            (lowest, highest) = (lowest.min(reward), highest.max(reward));
        }
    }
    let encoding = fit.finish(&place)?;
    let actions = match &scan.actions {
        Actions::Count(count) => count.to_string(),
        Actions::Names(names) => json(names),
    };
    let features: Vec<String> = encoding.fields().iter().map(|field| feature(&place, field)).collect::<Result<_>>()?;
    let (lowest, highest) = if lowest >= 0.0 && highest <= 1.0 { (0.0, 1.0) } else { (lowest, highest) };
    let mut out = String::new();
    let mut line = |text: &str| {
        let _ = writeln!(out, "{text}");
    };
    line(&format!("# Made from {} records of {place}. Start it with: surefoot serve FILE", scan.records));
    line("# What a loop fixes cannot be changed later: other rules are a new loop, with another name.");
    line("");
    line("# listen = \"127.0.0.1:8080\"   # another address needs keys");
    line("# data = \"surefoot-data\"      # the folder of the stores");
    line("");
    line("# [[key]]                      # without keys, whoever reaches the address may do everything");
    line("# name = \"web\"");
    line("# roles = [\"decide\", \"reward\"] # also: read, admin");
    line("# sha256 = \"...\"               # printf %s KEY | sha256sum");
    line("");
    line("[[loop]]");
    line(&format!("name = {}", json(name)));
    line(
        "# live: callers follow the decisions. shadow: they are logged only. apprentice: callers send their own policy's",
    );
    line("# action and propensity as baseline, and the loop says when it could do better, with a proof.");
    line("mode = \"live\"");
    line(&format!("actions = {actions}"));
    line("features = [");
    features.iter().for_each(|feature| line(&format!("    {feature},")));
    line("]");
    line("# The range of the reward of a decision. Certificates are false if a reward can lie outside it: check it.");
    line("# Rewards count for this long after their decision; a decision without one has the default.");
    line("# Several rewards of one decision: first, last, sum or max.");
    line(&format!(
        "reward = {{ range = [{lowest}, {highest}], window = \"1h\", default = {}, aggregation = \"first\" }}",
        0f64.clamp(lowest, highest)
    ));
    line("# A round ends after so many decisions, or by the clock: { every = \"1d\", at_least = 100 }.");
    line("round = { records = 1000 }");
    line("# always, improvement, non-inferiority:MARGIN or certified-risk.");
    line("gate = \"improvement\"");
    line("# The failure probability of each family of certificates.");
    line("delta = 0.05");
    line("# Every action keeps at least this probability, divided by the number of actions.");
    line("exploration = 0.05");
    line(
        "# The first policy prefers no action. Or a policy file of surefoot learn, whose actions and features it then has:",
    );
    line("# policy = \"first.safetensors\"");
    line("# learner = { algorithm = \"portfolio\" }   # the flags of surefoot simulate have the same names");
    Ok(out)
}

fn json(value: &(impl serde::Serialize + ?Sized)) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A feature as TOML. Texts of JSON are texts of TOML.
fn feature(place: &str, field: &Field) -> Result<String> {
    Ok(match field {
        Field::Number { column, mean, scale, .. } => {
            format!("{{ name = {}, kind = \"number\", mean = {mean:?}, scale = {scale:?} }}", json(column))
        }
        Field::OneHot { column, categories } => {
            format!("{{ name = {}, kind = \"category\", values = {} }}", json(column), json(categories))
        }
        Field::Hashed { column, bits } => format!("{{ name = {}, kind = \"hashed\", bits = {bits} }}", json(column)),
        Field::Vector { column, width } => format!("{{ name = {}, kind = \"vector\", width = {width} }}", json(column)),
        _ => {
            let allowed = "a log with a column per feature, or with lists of numbers of one length";
            return Err(Error::setting(place, "the log", allowed, "one with sparse or named features"));
        }
    })
}

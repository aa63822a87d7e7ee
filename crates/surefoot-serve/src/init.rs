//! INIT: a commented file of loops, from a log.

use std::fmt::Write as _;

use surefoot_data::{Actions, Encoding, EncodingSettings, Field, Grouping, LogReader, NamedPart, Scan, fit_encodings};

use crate::config::ServerConfig;
use crate::error::{Error, Result};

/// Writes the text of a file with one loop, whose actions, features and rewards are those of a log. The features are
/// fitted to its records, without the columns to ignore: the records of the loop come later, so they are fixed before them.
/// `file` is the name that the text will have; a text that could not be served is an error.
pub fn init(name: &str, reader: &LogReader, ignore: &[String], file: &str) -> Result<String> {
    let place = reader.place();
    let scan = Scan::of(reader, &Grouping::File)?;
    let settings = EncodingSettings { ignore: ignore.to_vec(), ..EncodingSettings::default() };
    let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
    for batch in reader.batches() {
        let batch = batch?;
        for &reward in batch.reward()?.iter() {
            (lowest, highest) = (lowest.min(reward), highest.max(reward));
        }
    }
    let (encoding, candidates) = fit_encodings(reader, &settings, &scan)?;
    let actions = match &scan.actions {
        Actions::Count(count) => count.to_string(),
        Actions::Names(names) => json(names),
    };
    let listed = |encoding: &Encoding| -> Result<Vec<String>> {
        // A context without features needs no declaration.
        let fields = encoding.fields().iter().filter(|field| !matches!(field, Field::Constant {}));
        fields.map(|field| feature(&place, field)).collect()
    };
    let features = listed(&encoding)?;
    let of_candidates = candidates.as_ref().map(|candidates| listed(&candidates.encoding)).transpose()?;
    let (lowest, highest) = if lowest >= 0.0 && highest <= 1.0 { (0.0, 1.0) } else { (lowest, highest) };
    let mut out = String::new();
    let mut line = |text: &str| {
        let _ = writeln!(out, "{text}");
    };
    line(&format!("# Made from {} records of {place}. Start it with: surefoot serve {file}", scan.records));
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
    if let (Some(features), Some(candidates)) = (&of_candidates, &candidates) {
        line(
            "# Every decision has its own candidates, at most this many, each with an id. Products of features of contexts and",
        );
        line("# candidates are those of all, or of namespaces: cross = [\"user:article\"].");
        let identity =
            candidates.identity.as_ref().map_or(String::new(), |name| format!("identity = {}, ", json(name)));
        line(&format!("candidates = {{ most = {}, {identity}features = [", scan.actions.len()));
        features.iter().for_each(|feature| line(&format!("    {feature},")));
        line("] }");
    } else {
        line(&format!("actions = {actions}"));
    }
    if !features.is_empty() {
        line("features = [");
        features.iter().for_each(|feature| line(&format!("    {feature},")));
        line("]");
    }
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
    for lp in ServerConfig::parse(file, &out)?.loops {
        lp.resolve(file)?;
    }
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
        Field::Named { bits, namespace: None, .. } => format!("{{ kind = \"named\", bits = {bits} }}"),
        Field::Listed { parts, .. } => {
            let parts: Vec<String> = parts.iter().map(part).collect();
            format!("{{ kind = \"listed\", parts = [{}] }}", parts.join(", "))
        }
        _ => {
            let allowed =
                "a log with a column per feature, with lists of numbers of one length, or with named features";
            return Err(Error::setting(place, "the log", allowed, "one with sparse features, or with many namespaces"));
        }
    })
}

/// What is made of a name, as TOML.
fn part(part: &NamedPart) -> String {
    match part {
        NamedPart::Number { name, mean, scale } => {
            format!("{{ kind = \"number\", name = {}, mean = {mean:?}, scale = {scale:?} }}", json(name))
        }
        NamedPart::OneHot { name, categories } => {
            format!("{{ kind = \"one-hot\", name = {}, categories = {} }}", json(name), json(categories))
        }
        NamedPart::Hashed { name, bits } => format!("{{ kind = \"hashed\", name = {}, bits = {bits} }}", json(name)),
    }
}

//! The settings of a connection string that the driver does not know: how the connection is encrypted.

use std::borrow::Cow;

/// `sslmode` and `sslrootcert` of a connection string.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Encryption {
    pub(super) mode: Option<String>,
    /// The file of root certificates.
    pub(super) root: Option<String>,
}

impl Encryption {
    /// Takes these settings out of a connection string, which is `key=value ...` or `postgresql://...?key=value&...`.
    pub(super) fn take(database: &str) -> (Self, String) {
        let mut taken = Encryption::default();
        let rest = match database.starts_with("postgres://") || database.starts_with("postgresql://") {
            true => match database.split_once('?') {
                None => database.to_owned(),
                Some((before, query)) => {
                    let kept: Vec<&str> = query.split('&').filter(|pair| !taken.keep_pair(pair)).collect();
                    let mark = if kept.is_empty() { "" } else { "?" };
                    format!("{before}{mark}{}", kept.join("&"))
                }
            },
            false => words(database).filter(|(key, value, _)| !taken.keep(key, value)).map(|(.., text)| text).collect(),
        };
        (taken, rest)
    }

    /// Keeps a setting, if it is one of these.
    fn keep(&mut self, key: &str, value: &str) -> bool {
        let place = match key {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.root,
            _ => return false,
        };
        *place = Some(value.to_owned());
        true
    }

    fn keep_pair(&mut self, pair: &str) -> bool {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        self.keep(key, &percent_decoded(value))
    }
}

/// The keys and values of `key = 'value' ...`, each with the text that it was read from. What is no pair is left to the driver.
fn words(text: &str) -> impl Iterator<Item = (&str, String, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (key, after) = rest.split_once('=').unwrap_or((rest, ""));
        let skipped = after.len() - after.trim_start().len();
        let (value, used) = value(&after[skipped..]);
        let end = (key.len() + 1 + skipped + used).min(rest.len());
        let (taken, left) = rest.split_at(end);
        rest = left;
        Some((key.trim(), value, taken))
    })
}

/// The value at the beginning of a text, and how many bytes it takes: a word, or a text in quotes. A backslash precedes a
/// character that is taken as it is.
fn value(text: &str) -> (String, usize) {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut all = text.char_indices().skip(usize::from(quoted));
    while let Some((at, c)) = all.next() {
        match c {
            '\\' => value.extend(all.next().map(|(_, c)| c)),
            '\'' if quoted => return (value, at + 1),
            c if c.is_whitespace() && !quoted => return (value, at),
            c => value.push(c),
        }
    }
    (value, text.len())
}

/// `%2F` and the like as the bytes that they stand for.
fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let (bytes, mut out) = (text.as_bytes(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_encryption_are_taken_out_and_the_others_stay() {
        for (text, mode, root, rest) in [
            ("host=db user=a", None, None, "host=db user=a"),
            ("host=db sslmode=require user=a", Some("require"), None, "host=db user=a"),
            (
                "sslmode = 'verify-full' sslrootcert='/a b/c\\'d' host=db",
                Some("verify-full"),
                Some("/a b/c'd"),
                " host=db",
            ),
            ("password='sslmode=x \\' y' host=db", None, None, "password='sslmode=x \\' y' host=db"),
            ("postgresql://a:b@db/loops", None, None, "postgresql://a:b@db/loops"),
            (
                "postgresql://a@db/l?sslmode=verify-ca&sslrootcert=%2Fa%20b&connect_timeout=3",
                Some("verify-ca"),
                Some("/a b"),
                "postgresql://a@db/l?connect_timeout=3",
            ),
            ("postgres://db/l?sslmode=disable", Some("disable"), None, "postgres://db/l"),
        ] {
            let (taken, left) = Encryption::take(text);
            assert_eq!((taken.mode.as_deref(), taken.root.as_deref(), left.as_str()), (mode, root, rest), "{text}");
        }
    }
}

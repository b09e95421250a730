//! Finds secrets in a text: by their form, by their values, or by a given expression.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::pattern::{self, NAMED, PATTERNS, Pattern, Proof};

/// The minimum length of a value to look for, in bytes. Shorter ones occur in too many places by chance.
pub const VALUE_BYTES_MIN: usize = 6;

/// The maximum number of values to look for at once.
pub const VALUES_MAX: usize = 10_000;

/// The maximum size of a compiled expression, in bytes: 64 MiB.
const PROGRAM_BYTES_MAX: usize = 64 << 20;

/// The characters of a value that are encoded in an address: all but letters, digits and `-._~` (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The kind of a given value in reports.
pub const KNOWN: &str = "known-value";

/// The kind of a match of a given expression in reports.
pub const MATCHED: &str = "pattern";

/// The kind of a text that is removed as a whole in reports.
pub const TEXT: &str = "text";

/// Why a finder cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinderError {
    /// The expression is invalid. The message shows it, and the place of the error.
    #[error("the pattern cannot be used: {0}")]
    Expression(String),
    /// The expression matches the empty text, and therefore every place.
    #[error("the pattern matches the empty text; make it match something")]
    Empty,
    /// A value is too short. The message does not show it.
    #[error("value {number} has less than {VALUE_BYTES_MIN} bytes; a text that short is found by chance")]
    ShortValue {
        /// The number of the value, counted from 1.
        number: usize,
    },
    /// There are too many values.
    #[error("{count} values are more than the {VALUES_MAX} that can be looked for at once")]
    TooManyValues {
        /// The number of values.
        count: usize,
    },
}

/// A match: a part of a text that may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// The place in the text, in bytes.
    pub range: Range<usize>,
    /// The kind: one of [`PATTERNS`], [`NAMED`], [`KNOWN`] or [`MATCHED`].
    pub kind: &'static str,
    /// The text that may be shown: the prefix of the kind or the label of the value, and the length.
    pub hint: String,
}

/// The secrets to look for. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Finder {
    patterns: Option<Arc<Patterns>>,
    values: Option<Arc<Values>>,
    expression: Option<Regex>,
}

struct Patterns {
    /// Finds in one pass which of the patterns occur.
    any: RegexSet,
    each: Vec<Regex>,
}

struct Values {
    any: Regex,
    /// Every form of a value, with the label of the value.
    labels: HashMap<String, String>,
}

impl Finder {
    /// Makes a finder for all [`PATTERNS`].
    #[must_use]
    pub fn secrets() -> Self {
        let sources: Vec<String> = PATTERNS.iter().map(Pattern::source).collect();
        let any = RegexSetBuilder::new(&sources).size_limit(PROGRAM_BYTES_MAX).build();
        let each = sources.iter().map(|one| compile(one).expect("a test compiles every pattern")).collect();
        let patterns = Patterns { any: any.expect("a test compiles every pattern"), each };
        Self { patterns: Some(Arc::new(patterns)), ..Self::default() }
    }

    /// Makes a finder for the matches of `expression` (the syntax of the `regex` crate; time is linear in the text).
    ///
    /// # Errors
    /// [`FinderError::Expression`], [`FinderError::Empty`].
    pub fn expression(expression: &str) -> Result<Self, FinderError> {
        let regex = compile(expression).map_err(|error| FinderError::Expression(error.to_string()))?;
        if regex.is_match("") {
            return Err(FinderError::Empty);
        }
        Ok(Self { expression: Some(regex), ..Self::default() })
    }

    /// Also looks for these values: as they are, as JSON escapes them in a string, and as a URL encodes them. Each
    /// value comes with its label for hints. Replaces values given before.
    ///
    /// # Errors
    /// [`FinderError::ShortValue`], [`FinderError::TooManyValues`].
    pub fn with_values(mut self, values: &[(String, String)]) -> Result<Self, FinderError> {
        if values.len() > VALUES_MAX {
            return Err(FinderError::TooManyValues { count: values.len() });
        }
        if let Some(number) = values.iter().position(|(_, value)| value.len() < VALUE_BYTES_MIN) {
            return Err(FinderError::ShortValue { number: number + 1 });
        }
        let mut labels = HashMap::new();
        for (label, value) in values {
            for form in forms(value) {
                labels.entry(form).or_insert_with(|| label.clone());
            }
        }
        let mut forms: Vec<&String> = labels.keys().collect();
        // The longest first, because a value may begin with another one.
        forms.sort_by_key(|form| (std::cmp::Reverse(form.len()), form.as_str()));
        let any = forms.iter().map(|form| regex::escape(form)).collect::<Vec<_>>().join("|");
        let any = compile(&any).map_err(|_| FinderError::TooManyValues { count: values.len() })?;
        self.values = (!labels.is_empty()).then(|| Arc::new(Values { any, labels }));
        Ok(self)
    }

    /// Returns all matches in `text`, in order and without overlaps. `name` is the name of the member that holds the
    /// text, if any.
    #[must_use]
    pub fn find(&self, name: Option<&str>, text: &str) -> Vec<Found> {
        let mut found = Vec::new();
        if let Some(values) = &self.values {
            found.extend(values.any.find_iter(text).map(|hit| {
                let label = values.labels.get(hit.as_str()).map_or("", String::as_str);
                let hint = format!("{label} ({} characters)", hit.as_str().chars().count());
                Found { range: hit.range(), kind: KNOWN, hint }
            }));
        }
        if let Some(expression) = &self.expression {
            found.extend(expression.find_iter(text).filter(|hit| !hit.is_empty()).map(|hit| Found {
                range: hit.range(),
                kind: MATCHED,
                hint: masked(hit.as_str(), 0),
            }));
        }
        if let Some(patterns) = &self.patterns {
            patterns.find(text, &mut found);
            if name.is_some_and(pattern::names_a_secret) && text.len() <= 512 && pattern::looks_random(text) {
                found.push(Found { range: 0..text.len(), kind: NAMED, hint: masked(text, 0) });
            }
        }
        without_overlaps(found)
    }
}

impl Patterns {
    fn find(&self, text: &str, found: &mut Vec<Found>) {
        for index in self.any.matches(text) {
            let pattern = &PATTERNS[index];
            for hit in self.each[index].captures_iter(text) {
                let Some(hit) = hit.get(1).or_else(|| hit.get(0)) else { continue };
                if pattern.proof == Proof::Randomness
                    && !(pattern::looks_random(hit.as_str()) && may_name_a_secret(&text[..hit.start()]))
                {
                    continue;
                }
                let hint = masked(hit.as_str(), pattern.open_chars);
                found.push(Found { range: hit.range(), kind: pattern.kind, hint });
            }
        }
    }
}

/// Returns whether the name at the end of `before`, followed by its assignment sign, may be the name of a secret.
fn may_name_a_secret(before: &str) -> bool {
    let name = before.trim_end_matches(|c: char| c.is_whitespace() || "\"'\\:=>".contains(c));
    let start = name.rfind(|c: char| !(c.is_alphanumeric() || "_-. ".contains(c))).map_or(0, |at| at + 1);
    let name = name.get(start..).unwrap_or(name).to_ascii_lowercase();
    !pattern::is_harmless_key(&name)
}

impl fmt::Debug for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finder")
            .field("patterns", &self.patterns.is_some())
            .field("values", &self.values.as_ref().map_or(0, |values| values.labels.len()))
            .field("expression", &self.expression)
            .finish()
    }
}

fn compile(expression: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(expression).size_limit(PROGRAM_BYTES_MAX).build()
}

/// Returns the forms in which a value may be written.
fn forms(value: &str) -> Vec<String> {
    let quoted = serde_json::Value::from(value).to_string();
    let in_json = quoted[1..quoted.len() - 1].to_owned();
    let in_url = utf8_percent_encode(value, RESERVED).to_string();
    let mut forms = vec![value.to_owned()];
    for form in [in_json, in_url] {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

/// Returns a hint on a secret: its first `open_chars` characters and its length.
fn masked(secret: &str, open_chars: usize) -> String {
    let open: Cow<'_, str> = match open_chars {
        0 => "".into(),
        chars => secret.chars().take(chars).collect::<String>().into(),
    };
    format!("{open}… ({} characters)", secret.chars().count())
}

/// Sorts matches by place and merges those that overlap. The merged match keeps the kind of its first part.
fn without_overlaps(mut found: Vec<Found>) -> Vec<Found> {
    // The sort is stable. Of matches with the same start the longest comes first; of equal ones the one found first.
    found.sort_by_key(|one| (one.range.start, std::cmp::Reverse(one.range.end)));
    let mut out: Vec<Found> = Vec::with_capacity(found.len());
    for one in found {
        match out.last_mut() {
            Some(last) if one.range.start < last.range.end => {
                last.range.end = last.range.end.max(one.range.end);
            }
            _ => out.push(one),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples made for this test. They give access to nothing.
    fn samples() -> Vec<(&'static str, String)> {
        let word =
            |length: usize| "aB3dE5gH7jK9mN2pQ4rS6tU8vW".chars().cycle().take(length).collect::<String>();
        let hex = |length: usize| "0123456789abcdef".chars().cycle().take(length).collect::<String>();
        vec![
            (
                "private-key",
                "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc+/=\n-----END RSA PRIVATE KEY-----".into(),
            ),
            ("private-key", r"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\ncut off".into()),
            ("anthropic-key", format!("sk-ant-api03-{}", word(93))),
            ("openrouter-key", format!("sk-or-v1-{}", hex(64))),
            ("openai-key", format!("sk-proj-{}", word(120))),
            ("openai-key", format!("sk-{}", word(48))),
            ("google-key", format!("AIza{}", word(35))),
            ("google-token", format!("ya29.{}", word(60))),
            ("google-client-secret", format!("GOCSPX-{}", word(28))),
            ("aws-access-key", "AKIAABCDEFGHIJKLMNOP".into()),
            ("aws-secret-key", format!("aws_secret_access_key = {}", word(40))),
            ("github-token", format!("ghp_{}", word(36))),
            ("github-token", format!("github_pat_{}", word(82))),
            ("gitlab-token", format!("glpat-{}", word(20))),
            ("slack-token", "xoxb-123456789012-abcdefABCDEF".into()),
            ("slack-webhook", format!("https://hooks.slack.com/services/T00000000/B00000000/{}", word(24))),
            ("huggingface-token", format!("hf_{}", word(34))),
            ("groq-key", format!("gsk_{}", word(52))),
            ("xai-key", format!("xai-{}", word(80))),
            ("npm-token", format!("npm_{}", word(36))),
            ("pypi-token", format!("pypi-AgEI{}", word(60))),
            ("stripe-key", format!("sk_live_{}", word(24))),
            ("sendgrid-key", format!("SG.{}.{}", word(22), word(43))),
            ("twilio-key", format!("SK{}", hex(32))),
            ("docker-token", format!("dckr_pat_{}", word(27))),
            ("digitalocean-token", format!("dop_v1_{}", hex(64))),
            ("telegram-token", format!("123456789:AA{}", word(33))),
            ("azure-account-key", format!("AccountName=a;AccountKey={}==", word(86))),
            ("jwt", format!("eyJ{}.eyJ{}.{}", word(20), word(40), word(43))),
            ("authorization-header", format!("curl -H 'Authorization: Bearer {}'", word(20))),
            ("url-password", "postgres://app:s3cret@db.example.org/app".into()),
            ("assigned-secret", "export DB_PASSWORD=hunter2hunter2".into()),
            ("assigned-secret", r#"{\"api_key\": \"aB3dE5gH7jK9\"}"#.into()),
        ]
    }

    #[test]
    fn every_kind_is_found_and_no_secret_is_shown() {
        let finder = Finder::secrets();
        for (kind, text) in samples() {
            let found = finder.find(None, &format!("before {text} after"));
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert_eq!(found[0].kind, kind, "{text}");
            let shown = found[0].hint.split('…').next().unwrap();
            assert!(shown.len() <= 11, "{}", found[0].hint);
        }
        let tried: Vec<_> = samples().into_iter().map(|(kind, _)| kind).collect();
        for pattern in PATTERNS {
            assert!(tried.contains(&pattern.kind), "{} has a sample", pattern.kind);
        }
    }

    #[test]
    fn text_about_secrets_is_no_secret() {
        let finder = Finder::secrets();
        for text in [
            "password: str = os.environ['DB_PASSWORD']",
            "set api_key=YOUR_API_KEY and token=$TOKEN",
            "\"prompt_tokens\": 12345678, \"finish_reason\": \"stop\"",
            "sk-learn is not a key, and neither is task-management-of-many-words",
            "def token(value: SomethingLonger) -> None",
            "the cache_key: aB3dE5gH7jK9 is harmless",
            "http://localhost:8080/@user and git@github.com:owner/name",
        ] {
            assert_eq!(finder.find(None, text), [], "{text}");
        }
    }

    #[test]
    fn a_members_name_can_mark_its_value_as_secret() {
        let finder = Finder::secrets();
        assert_eq!(finder.find(Some("api_key"), "aB3dE5gH7jK9")[0].kind, NAMED);
        assert_eq!(finder.find(Some("content"), "aB3dE5gH7jK9"), []);
        assert_eq!(finder.find(Some("api_key"), "gAAAAABlaB3dE5gH7jK9"), [], "it is sealed");
        assert_eq!(finder.find(Some("password"), "**********"), []);
    }

    #[test]
    fn values_are_found_in_every_encoding() {
        let values =
            [("value 1".to_owned(), "p\"w\n/ö1".to_owned()), ("value 2".into(), "p\"w\n/ö1 longer".into())];
        let finder = Finder::default().with_values(&values).unwrap();
        let text = r#"raw p"w
/ö1, json p\"w\n/ö1, url p%22w%0A%2F%C3%B61, longer p"w
/ö1 longer"#;
        let hints: Vec<_> = finder.find(None, text).into_iter().map(|found| found.hint).collect();
        assert_eq!(
            hints,
            [
                "value 1 (7 characters)",
                "value 1 (9 characters)",
                "value 1 (18 characters)",
                "value 2 (14 characters)"
            ]
        );
        let short = [("a".to_owned(), "long enough".to_owned()), ("b".into(), "short".into())];
        let error = Finder::default().with_values(&short).unwrap_err();
        assert_eq!(error, FinderError::ShortValue { number: 2 });
    }

    #[test]
    fn an_expression_must_match_something() {
        assert_eq!(Finder::expression("a*").unwrap_err(), FinderError::Empty);
        assert!(matches!(Finder::expression("("), Err(FinderError::Expression(_))));
        let found = Finder::expression("(?i)alice").unwrap().find(None, "Alice and alice");
        assert_eq!(found.iter().map(|one| one.range.clone()).collect::<Vec<_>>(), [0..5, 10..15]);
        assert_eq!(found[0].hint, "… (5 characters)");
    }

    #[test]
    fn overlapping_matches_are_merged() {
        let found = |range: Range<usize>, kind| Found { range, kind, hint: String::new() };
        let one =
            without_overlaps(vec![found(4..9, "b"), found(0..5, "a"), found(0..5, "c"), found(9..10, "d")]);
        assert_eq!(one, [found(0..9, "a"), found(9..10, "d")]);
    }
}

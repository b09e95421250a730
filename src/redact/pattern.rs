//! The forms of secrets: one table with a row for each kind.
//!
//! Prefixes and lengths are those that the issuers document, or that their own scanners look for. If lengths have
//! changed over the years, only the lower bound is checked. Group 1 of an expression is the secret itself. Without a
//! group 1, the secret is the whole match.

/// The condition under which a match is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The form is enough.
    Form,
    /// The text must also look random: see `looks_random`.
    Randomness,
}

/// One kind of secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pattern {
    /// The name of the kind in reports.
    pub kind: &'static str,
    /// The regular expression for the form.
    pub expression: &'static str,
    /// Whether the form is enough.
    pub proof: Proof,
    /// The number of first characters that all secrets of the kind share. They may be shown.
    pub open_chars: usize,
}

const fn form(kind: &'static str, open_chars: usize, expression: &'static str) -> Pattern {
    Pattern { kind, expression, proof: Proof::Form, open_chars }
}

/// All kinds, the most certain first: if two match the same text, the first one gives the kind. `\b` is the edge of
/// an ASCII word, and repetition counts are small. Both allow a search in one pass.
pub const PATTERNS: &[Pattern] = &[
    // RFC 7468; OpenSSH and PGP write the same frame. The end may be cut off, line breaks may be escaped.
    form(
        "private-key",
        10,
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s\\:,.()@<>_-]*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]*)",
    ),
    // Anthropic: API, admin, OAuth and session keys.
    form("anthropic-key", 6, r"\bsk-ant-[a-z]{3,6}[0-9]{2}-[A-Za-z0-9_-]{20,}"),
    // OpenRouter.
    form("openrouter-key", 6, r"\bsk-or-v1-[0-9a-f]{40,}"),
    // OpenAI: project, service-account and admin keys; old keys, and keys of other providers with the same form.
    form("openai-key", 3, r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}"),
    form("openai-key", 3, r"\bsk-[A-Za-z0-9]{20,}"),
    // Google: API keys, OAuth access tokens, OAuth client secrets.
    form("google-key", 4, r"\bAIza[0-9A-Za-z_-]{35}"),
    form("google-token", 5, r"\bya29\.[0-9A-Za-z_-]{20,}"),
    form("google-client-secret", 7, r"\bGOCSPX-[0-9A-Za-z_-]{20,}"),
    // AWS: ids of access keys (IAM identifiers: a prefix of four and base 32), and their secrets, found by context.
    form("aws-access-key", 4, r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    form(
        "aws-secret-key",
        0,
        r#"(?i)\baws[a-z0-9_. -]{0,20}(?:secret|session)[a-z0-9_. -]{0,20}["'\\]{0,3}\s{0,5}(?:=>|:=|=|:)\s{0,5}["'\\]{0,3}([A-Za-z0-9/+=]{40,})"#,
    ),
    // GitHub: personal, OAuth, user-to-server, server-to-server and refresh tokens; fine-grained ones.
    form("github-token", 4, r"\bgh[opusr]_[A-Za-z0-9]{36,}"),
    form("github-token", 11, r"\bgithub_pat_[A-Za-z0-9_]{22,}"),
    // GitLab: personal, deploy, runner, CI tokens.
    form("gitlab-token", 6, r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[A-Za-z0-9_.-]{20,}"),
    // Slack: tokens of every class, app tokens, incoming webhooks.
    form("slack-token", 4, r"\bxox[abceoprs]-[A-Za-z0-9-]{10,}"),
    form("slack-token", 5, r"\bxapp-[0-9]-[A-Za-z0-9-]{10,}"),
    form(
        "slack-webhook",
        8,
        r"https://hooks\.slack(?:-gov)?\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}",
    ),
    // Other issuers whose tokens have a prefix of their own.
    form("huggingface-token", 3, r"\bhf_[A-Za-z0-9]{30,}"),
    form("groq-key", 4, r"\bgsk_[A-Za-z0-9]{40,}"),
    form("xai-key", 4, r"\bxai-[A-Za-z0-9]{60,}"),
    form("npm-token", 4, r"\bnpm_[A-Za-z0-9]{36}"),
    form("pypi-token", 5, r"\bpypi-AgEI[A-Za-z0-9_-]{40,}"),
    form("stripe-key", 8, r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}"),
    form("sendgrid-key", 3, r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}"),
    form("twilio-key", 2, r"\bSK[0-9a-f]{32}\b"),
    form("docker-token", 10, r"\bdckr_[po]at_[A-Za-z0-9_-]{20,}"),
    form("digitalocean-token", 7, r"\bdo[opr]_v1_[0-9a-f]{64}"),
    form("telegram-token", 0, r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    form("azure-account-key", 0, r"\bAccountKey=([A-Za-z0-9+/]{80,}={0,2})"),
    // RFC 7519: three parts of base64url, the first two of which are JSON objects.
    form("jwt", 3, r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    // RFC 7235, in a header or in a command that sends one.
    form(
        "authorization-header",
        0,
        r#"(?i)\bauthorization["'\\]{0,3}\s{0,5}[:=]\s{0,5}["'\\]{0,3}(?:bearer|basic|token|digest)\s+([A-Za-z0-9+/=._~-]{8,})"#,
    ),
    // RFC 3986: user and password before the host.
    form(
        "url-password",
        0,
        r"\b[A-Za-z][A-Za-z0-9+.-]+://[^\s:/@\x22'<>\[\]{}]*:([^\s:/@\x22'<>\[\]{}$*]{3,})@",
    ),
    // name = value, in the common notations.
    Pattern {
        kind: "assigned-secret",
        expression: r#"(?i)(?:key|token|secret|passwd|password|passphrase|pwd|credentials?)["'\\]{0,3}\s{0,5}(?:=>|:=|=|:)\s{0,5}["'\\]{0,3}([^\s"'`\\,;&|<>(){}\[\]]{8,})"#,
        proof: Proof::Randomness,
        open_chars: 0,
    },
];

impl Pattern {
    /// Returns the expression in the syntax of the regex engine.
    pub(super) fn source(&self) -> String {
        self.expression.replace(r"\b", r"(?-u:\b)")
    }
}

/// The kind of a value in a member whose name is the name of a secret.
pub const NAMED: &str = "named-secret";

/// Returns whether a member of this name probably holds a secret.
#[must_use]
pub fn names_a_secret(name: &str) -> bool {
    const ENDS: [&str; 10] = [
        "key",
        "token",
        "secret",
        "passwd",
        "password",
        "passphrase",
        "pwd",
        "credential",
        "credentials",
        "authorization",
    ];
    let name = name.to_ascii_lowercase();
    ENDS.iter().any(|end| name.ends_with(end)) && !is_harmless_key(&name)
}

/// Returns whether a name is that of a key that gives no access, such as `cache_key`.
pub(super) fn is_harmless_key(name: &str) -> bool {
    const HARMLESS: [&str; 9] =
        ["cache", "sort", "public", "primary", "foreign", "partition", "idempotency", "group", "routing"];
    let stem = name.strip_suffix("key").map(|stem| stem.trim_end_matches(['_', '-', '.', ' ']));
    stem.is_some_and(|stem| HARMLESS.iter().any(|harmless| stem.ends_with(harmless)))
}

/// Returns whether the characters of `text` look like a secret: one word of at least eight bytes, with letters and
/// with digits or unusual signs, of enough entropy. False for a stand-in and for a sealed value.
#[must_use]
pub fn looks_random(text: &str) -> bool {
    if text.len() < 8 || text.contains(char::is_whitespace) || is_stand_in(text) || is_sealed(text) {
        return false;
    }
    let letters = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    let digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let signs = text.bytes().any(|byte| !byte.is_ascii_alphanumeric() && !b"._-/".contains(&byte));
    let mixed = letters && (digits || signs);
    mixed && entropy(text) >= 2.5
}

/// Returns the Shannon entropy of the text, in bits per byte.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let length = text.len() as f64;
    let share = |count: &u32| f64::from(*count) / length;
    counts.iter().filter(|count| **count > 0).map(share).map(|share| -share * share.log2()).sum()
}

/// Returns whether the text is a stand-in for a secret: masked, a variable, or an example.
pub(super) fn is_stand_in(text: &str) -> bool {
    const WORDS: [&str; 12] = [
        "redacted",
        "your_",
        "your-",
        "yourkey",
        "example",
        "placeholder",
        "changeme",
        "environ",
        "getenv",
        "process.env",
        "xxxx",
        "****",
    ];
    let lower = text.to_ascii_lowercase();
    text.starts_with(['$', '%', '<', '{']) || WORDS.iter().any(|word| lower.contains(word))
}

/// Returns whether the text is a Fernet token (version 0x80, then a time before 2106). The reference writes one if it
/// has a key to seal secrets with.
pub(super) fn is_sealed(text: &str) -> bool {
    text.starts_with("gAAAAA")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_words_differ_from_code_and_stand_ins() {
        for random in ["hunter2hunter2", "correct-horse7", "aB3dE5fG7", "p@ssw!rd"] {
            assert!(looks_random(random), "{random}");
        }
        for plain in [
            "short1",
            "password",
            "os.environ",
            "${TOKEN1234}",
            "<your-token-1>",
            "your_api_key_1",
            "********12",
            "gAAAAABlabc123abc123",
            "two words 12",
            "11111111",
        ] {
            assert!(!looks_random(plain), "{plain}");
        }
    }

    #[test]
    fn a_name_says_that_its_value_is_secret() {
        for name in ["api_key", "AWS_SECRET", "github-token", "Password", "x-api-key", "authorization"] {
            assert!(names_a_secret(name), "{name}");
        }
        for name in ["prompt_tokens", "cache_key", "publicKey", "tokenizer", "keyboard", "usage_id"] {
            assert!(!names_a_secret(name), "{name}");
        }
    }
}

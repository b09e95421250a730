//! Replaces the references `${NAME}`, `${NAME:-default}` and `$NAME` in a text by their values.

/// Which references are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum References {
    /// `${NAME}` and `${NAME:-default}`. Used for a configuration.
    Braced,
    /// Also `$NAME`, as in a shell. Used for the arguments of a call.
    All,
}

/// Replaces each reference in the text by its value, or else by its default. A reference without either stays.
pub(super) fn expand(text: &str, references: References, value: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let from = &rest[at..];
        match reference(from, references) {
            Some((name, default, length)) => {
                match value(name).or_else(|| default.map(str::to_owned)) {
                    Some(value) => out.push_str(&value),
                    None => out.push_str(&from[..length]),
                }
                rest = &from[length..];
            }
            None => {
                out.push('$');
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Returns the reference at the start of the text: its name, its default and its length. `None` if there is none.
fn reference(text: &str, references: References) -> Option<(&str, Option<&str>, usize)> {
    let name_of = |text: &str| {
        let end =
            text.bytes().position(|byte| !byte.is_ascii_alphanumeric() && byte != b'_').unwrap_or(text.len());
        (end > 0 && !text.as_bytes()[0].is_ascii_digit()).then_some(end)
    };
    let Some(inner) = text.strip_prefix("${") else {
        let name = text.strip_prefix('$').filter(|_| references == References::All)?;
        let end = name_of(name)?;
        return Some((&name[..end], None, end + 1));
    };
    let end = name_of(inner)?;
    let after = &inner[end..];
    if after.starts_with('}') {
        return Some((&inner[..end], None, end + 3));
    }
    let default = after.strip_prefix(":-")?;
    let close = default.find('}')?;
    Some((&inner[..end], Some(&default[..close]), 2 + end + 2 + close + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_as_the_reference_replaces_them() {
        let value = |name: &str| (name == "A_1").then(|| "value".to_owned());
        for (text, braced, all) in [
            ("${A_1}", "value", "value"),
            ("x$A_1/y", "x$A_1/y", "xvalue/y"),
            ("${B:-none}${B}", "none${B}", "none${B}"),
            ("${B:-}|${A_1:-x}", "|value", "|value"),
            ("$ $1 ${1} ${A-x} ${A_1", "$ $1 ${1} ${A-x} ${A_1", "$ $1 ${1} ${A-x} ${A_1"),
            ("$$A_1 é$", "$$A_1 é$", "$value é$"),
        ] {
            assert_eq!(expand(text, References::Braced, &value), braced, "{text}");
            assert_eq!(expand(text, References::All, &value), all, "{text}");
        }
    }
}

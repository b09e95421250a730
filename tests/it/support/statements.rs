//! Statements that use time or memory in places where the SQL engine does not check its limits.

/// The start of a statement whose table `t` has one row with a text of 60 MB.
const LARGE: &str =
    "WITH t(p) AS (SELECT replace(printf('%.*c', 60000000, 'x'), 'x', '1') AS p LIMIT 1) SELECT ";

fn many(one: impl Fn(usize) -> String, count: usize, between: &str) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(between)
}

/// Returns a statement with `depth` nested names. Each name joins the name before it `times` times.
fn names(depth: usize, times: usize) -> String {
    let mut sql = "WITH a0(x) AS (SELECT 1)".to_owned();
    for level in 1..=depth {
        let before = many(|n| format!("a{} AS t{n}", level - 1), times, " JOIN ");
        sql.push_str(&format!(", a{level}(x) AS (SELECT t0.x FROM {before})"));
    }
    format!("{sql} SELECT count(*) FROM a{depth}")
}

/// Returns a statement with `depth` nested expressions. Each uses the expression before it twice.
fn expressions(depth: usize) -> String {
    let each = many(|n| format!(", a{}(x) AS (SELECT x + x + 1 FROM a{n})", n + 1), depth, "");
    format!("WITH a0(x) AS (SELECT sequence FROM events){each} SELECT x FROM a{depth}")
}

/// Returns statements that grow while they are parsed. They are refused independently of the time limit.
pub fn growing() -> Vec<String> {
    let mut all: Vec<String> = [16, 20, 40].map(|depth| names(depth, 2)).into();
    all.extend([16, 30].map(expressions));
    all
}

/// Returns statements that do not grow while they are parsed, but exceed a limit of time or memory when they run.
pub fn straight() -> Vec<String> {
    let over = |one: &str, count: usize, between: &str| {
        format!("{LARGE}{} FROM t", many(|_| one.to_owned(), count, between))
    };
    vec![
        names(10, 3),
        format!("SELECT {}", many(|n| format!("printf('%.*c', {}, 'x')", 60_000_000 + n), 50, ", ")),
        format!("SELECT {}", many(|n| format!("printf('%.*c', {}, 'x')", 2_000_000 + n), 190, ", ")),
        over("length(upper(p))", 189, " + "),
        over(&format!("{}p{}", "upper(lower(".repeat(10), "))".repeat(10)), 150, ", "),
        over("json_valid(p || '')", 59, " + "),
        over("length(p)", 190, ", "),
        over("length(trim(p, '1'))", 190, ", "),
        over("substr(p, 59999999)", 190, ", "),
        over(&many(|_| "(p = p)".to_owned(), 80, " + "), 100, ", "),
        over(&format!("p IN ({})", many(|_| "p".to_owned(), 200, ", ")), 100, ", "),
        over(&many(|_| "p".to_owned(), 150, " + "), 100, ", "),
        over(&format!("CASE WHEN {} THEN 1 END", many(|_| "p".to_owned(), 150, " AND ")), 100, ", "),
        format!("{LARGE}{} FROM t", many(|n| format!("sum(p + {n})"), 180, ", ")),
    ]
}

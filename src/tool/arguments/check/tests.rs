use super::super::Inner;
use super::*;

const EDITOR: &[Parameter] = &[
    parameter("command", Of::Words(&["view", "create", "undo_edit"]), Need::Required),
    parameter("path", Of::Text, Need::Required),
    parameter("insert_line", Of::Count, Need::Nullable),
    parameter("view_range", Of::List(Inner::Fixed(&Of::Integer)), Need::Nullable),
    parameter("is_input", Of::Boolean, Need::Optional),
    parameter("timeout", Of::Number, Need::Nullable),
    parameter("tasks", Of::List(Inner::Fixed(&Of::Object("TaskItem", TASK))), Need::Optional),
];

const TASK: &[Parameter] = &[
    parameter("title", Of::Text, Need::Required),
    parameter("status", Of::Alias(&["todo", "done"], |word| word == "todo"), Need::Optional),
];

const fn parameter(name: &'static str, of: Of, need: Need) -> Parameter {
    Parameter::new(name, of, need, "")
}

fn report(arguments: &str) -> String {
    match check("FileEditorAction", EDITOR, Raw::parse(arguments).unwrap()) {
        Ok(()) => String::new(),
        Err(text) => text,
    }
}

/// Compares with the lines that pydantic 2.14.3 wrote for the same arguments, without the address.
#[track_caller]
fn assert_report(more: &str, expected: &[&str]) {
    let text = report(&format!(r#"{{"command":"view","path":"/a",{more}}}"#));
    let lines: Vec<&str> =
        text.lines().skip(1).filter(|line| !line.starts_with("    For")).map(str::trim).collect();
    assert_eq!(lines, expected, "{more}");
}

#[test]
fn errors_are_reported_in_pydantics_words() {
    assert_eq!(
        report(r#"{"command":"view"}"#),
        "1 validation error for FileEditorAction\npath\n  Field required [type=missing, input_value={'command': \
         'view'}, input_type=dict]\n    For further information visit https://errors.pydantic.dev/2.14/v/missing"
    );
    assert_eq!(
        report(r#"{"command":"rename","path":"/x"}"#),
        "1 validation error for FileEditorAction\ncommand\n  Input should be 'view', 'create' or 'undo_edit' \
         [type=literal_error, input_value='rename', input_type=str]\n    For further information visit \
         https://errors.pydantic.dev/2.14/v/literal_error"
    );
    assert!(
        report(r#"{"x":1}"#)
            .starts_with("3 validation errors for FileEditorAction\ncommand\n  Field required")
    );
    assert_eq!(
        report(r#"{"kind":"X","path":"/a"}"#).lines().nth(1),
        Some(
            "  Assertion failed,  [type=assertion_error, input_value={'kind': 'X', 'path': '/a'}, input_type=dict]"
        )
    );
}

#[test]
fn what_pydantic_accepts_is_accepted() {
    for more in [
        r#""insert_line":"3""#,
        r#""insert_line":true"#,
        r#""insert_line":2.0"#,
        r#""insert_line":null"#,
        r#""timeout":true"#,
        r#""is_input":"yes""#,
        r#""is_input":1"#,
        r#""tasks":[{"title":"a","status":"todo","more":1}]"#,
        r#""kind":"FileEditorAction""#,
    ] {
        assert_report(more, &[]);
    }
}

#[test]
fn every_type_has_its_error_texts() {
    let ge = "Input should be greater than or equal to 0";
    for (more, line) in [
        (r#""insert_line":-1"#, format!("{ge} [type=greater_than_equal, input_value=-1, input_type=int]")),
        (
            r#""insert_line":1.5"#,
            "Input should be a valid integer, got a number with a fractional part [type=int_from_float, \
             input_value=1.5, input_type=float]"
                .to_owned(),
        ),
        (
            r#""insert_line":"x""#,
            "Input should be a valid integer, unable to parse string as an integer [type=int_parsing, \
             input_value='x', input_type=str]"
                .to_owned(),
        ),
        (
            r#""insert_line":NaN"#,
            "Input should be a finite number [type=finite_number, input_value=nan, input_type=float]"
                .to_owned(),
        ),
        (
            r#""insert_line":[]"#,
            "Input should be a valid integer [type=int_type, input_value=[], input_type=list]".to_owned(),
        ),
        (
            r#""is_input":"maybe""#,
            "Input should be a valid boolean, unable to interpret input [type=bool_parsing, \
             input_value='maybe', input_type=str]"
                .to_owned(),
        ),
        (
            r#""is_input":2.5"#,
            "Input should be a valid boolean [type=bool_type, input_value=2.5, input_type=float]".to_owned(),
        ),
        (
            r#""timeout":"soon""#,
            "Input should be a valid number, unable to parse string as a number [type=float_parsing, \
             input_value='soon', input_type=str]"
                .to_owned(),
        ),
        (r#""timeout":-1"#, format!("{ge} [type=greater_than_equal, input_value=-1, input_type=int]")),
    ] {
        let name = more.split('"').nth(1).unwrap();
        assert_report(more, &[name, &line]);
    }
    assert_report(
        r#""view_range":[1,"x"],"tasks":[{},{"title":1,"status":"later"},5],"z":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa""#,
        &[
            "view_range.1",
            "Input should be a valid integer, unable to parse string as an integer [type=int_parsing, \
             input_value='x', input_type=str]",
            "tasks.0.title",
            "Field required [type=missing, input_value={}, input_type=dict]",
            "tasks.1.title",
            "Input should be a valid string [type=string_type, input_value=1, input_type=int]",
            "tasks.1.status",
            "Input should be 'todo' or 'done' [type=literal_error, input_value='later', input_type=str]",
            "tasks.2",
            "Input should be a valid dictionary or instance of TaskItem [type=model_type, input_value=5, \
             input_type=int]",
            "z",
            "Extra inputs are not permitted [type=extra_forbidden, \
             input_value='aaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaa', input_type=str]",
        ],
    );
}

//! The answers for operations of the reference that this server does not have. They contain the reason.

use axum::extract::Request;

use super::list;
use super::operation::{Operation, Standing};
use crate::server::http::failure::{self, Failure};

/// Answers a request that matches no route: 501 with a reason if the reference has the operation, otherwise 404.
pub(in crate::server) async fn no_route(request: Request) -> Failure {
    match refusal(request.method().as_str(), request.uri().path()) {
        Some(failure) => failure,
        None => failure::not_found().await,
    }
}

/// Answers a request whose route does not support its method: 501 with a reason if the reference has the operation,
/// otherwise 405.
pub(in crate::server) async fn no_method(request: Request) -> Failure {
    match refusal(request.method().as_str(), request.uri().path()) {
        Some(failure) => failure,
        None => failure::method_not_allowed().await,
    }
}

fn refusal(method: &str, path: &str) -> Option<Failure> {
    list::all().find_map(|(_, operation)| match operation.standing {
        Standing::Absent(why) if operation.method == method && fits(operation, path) => {
            Some(Failure::absent(why))
        }
        Standing::NotFound(why) if operation.method == method && fits(operation, path) => {
            Some(Failure::not_found(why))
        }
        Standing::Absent(_)
        | Standing::NotFound(_)
        | Standing::Same
        | Standing::Better(_)
        | Standing::Own => None,
    })
}

/// Returns whether a path belongs to the operation. A name in braces matches one step, and `{file_path}` matches the
/// whole rest.
fn fits(operation: &Operation, path: &str) -> bool {
    let mut steps = path.split('/').peekable();
    for want in operation.path.split('/') {
        let Some(step) = steps.next() else { return false };
        let is_any = want.starts_with('{') && !step.is_empty();
        if !is_any && want != step {
            return false;
        }
        if want == "{file_path}" {
            return true;
        }
    }
    steps.peek().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_operations_give_a_reason_and_unknown_ones_are_not_found() {
        let status = |method: &str, path: &str| match refusal(method, path) {
            Some(Failure::Refused(status, text)) => Some((status.as_u16(), text)),
            Some(
                Failure::Stale(..)
                | Failure::Later(_)
                | Failure::Schema(_)
                | Failure::Launch(_)
                | Failure::Internal(_),
            )
            | None => None,
        };
        let (code, text) = status("POST", "/api/llm/subscription/openai/device/start").unwrap();
        assert_eq!(code, 501);
        assert!(text.starts_with("Annals does not serve this. Annals does not log in"), "{text}");
        assert_eq!(status("GET", "/api/init").unwrap().0, 404);
        assert_eq!(status("GET", "/api/mcp/oauth/status/7").unwrap().0, 501);
        assert_eq!(status("POST", "/api/canvas-extensions/install").unwrap().0, 501);
        for (method, path) in
            [("PUT", "/api/vscode/status"), ("GET", "/api/vscode/status/x"), ("GET", "/api/nothing")]
        {
            assert_eq!(status(method, path), None, "{method} {path}");
        }
    }
}

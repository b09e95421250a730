//! The program `annals`: hands its arguments to the command line.

use std::process::ExitCode;

#[cfg(feature = "cli")]
fn main() -> ExitCode {
    annals::cli::main()
}

#[cfg(not(feature = "cli"))]
fn main() -> ExitCode {
    use std::io::Write as _;
    let message = "annals was built without its command line; build it with `--features cli`\n";
    let _lost = std::io::stderr().write_all(message.as_bytes());
    ExitCode::from(2)
}

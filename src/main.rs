//! The program `annals`: hands its arguments to the command line.

use std::process::ExitCode;

#[cfg(feature = "cli")]
fn main() -> ExitCode {
    annals::cli::main()
}

#[cfg(not(feature = "cli"))]
fn main() -> ExitCode {
    eprintln!("annals was built without its command line; build it with `--features cli`");
    ExitCode::from(2)
}

//! The commands that run another one, and their options.

use super::Word;

/// A command that runs another one.
pub(super) struct Wrapper {
    pub name: &'static str,
    /// Its short options without an argument.
    pub flags: &'static str,
    /// Its short options with an argument, which is in the same word or in the next one.
    pub with_word: &'static str,
    /// Its long options without an argument, or with one in the same word only. A space divides them.
    pub long_flags: &'static str,
    /// Its long options with an argument. A space divides them.
    pub long_with_word: &'static str,
    /// Its short options with the source of a shell or a line of words. They are among those with an argument, too.
    pub texts: &'static str,
    /// Its long options with such a text. A space divides them.
    pub long_texts: &'static str,
    /// How many operands of its own stand before the command.
    pub operands: usize,
    /// Whether these operands may be missing.
    pub may_lack_operands: bool,
    /// Whether it gives its words to a shell as one text.
    pub joins: bool,
    /// Whether it begins a shell if it gets no command.
    pub begins_shell: bool,
}

impl Wrapper {
    /// Returns the wrapper of this name. `None` if the command is no wrapper.
    pub fn of(name: &str) -> Option<&'static Self> {
        let other = || has(OTHERS, name).then_some(&PLAIN);
        let loader = || LOADERS.iter().any(|begin| name.starts_with(*begin)).then_some(&LOADER);
        WRAPPERS.iter().find(|wrapper| wrapper.name == name).or_else(other).or_else(loader)
    }

    /// Returns the wrapper for a command of a program that runs the words behind it (`git bisect run`), and these
    /// words.
    pub fn within<'w>(name: &str, arguments: &'w [Word]) -> Option<(&'static Self, &'w [Word])> {
        let runner = |word: &Word| {
            RUNNERS.iter().find(|(program, command, _)| *program == name && word.text == *command)
        };
        let (place, (.., wrapper)) =
            arguments.iter().enumerate().find_map(|(place, word)| Some((place, runner(word)?)))?;
        Some((*wrapper, arguments.get(place + 1..).unwrap_or_default()))
    }
}

/// A wrapper without known options.
const PLAIN: Wrapper = Wrapper {
    name: "",
    flags: "",
    with_word: "",
    long_flags: "",
    long_with_word: "",
    texts: "",
    long_texts: "",
    operands: 0,
    may_lack_operands: false,
    joins: false,
    begins_shell: false,
};

/// A program's command with an operand of its own.
const WITH_OPERAND: Wrapper = Wrapper { operands: 1, ..PLAIN };

/// A program's command that gives its words to a shell.
const JOINING: Wrapper = Wrapper { joins: true, ..PLAIN };

/// What the names of dynamic loaders begin with. They run the program in their words.
const LOADERS: &[&str] = &["ld-linux", "ld-musl", "ld.so", "ld64.so"];

const LOADER: Wrapper = Wrapper {
    long_flags: "help inhibit-cache list list-diagnostics list-tunables verify version",
    long_with_word: "argv0 audit glibc-hwcaps-mask glibc-hwcaps-prepend inhibit-rpath library-path preload",
    ..PLAIN
};

/// Commands of programs that run the words behind them.
const RUNNERS: &[(&str, &str, &Wrapper)] = &[
    ("asdf", "exec", &PLAIN),
    ("bundle", "exec", &PLAIN),
    ("conda", "run", &PLAIN),
    ("direnv", "exec", &WITH_OPERAND),
    ("git", "foreach", &JOINING),
    ("git", "run", &PLAIN),
    ("hatch", "run", &PLAIN),
    ("ip", "exec", &WITH_OPERAND),
    ("jobs", "-x", &PLAIN),
    ("mamba", "run", &PLAIN),
    ("mise", "exec", &PLAIN),
    ("nix", "--command", &PLAIN),
    ("nix", "-c", &PLAIN),
    ("npm", "exec", &PLAIN),
    ("pdm", "run", &PLAIN),
    ("pipenv", "run", &PLAIN),
    ("pnpm", "exec", &PLAIN),
    ("poetry", "run", &PLAIN),
    ("pyenv", "exec", &PLAIN),
    ("rbenv", "exec", &PLAIN),
    ("rustup", "run", &WITH_OPERAND),
    ("uv", "run", &PLAIN),
    ("yarn", "exec", &PLAIN),
];

/// Wrappers without options, or with options that are not in the table.
const OTHERS: &str = "builtin busybox caffeinate catchsegv dbus-run-session eatmydata fakeroot firejail linux32 linux64 \
    nocorrect noglob nohup npx pkexec prlimit proxychains proxychains4 rlwrap setpriv \
    systemd-inhibit systemd-run torsocks toybox unbuffer valgrind xvfb-run";

/// Sources: the manuals of bash, coreutils, findutils, util-linux, sudo, strace and others.
const WRAPPERS: &[Wrapper] = &[
    Wrapper { name: "capsh", with_word: "c", texts: "c", ..PLAIN },
    Wrapper {
        name: "chroot",
        long_flags: "skip-chdir",
        long_with_word: "groups userspec",
        operands: 1,
        begins_shell: true,
        ..PLAIN
    },
    Wrapper { name: "chrt", flags: "abdfiomrRv", with_word: "DPT", operands: 1, ..PLAIN },
    Wrapper { name: "command", flags: "pvV", ..PLAIN },
    Wrapper { name: "doas", flags: "Lns", with_word: "aCu", ..PLAIN },
    Wrapper {
        name: "env",
        flags: "i0v",
        with_word: "aCPSu",
        long_flags: "block-signal debug default-signal ignore-environment ignore-signal list-signal-handling null",
        long_with_word: "argv0 chdir split-string unset",
        texts: "S",
        long_texts: "split-string",
        ..PLAIN
    },
    Wrapper { name: "exec", flags: "cl", with_word: "a", ..PLAIN },
    Wrapper { name: "faketime", flags: "fm", operands: 1, ..PLAIN },
    Wrapper {
        name: "flock",
        flags: "eFnosux",
        with_word: "cEw",
        long_flags: "close exclusive nb no-fork nonblock shared unlock verbose",
        long_with_word: "command conflict-exit-code timeout wait",
        texts: "c",
        long_texts: "command",
        operands: 1,
        ..PLAIN
    },
    Wrapper { name: "gosu", operands: 1, ..PLAIN },
    Wrapper {
        name: "ionice",
        flags: "t",
        with_word: "cnpPu",
        long_flags: "ignore",
        long_with_word: "class classdata pgid pid uid",
        ..PLAIN
    },
    Wrapper { name: "ltrace", flags: "bcCfhiLrStTV", with_word: "aADeFlnopsuwx", ..PLAIN },
    Wrapper { name: "nice", flags: "0123456789", with_word: "n", long_with_word: "adjustment", ..PLAIN },
    Wrapper { name: "nsenter", begins_shell: true, ..PLAIN },
    Wrapper { name: "parallel", joins: true, ..PLAIN },
    Wrapper {
        name: "runcon",
        flags: "c",
        with_word: "lrtu",
        long_flags: "compute",
        long_with_word: "range role type user",
        operands: 1,
        may_lack_operands: true,
        ..PLAIN
    },
    Wrapper {
        name: "runuser",
        flags: "flmpP",
        with_word: "cgGsuw",
        long_with_word: "command session-command user",
        texts: "c",
        long_texts: "command session-command",
        operands: 1,
        may_lack_operands: true,
        begins_shell: true,
        ..PLAIN
    },
    Wrapper {
        name: "script",
        flags: "aefq",
        with_word: "BcEIOTtm",
        long_with_word: "command",
        texts: "c",
        long_texts: "command",
        operands: 1,
        begins_shell: true,
        ..PLAIN
    },
    Wrapper {
        name: "setarch",
        flags: "BFILRSTXZ3v",
        operands: 1,
        may_lack_operands: true,
        begins_shell: true,
        ..PLAIN
    },
    Wrapper { name: "sg", with_word: "c", texts: "c", operands: 1, joins: true, begins_shell: true, ..PLAIN },
    Wrapper { name: "setsid", flags: "cfw", long_flags: "ctty fork wait", ..PLAIN },
    Wrapper { name: "stdbuf", with_word: "eio", long_with_word: "error input output", ..PLAIN },
    Wrapper { name: "strace", flags: "cCdDfFhiknNqrtTvVwxyYzZ", with_word: "abeEIoOpPsSuUX", ..PLAIN },
    Wrapper {
        name: "su",
        flags: "flmpP",
        with_word: "cgGsw",
        long_with_word: "command session-command",
        texts: "c",
        long_texts: "command session-command",
        operands: 1,
        begins_shell: true,
        ..PLAIN
    },
    Wrapper { name: "su-exec", operands: 1, ..PLAIN },
    Wrapper {
        name: "sudo",
        flags: "AbBEeHikKlnNPsSvV",
        with_word: "CDghpRrtTuU",
        long_flags: "askpass background bell edit list login no-update non-interactive preserve-env preserve-groups \
            remove-timestamp reset-timestamp set-home shell stdin validate",
        long_with_word: "chdir chroot close-from command-timeout group host other-user prompt role type user",
        ..PLAIN
    },
    Wrapper { name: "taskset", flags: "ac", long_flags: "all-tasks cpu-list", operands: 1, ..PLAIN },
    Wrapper {
        name: "time",
        flags: "apqvV",
        with_word: "fo",
        long_flags: "append portability quiet verbose",
        long_with_word: "format output",
        ..PLAIN
    },
    Wrapper {
        name: "timeout",
        flags: "fpv",
        with_word: "ks",
        long_flags: "foreground preserve-status verbose",
        long_with_word: "kill-after signal",
        operands: 1,
        ..PLAIN
    },
    Wrapper { name: "unshare", flags: "cCfimnpruTU", with_word: "GRSw", begins_shell: true, ..PLAIN },
    Wrapper {
        name: "watch",
        flags: "bcCdeghprtwx",
        with_word: "nqs",
        long_flags: "beep chgexit color differences errexit exec no-title no-wrap precise",
        long_with_word: "equexit interval",
        joins: true,
        ..PLAIN
    },
    Wrapper {
        name: "xargs",
        flags: "0oprtx",
        with_word: "adEIJLnPRsS",
        long_flags: "eof exit interactive max-lines no-run-if-empty null open-tty replace verbose",
        long_with_word: "arg-file delimiter max-args max-chars max-procs process-slot-var",
        ..PLAIN
    },
];

/// Returns whether one of the names, which a space divides, is this one.
pub(super) fn has(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|one| one == name)
}

//! The commands that run another one, and their options.

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
    /// How many operands of its own stand before the command.
    pub operands: usize,
}

impl Wrapper {
    /// Returns the wrapper of this name. `None` if the command is no wrapper.
    pub fn of(name: &str) -> Option<&'static Self> {
        let other = || has(OTHERS, name).then_some(&PLAIN);
        WRAPPERS.iter().find(|wrapper| wrapper.name == name).or_else(other)
    }
}

/// A wrapper without known options.
const PLAIN: Wrapper =
    Wrapper { name: "", flags: "", with_word: "", long_flags: "", long_with_word: "", operands: 0 };

/// Wrappers without options, or with options that are not in the table.
const OTHERS: &str = "builtin busybox caffeinate catchsegv dbus-run-session eatmydata fakeroot firejail linux32 linux64 \
    nocorrect noglob nohup nsenter parallel pkexec prlimit proxychains proxychains4 rlwrap runcon setarch setpriv \
    systemd-inhibit systemd-run torsocks toybox unbuffer valgrind xvfb-run";

/// Sources: the manuals of bash, coreutils, findutils, util-linux, sudo, strace and others.
const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        name: "chroot",
        long_flags: "skip-chdir",
        long_with_word: "groups userspec",
        operands: 1,
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
        operands: 1,
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
    Wrapper {
        name: "runuser",
        flags: "flmpP",
        with_word: "cgGsuw",
        long_with_word: "command user",
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        name: "script",
        flags: "aefq",
        with_word: "BcEIOTtm",
        long_with_word: "command",
        operands: 1,
        ..PLAIN
    },
    Wrapper { name: "setsid", flags: "cfw", long_flags: "ctty fork wait", ..PLAIN },
    Wrapper { name: "stdbuf", with_word: "eio", long_with_word: "error input output", ..PLAIN },
    Wrapper { name: "strace", flags: "cCdDfFhiknNqrtTvVwxyYzZ", with_word: "abeEIoOpPsSuUX", ..PLAIN },
    Wrapper {
        name: "su",
        flags: "flmpP",
        with_word: "cgGsw",
        long_with_word: "command",
        operands: 1,
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
    },
    Wrapper { name: "unshare", flags: "cCfimnpruTU", with_word: "GRSw", ..PLAIN },
    Wrapper {
        name: "watch",
        flags: "bcCdeghprtwx",
        with_word: "nqs",
        long_flags: "beep chgexit color differences errexit exec no-title no-wrap precise",
        long_with_word: "equexit interval",
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

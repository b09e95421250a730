use super::*;

fn pipelines(source: &str) -> Vec<Pipeline> {
    read(source).pipelines
}

fn words(source: &str) -> Vec<Vec<Vec<String>>> {
    let command = |command: &Command| command.words.iter().map(|word| word.text.clone()).collect();
    pipelines(source).iter().map(|pipeline| pipeline.iter().map(command).collect()).collect()
}

#[test]
fn a_line_is_parsed_as_by_a_shell() {
    assert_eq!(
        words("a 'b c' | d\\ e && f > g 2>&1; h"),
        [vec![vec!["a", "b c"], vec!["d e"]], vec![vec!["f"]], vec![vec!["h"]]]
    );
    assert_eq!(words("if true; then rm x; fi"), [[["true"].to_vec()], [["rm", "x"].to_vec()]]);
    let read = pipelines("cat <<E | sh\nrm x\nE\necho \"$(a; b)\" $X `c` ~/y <(d)");
    assert_eq!(read[0][0].inputs.texts, ["rm x\n"]);
    assert_eq!(read[1][0].nested, ["a; b", "c", "d"]);
    let unknown: Vec<bool> = read[1][0].words.iter().map(|word| word.is_unknown).collect();
    assert_eq!(unknown, [false, true, true, true, false, true]);
    assert!(read[1][0].words[4].is_home);
    assert_eq!(pipelines("sh <<< 'x y'")[0][0].inputs.texts, ["x y"]);
    assert!(pipelines(" # nothing").is_empty());
}

fn is_unclear(source: &str) -> bool {
    read(source).is_unclear
}

fn nested(source: &str) -> Vec<String> {
    pipelines(source).into_iter().flatten().flat_map(|command| command.nested).collect()
}

#[test]
fn substitutions_within_expansions_are_kept() {
    // A shell runs `rm a` in each of them.
    for source in [
        "echo ${x:-$(rm a)} b",
        "echo ${x:=$(rm a)} b",
        "echo ${x:+$(rm a)} b",
        "echo ${x?$(rm a)} b",
        "echo ${x#$(rm a)} b",
        "echo ${x[$(rm a)]} b",
        "echo ${x:-`rm a`} b",
        "echo ${x:-<(rm a)} b",
        "echo ${x:-${y:-$(rm a)}} b",
        "echo ${x:-\"}\"$(rm a)} b",
        "echo ${x:-'}'$(rm a)} b",
        "echo ${x:-\\}$(rm a)} b",
        "echo ${x:-\"'$(rm a)'\"} b",
        "echo \"${x:-'$(rm a)'}\" b",
        "echo \"${x:-'}$(rm a)'}\" b",
        "echo \"${x:-\"'$(rm a)'\"}\" b",
        "echo ${x:-$(( '$(rm a)' ))} b",
        "echo $(( $(rm a) )) b",
        "echo $(( ($(rm a)) + 1 )) b",
        "echo $(( '$(rm a)' )) b",
        "echo $(( # $(rm a)\n)) b",
        "echo $((1<<x\n$(rm a)\nx\n)) b",
        "echo $(( ${x:-`rm a`} )) b",
        "cat <<E\n'$(rm a)'\nE\necho b",
        "cat <<E\n${x:-$(rm a)}\nE\necho b",
        "echo ${ rm a;} b",
        "echo \"${| rm a;}\" b",
    ] {
        let found: Vec<String> = nested(source).iter().map(|nested| nested.trim().replace(';', "")).collect();
        assert_eq!(found, ["rm a"], "{source}");
        let last = pipelines(source).pop().unwrap().pop().unwrap().words.pop().unwrap();
        assert_eq!(last.text, "b", "{source}");
    }
    for source in
        ["echo ${x:='$(rm a)'}", "cat <<'E'\n$(rm a)\nE", "cat <<E\n\\$(rm a)\nE", "echo $'$(rm a)'"]
    {
        assert_eq!(nested(source), [""; 0], "{source}");
    }
}

#[test]
fn an_arithmetic_command_is_kept_because_some_shells_read_commands() {
    let expressions = |source: &str| -> Vec<String> {
        pipelines(source).into_iter().flatten().flat_map(|command| command.expressions).collect()
    };
    assert_eq!(
        (nested("(( '$(rm a)' ))"), expressions("(( '$(rm a)' ))")),
        (vec!["rm a".to_owned()], vec![" '$(rm a)' ".to_owned()])
    );
    for (source, expression) in
        [("((rm a))", "rm a"), ("((x<<2))", "x<<2"), ("for ((i=0;i<1;i++)); do a; done", "i=0;i<1;i++")]
    {
        assert_eq!(
            (nested(source), expressions(source)),
            (Vec::new(), vec![expression.to_owned()]),
            "{source}"
        );
    }
}

/// The sources are what bash runs. Other shells remove a backslash in some of them.
#[test]
fn backslashes_in_backquotes_are_removed_as_in_bash() {
    for (source, inner, is_doubtful) in [
        ("echo `a \\`b\\` \\$c`", "a `b` $c", false),
        ("echo `echo \\\"; rm a`", "echo \\\"; rm a", false),
        ("echo \"`echo \\\"; rm a\\\"`\"", "echo \"; rm a\"", false),
        ("echo ${x:-`echo \\\"; rm a`}", "echo \\\"; rm a", false),
        ("echo \"${x:-`echo \\\"; rm a`}\"", "echo \\\"; rm a", true),
        ("echo \"${x:-\"`echo \\\"; rm a`\"}\"", "echo \\\"; rm a", true),
        ("echo $(( `echo \\\"; rm a` ))", "echo \\\"; rm a", true),
        ("echo $[ `echo \\\"; rm a` ]", "echo \\\"; rm a", true),
        ("a[`echo \\\"; rm a`]=x", "echo \\\"; rm a", true),
        ("cat <<E\n`echo \\\"; rm a`\nE", "echo \\\"; rm a", true),
        ("cat <<E\n\"`echo \\\"; rm a`\"\nE", "echo \\\"; rm a", true),
        ("cat <<E\n${x:-`echo \\\"; rm a`}\nE", "echo \\\"; rm a", true),
    ] {
        assert_eq!((nested(source), is_unclear(source)), (vec![inner.to_owned()], is_doubtful), "{source}");
    }
}

#[test]
fn the_body_of_a_here_document_is_expanded_unless_its_marker_is_quoted() {
    let input = |source: &str| pipelines(source)[0][0].inputs.texts[0].clone();
    assert_eq!(
        input("sh <<E\n\\`a\\` \\$b \\\\ \\c '$d' $(e)\nE"),
        format!("`a` $b \\ \\c '{UNKNOWN}' {UNKNOWN}\n")
    );
    assert_eq!(input("sh <<'E'\n\\`a\\` $b\nE"), "\\`a\\` $b\n");
}

/// Each of these runs `rm a` in bash, and something in it looks like a comment, a here-document or a quote.
#[test]
fn nothing_hides_a_command_that_follows() {
    for source in [
        "(( y = 1 << x ))\nrm a",
        "for ((i=1;i<1<<1;i++)); do true; done\nrm a",
        "(( # )); rm a",
        "(( # ))\nrm a",
        "x=( case ); rm a",
        "x=( in do ) ; rm a",
        "echo a >-&rm a",
        "echo a\r#; rm a",
        "cat <<E\nx\n\tE\nE\nrm a",
        "cat <<-E\nx\n\tE\nrm a",
        "cat <<$x\n$x\nrm a",
        "{fd}>/dev/null rm a",
        "2>/dev/null rm a",
        "echo $[ 1 << 1 ]\nrm a",
        "echo $[ # ]; rm a",
        "echo \"$[ \"]\" ]\"; rm a",
        "a[1<<1]=x\nrm a",
        "b=1 >f a[1<<1]=x\nrm a",
        "time a[1<<2]=x\nrm a",
        "a=([1<<1]=x)\nrm a",
        "a=(1) rm a",
        "echo $(( a['\\'] )); rm a",
        "echo \"${x:-'}'}\"; rm a",
        "echo ${x:-'}'}; rm a",
        "echo \"${x#'}'}\"; rm a",
        "(( $(case 1 in 1) echo 1;; esac) << E ))\nrm a",
        "(( $(echo 1 # )\n) << E ))\nrm a",
        "[[ a < b ]]; rm a",
        "[[ a =~ (case) ]]; rm a",
        "[[ a =~ ((a|b)) ]]; rm a",
        "case x in a[) b;; x) rm a",
        "case $IFS in x) rm a",
        "function f { rm a",
        "function f() { rm a",
        "f() { rm a",
        "f() if true; then rm a",
        "for x do rm a",
        "select x do rm a",
        "coproc N for x do rm a",
        "cat <<EOF\nE\\\nOF\nrm a",
        "cat <<E\nx\\\nE\nit's\nE\nrm a",
        "cat <<A $(cat <<B\nb\nB\n)\na\nA\nrm a",
        "echo a |\nrm a",
        "cat <<E |\nx\nE\nrm a",
        "echo a;# b\nrm a",
        "echo a >| b; rm a",
        "echo a &> b; rm a",
        "echo a 2>&1; rm a",
        "r\\\nm a",
        "r''m a",
        "'r'm a",
        "\\rm a",
        "$'rm' a",
        "$'\\x72\\155' a",
        "$'rm\\0x' a",
        "echo $IFS#; rm a",
        "echo ${IFS}#; rm a",
        "echo $IFS\\\n#; rm a",
        "echo ${IFS%?}#; rm a",
        "a=(1)#; rm a",
        "a+=(1)#; rm a",
        "a=([0]=1)#; rm a",
        "declare a=(1)#; rm a",
        "a=(1)x rm a",
        "a=(1)$x rm a",
        "a=(1)`b` rm a",
        "a=(1)\"x y\" rm a",
        "a=(1){b,c} rm a",
        "a=(1)[2] rm a",
        "a=(1)~ rm a",
        "a=(1)2>f rm a",
        "a=(1)\\\n# ; rm a",
    ] {
        let last = words(source).pop().unwrap().pop().unwrap();
        assert_eq!(last, ["rm", "a"], "{source}");
    }
    for source in [
        "echo \"$(cat <<E\nx\nE)\"; rm a",
        "echo \"$(echo $(( a[')'] )))\"; rm a",
        "echo \"$(x=( case ))\"; rm a",
        "echo \"$( [[ a && case ]] )\"; rm a",
        "echo \"$( [[ ( case ) ]] )\"; rm a",
        "echo \"$( [[ a =~ (a|(case)) ]] )\"; rm a",
        "echo \"$( case$IFS x )\"; rm a",
        "echo \"$( $IFS case x )\"; rm a",
        "echo \"$( a=(1) case x )\"; rm a",
    ] {
        let last = words(source).pop().unwrap().pop().unwrap();
        assert_eq!(last, ["rm", "a"], "{source}");
    }
}

/// A shell runs `rm a` in each of them.
#[test]
fn substitutions_within_subscripts_conditions_and_expressions_are_kept() {
    for source in [
        "echo $[ $(rm a) ]",
        "echo \"$[ $(rm a) ]\"",
        "echo $[ '$(rm a)' ]",
        "a[$(rm a)]=x",
        "a['$(rm a)']=x",
        "a=([$(rm a)]=x)",
        "echo ${a[$(rm a)]}",
        "echo \"${a['$(rm a)']}\"",
        "[[ $(rm a) ]]",
        "[[ a == $(rm a) && b ]]",
        "[[ a < `rm a` ]]",
        "[[ a =~ ($(rm a)) ]]",
        "case $(rm a) in x) b;; esac",
        "case x in $(rm a)) b;; esac",
        "for x in $(rm a); do b; done",
        "cat <<< $(rm a)",
        "echo a{b,$(rm a)}",
        "echo <(rm a)",
        "echo a > >(rm a)",
        "x=$(rm a) b",
        "$IFS$(rm a)",
        "${IFS:$(rm a)}",
        "cat <<E\n$\\\n(rm a)\nE",
        "a=(1)$(rm a)",
        "a=(1)<(rm a)",
    ] {
        assert_eq!(nested(source), ["rm a"], "{source}");
    }
}

#[test]
fn a_source_that_ends_too_early_is_unclear() {
    for source in [
        "echo 'a",
        "echo \"a",
        "echo `a",
        "echo $'a",
        "echo $(a",
        "echo ${a",
        "echo $((1",
        "echo $((1)",
        "echo $[1",
        "echo <(a",
        "echo \"$(a",
        "echo \"${x:-'",
        "echo \"$(echo 'a)\"",
        "echo ${x:-'}",
        "echo $(( '1 ))",
        "((1",
        "(a",
        "(a) )",
        "{ a",
        "f() { a",
        "f()",
        "[[ a",
        "case x",
        "case x in",
        "case x in a",
        "case x in a) b",
        "if a; then b",
        "for x in a; do b",
        "while a",
        "a=(b",
        "a[1",
        "cat <<E",
        "cat <<E\nx",
        "cat <<E\nx\n E",
        "cat <<E\nx\nE\r",
        "cat <<E\n$(x\nE",
        "echo $(cat <<E)\nE",
        "a |",
        "a &&",
        "a \\",
    ] {
        assert!(is_unclear(source), "{source}");
        assert!(is_unclear(&format!("b; {source}")), "b; {source}");
    }
}

/// Some shell runs `rm a` in each of them, and another one does not.
#[test]
fn a_source_on_which_shells_do_not_agree_is_unclear() {
    for source in [
        "echo \"${x:-'\"}\"; rm a; echo \"'}\"",
        "echo \"${x:-it's}\"; rm a",
        "echo $[ ; rm a ]",
        "a[ ; rm a ]=x",
        "echo ${ rm a; }",
        "echo @( # ); rm a\n)",
        "echo @( <<E )\nrm a\nE",
        "[[ a == @( # ) ]]; rm a\n) ]]",
        "[[ a == @( <<E ) ]]\nrm a\nE",
        "[[ a =~ (x # y) ]]; rm a\n) ]]",
        "cat <<$x\nit's\n$x\nrm a\n: '",
        "cat <<$'E'\n$E\nrm a\nE",
        "cat <<$\"E\"\nE\nrm a\n$E",
        "cat <<${IFS}E\nE\nrm a\n${IFS}E",
        "cat <<E\r\nx\nE\r\nrm a\nE",
        "cat <<EOF\nE\\\nOF\nrm a\nEOF",
        "echo $(cat <<E\nx\nE); rm a",
        "cat <\\\n<E\nit's\nE\nrm a\n: '",
        "echo \"$\\\n(rm a)\"",
        "echo a #\rrm a",
        "r\u{1b}m a",
        "r\0m a",
        "true &>/dev/null rm a",
        "((x<<E))\n: 'it\nE\nrm a\n: '",
        "a[1<<E]=x\n: 'it\nE\nrm a\n: '",
        "a=(1)(2)",
    ] {
        assert!(is_unclear(source), "{source}");
    }
}

/// An interactive bash finds an error in the first line of each, and then runs `rm a`.
#[test]
fn an_error_hides_no_command_of_the_next_line() {
    for before in [
        ";;",
        "a ;;",
        "a ;&",
        "a &;",
        "a && &&",
        "a | | b",
        "| a",
        "& a",
        ")",
        "( ) a",
        "() a",
        "(a) b",
        "{ a; } b",
        "{ } a",
        "}",
        "then",
        "fi",
        "done",
        "esac",
        "in",
        "]]",
        "if a; fi",
        "if a then b; fi",
        "if a; then b; done",
        "if a; then b; else c; else d; fi",
        "for 1 in a; do b; done",
        "for x in a; b; do c; done",
        "for ((a;b)); do c; done",
        "for; do a; done",
        "while do a; done",
        "f() a",
        "echo f() {",
        "function f a",
        "function; a",
        "a=( b && c ); d",
        "a=( (b) ); c",
        "echo a=(b)",
        "a=(b)() { c; }",
        "((1))a",
        "[[ a b ]]",
        "[[ ]]",
        "[[ -f = x ]]",
        "[[ a && ]]",
        "[[ a ; b ]]",
        "[[ a ]] b",
        "((1)) a",
        "case a b in x) c;; esac",
        "case a in b c) d;; esac",
        "case a in ) d;; esac",
        "case a in b) c;; esac d",
        "time && a",
        "echo >; a",
        "echo > > a",
        "echo << ; a",
        "$(a &&) b",
        "echo \"$( ;; )\"",
    ] {
        for rest in [" '\nrm a\n'", " \"\nrm a\n\"", " \"$(echo \nrm a\n)\"", " <<E\nrm a\nE", " \\\nrm a"] {
            let source = format!("{before}{rest}");
            assert!(is_unclear(&source), "{source}");
        }
    }
}

#[test]
fn a_source_without_errors_is_clear() {
    for source in [
        "git commit -m \"$(cat <<'EOF'\nit's (done)\nEOF\n)\" && git push",
        "python3 - <<'EOF'\nprint(\"it's\")\nEOF",
        "cat > f <<EOF\n$(date) ${x:-it} `a` \"it's\"\n  a \\\n  b\nEOF",
        "cat <<A <<-B\na\nA\n\tb\n\tB\nls",
        "if [[ -f x && $y != z ]]; then git commit -m 'a\nb'; elif a; then b; else c; fi",
        "if ! grep -q 'a\nb' f; then\n  a\nfi > g",
        "for x in a b # c\ndo echo 'a\nb'; done | sort",
        "for x do a; done; for ((i=0; i<10; i++)) do echo '\n'; done",
        "while read -r x; do echo \"$x\n\"; done < f",
        "until a\ndo\n\n  b &\ndone",
        "case \"$1\" in\n  # c\n  (a|b) c ;;\n  [0-9]*) echo 'a\nb' ;;\n  *) ;;\nesac",
        "f() {\n  local x=1\n  echo '\n'\n}; f && f",
        "function f { a; }\nfunction g() ( b )\nh()\n{ echo '\n'; }",
        "( cd x && a ) && { b; c; } 2>&1 | d '\n'",
        "{ a; { b; }; ( c; ); } || echo '\n'",
        "x=(a 'b\nc' # d\n  e); declare -a y=(f); x+=(g); z=() a '\n'",
        "m[\"a b\"]=1 m[$((i+1))]=x a '\n'",
        "[[ $x =~ ^[a-z]+$ ]] && [[ ! -d y ]] || echo '\n'",
        "[[ $x =~ ^(a|b)$ ]] && a",
        "if (( x > 3 )); then echo '\n'; fi",
        "((x<<2)); (( x <<= 1 )) && if (( (1<<4) > x )); then a; fi",
        "for ((i=1; i<1<<4; i<<=1)); do a; done",
        "echo $((1<<2)) \"$(( 1 << 2 ))\" ${a[1<<2]} $[1<<2]; a[1<<2]=x",
        "a=(b)c d; a=(b)\"c\nd\" e",
        "echo $((1 + 2)) $(( $(nproc) - 1 )) ${x%%.*} ${x//\\//_} \"${x:-\"a\"}\" \"${x:-'a'}\" ${#a[@]} '\n'",
        "find . -name '*.rs' -exec grep -l a {} \\; && diff <(a) <(b) '\n'",
        "awk '{\n  print $1\n}' f | sort | uniq -c",
        "time a '\n'; ! b; time -p { c; }; coproc d; coproc N { e; }",
        "a |\n  b |& c &&\n  d ||\\\n  e",
        "a &> f & b >| g 2>&1 < h >> i {fd}> j <> k <<< l '\n'",
        "ls *.{rs,toml} {1..3} ~/x $'a\\nb\\'' $\"c\" a\\'b # it's",
    ] {
        assert!(!is_unclear(source), "{source}");
    }
}

#[test]
fn words_that_only_a_running_shell_knows_are_marked() {
    let first = |source: &str| pipelines(source)[0][0].words[0].clone();
    assert_eq!(first("a$x-b").source(), format!("a{UNKNOWN}-b"));
    let again = first(&first("a$x-b").source());
    assert_eq!((again.text.as_str(), again.is_unknown), ("a-b", true));
    assert!(first("/bin/r?").is_pattern && first("/bin/\"r\"*").is_pattern && first("/bin/r[m]").is_pattern);
    assert!(!first("'r?'").is_pattern && !first("case r? in").is_pattern);
    assert!(first("{a,b}").is_several && first("a{1..3}").is_several && first("{a,'b c'}").is_several);
    assert!(!first("{a}").is_several && !first("'{a,b}'").is_several && !first("\\{a,b\\}").is_several);
    for source in ["$x", "a$x", "`a`", "$(a)", "\"$@\"", "\"${a[@]}\"", "\"${!a}\"", "<(a)", "{a,$x}"] {
        assert!(first(source).is_several, "{source}");
    }
    for source in ["\"$x\"", "\"`a`\"", "\"$(a)\"", "\"$*\"", "\"${x:-a}\"", "a"] {
        assert!(!first(source).is_several, "{source}");
    }
}

#[test]
fn a_word_with_ifs_may_be_several_words() {
    let separated = |source: &str| -> Vec<String> {
        pipelines(source)[0][0].words.iter().flat_map(Word::separated).map(|word| word.source()).collect()
    };
    for (source, several) in [
        ("rm$IFS'a'", &["rm", "a"][..]),
        ("rm${IFS}a", &["rm", "a"]),
        ("rm${IFS%?}a b", &["rm", "a", "b"]),
        ("$IFS'a'$IFS", &["a"]),
        ("a\"$IFS\"b", &["a\u{10fffd}b"]),
        ("a$IFSb", &["a\u{10fffd}"]),
        ("a$x$IFS'b'", &["a\u{10fffd}", "b"]),
    ] {
        assert_eq!(separated(source), several, "{source}");
    }
}

#[test]
fn the_name_in_an_assignment_is_known() {
    let is_assignment = |source: &str| pipelines(source)[0][0].words[0].is_assignment();
    for source in ["a=1", "a+=1", "a=$x", "a=", "a[1]=2", "a[$x]=2", "a[1]+=$x"] {
        assert!(is_assignment(source), "{source}");
    }
    for source in ["a$x=1", "$x=1", "a[1]$x=2", "1=a", "=a", "a", "a.b=c", "a[1=2"] {
        assert!(!is_assignment(source), "{source}");
    }
}

#[test]
fn a_substitution_ends_where_a_shell_ends_it() {
    for (source, inner) in [
        ("\"$(echo \")\"; rm a)\"", "echo \")\"; rm a"),
        ("\"$(echo \"$(echo \")\"; rm a)\")\"", "echo \"$(echo \")\"; rm a)\""),
        ("\"$(true # )\nrm a)\"", "true # )\nrm a"),
        ("\"$(cat <<'E'\nit's )\nE\n)\"", "cat <<'E'\nit's )\nE\n"),
        ("$((echo a; rm a) | cat)", "(echo a; rm a) | cat"),
        ("\"$(case x in x) rm a;; (esac) b;; esac)\"", "case x in x) rm a;; (esac) b;; esac"),
        ("\"$(case x in esac)\"", "case x in esac"),
        ("\"$(echo case)\"", "echo case"),
        ("\"$(>f case)\"", ">f case"),
        ("`echo \\`rm a\\``", "echo `rm a`"),
    ] {
        let source = format!("echo {source} ; c");
        assert_eq!(nested(&source), [inner], "{source}");
        assert_eq!(words(&source).last().unwrap(), &[["c"]], "{source}");
    }
    assert_eq!(words("echo $'\\'' ; c ; echo ''").len(), 3);
    assert_eq!(words("\"r\\\nm\" a"), [[["rm", "a"]]]);
}

#[test]
fn a_word_before_a_redirection_is_kept_unless_it_is_a_number() {
    assert_eq!(words("sudo -u \"\">f rm a"), [[["sudo", "-u", "", "rm", "a"]]]);
    assert_eq!(words("\"2\">f rm"), [[["2", "rm"]]]);
    assert_eq!(words("$x>f rm"), [[["", "rm"]]]);
    assert_eq!(words("rm 2>f a 22<g"), [[["rm", "a"]]]);
}

#[test]
fn no_character_of_a_source_is_read_often() {
    const CHARACTERS: usize = 30_000;
    // Reading in advance goes on to the end of the text after its limit is reached, once for each level. A reader without
    // a limit would read each character of these sources many thousand times.
    const READS_MAX: usize = 8 * expansion::LOOKS_MAX;
    for piece in [
        "$(",
        "${",
        "$((",
        "((",
        "`",
        "${x:-",
        "\"$(",
        "$(( '",
        "$((#'\n) )",
        "<(",
        "case x in ",
        "<<E\n$(",
        "$[",
        "a[",
        "$(( '$(' )) ",
        "$[ '$(' ] ",
        "\"${x:-'",
        "{,}",
        "time -p ",
        "[[ ( ",
        "for x do ",
    ] {
        for characters in [CHARACTERS / 2, CHARACTERS] {
            let source = piece.repeat(characters / piece.len());
            let script = read(&source);
            let commands = script.pipelines.iter().flatten();
            let kept: usize = commands.flat_map(|command| &command.nested).map(String::len).sum();
            assert!(kept <= 4 * characters, "{piece}: {kept}");
            assert!(
                script.work >= source.len() && script.work <= READS_MAX * source.len(),
                "{piece}: {}",
                script.work
            );
        }
    }
}

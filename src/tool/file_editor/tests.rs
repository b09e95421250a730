use std::fs;

use super::*;

struct Desk {
    folder: tempfile::TempDir,
    editor: FileEditor,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let making = Making { working_dir: folder.path().to_owned(), has_vision: false };
        Self { editor: FileEditor::new(&making), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Returns the text for the model.
    fn run(&self, name: &str, arguments: &str) -> String {
        let path = serde_json::Value::from(self.path(name).to_str().unwrap());
        let arguments = format!(r#"{{"path":{path},{arguments}}}"#);
        let Ok(Action::FileEditor(action)) = self.editor.action(Raw::parse(&arguments).unwrap()) else {
            panic!("{arguments}")
        };
        carry_out(&self.editor.history, self.folder.path(), action).text()
    }
}

#[test]
fn unchanged_lines_keep_their_line_ends() {
    let desk = Desk::new();
    desk.write("dos.txt", b"a\r\nb\r\nc\r\nd");
    desk.run("dos.txt", r#""command":"str_replace","old_str":"b\nc","new_str":"B\nC\nCC""#);
    assert_eq!(desk.bytes("dos.txt"), b"a\r\nB\r\nC\r\nCC\r\nd");
    desk.run("dos.txt", r#""command":"insert","insert_line":0,"new_str":"0""#);
    assert_eq!(desk.bytes("dos.txt"), b"0\r\na\r\nB\r\nC\r\nCC\r\nd");
    desk.run("dos.txt", r#""command":"undo_edit""#);
    assert_eq!(desk.bytes("dos.txt"), b"a\r\nB\r\nC\r\nCC\r\nd");

    desk.write("mixed.txt", b"a\nb\r\nc\rd\ne\n");
    desk.run("mixed.txt", r#""command":"str_replace","old_str":"d","new_str":"D""#);
    assert_eq!(desk.bytes("mixed.txt"), b"a\nb\r\nc\rD\ne\n");
}

#[test]
fn a_line_goes_after_a_last_line_without_an_end() {
    let desk = Desk::new();
    desk.write("a.txt", b"one");
    desk.run("a.txt", r#""command":"insert","insert_line":1,"new_str":"two""#);
    assert_eq!(desk.bytes("a.txt"), b"one\ntwo\n");
}

#[test]
fn an_encoding_is_kept_unless_it_cannot_express_the_text() {
    let desk = Desk::new();
    let (latin, _, _) = encoding_rs::WINDOWS_1252.encode("Grüße aus München, schöne Straße\n");
    desk.write("latin.txt", &latin.repeat(5));
    let text = desk.run("latin.txt", r#""command":"view","view_range":[1,1]"#);
    assert!(text.ends_with("     1\tGrüße aus München, schöne Straße\n"), "{text}");
    desk.run("latin.txt", r#""command":"insert","insert_line":0,"new_str":"für""#);
    assert_eq!(desk.bytes("latin.txt")[..4], *b"f\xfcr\n");
    desk.run("latin.txt", r#""command":"insert","insert_line":0,"new_str":"世界""#);
    assert!(String::from_utf8(desk.bytes("latin.txt")).unwrap().starts_with("世界\nfür\nGrüße"));

    desk.write("be.txt", b"\xfe\xff\0a\0\n");
    desk.run("be.txt", r#""command":"str_replace","old_str":"a","new_str":"😀""#);
    assert_eq!(desk.bytes("be.txt"), b"\xfe\xff\xd8\x3d\xde\x00\0\n");
}

#[test]
fn terminal_colours_are_text_and_binary_data_is_not() {
    let desk = Desk::new();
    desk.write("log.txt", b"\x1b[31mred\x1b[0m\n");
    assert!(desk.run("log.txt", r#""command":"view""#).ends_with("1\t\u{1b}[31mred\u{1b}[0m\n"));
    for bytes in [&b"\x7fELF\x02\x01\x01\0"[..], b"\xff\xfb\x90\x04\x01\x02\x03\x80", b"\x01\x02\x03a"] {
        desk.write("code", bytes);
        let text = desk.run("code", r#""command":"view""#);
        assert!(text.starts_with("File validation failed for ") && text.contains("to be binary"), "{text}");
    }
}

#[test]
fn a_large_file_is_refused_by_its_size() {
    let desk = Desk::new();
    let file = fs::File::create(desk.path("big.txt")).unwrap();
    file.set_len(11 * 1024 * 1024 + 512 * 1024).unwrap();
    for arguments in [r#""command":"view""#, r#""command":"insert","insert_line":0,"new_str":"x""#] {
        let text = desk.run("big.txt", arguments);
        assert!(text.ends_with(": File is too large (11.5MB). Maximum allowed size is 10MB."), "{text}");
    }
    fs::rename(desk.path("big.txt"), desk.path("big.png")).unwrap();
    assert!(desk.run("big.png", r#""command":"view""#).contains("too large"));
}

#[cfg(unix)]
#[test]
fn an_edit_keeps_permissions_and_links_and_leaves_nothing_behind() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let desk = Desk::new();
    desk.write("real.sh", b"#!/bin/sh\n");
    fs::set_permissions(desk.path("real.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("real.sh", desk.path("link.sh")).unwrap();
    desk.run("link.sh", r#""command":"insert","insert_line":1,"new_str":"true""#);
    assert_eq!(desk.bytes("real.sh"), b"#!/bin/sh\ntrue\n");
    assert!(fs::symlink_metadata(desk.path("link.sh")).unwrap().is_symlink());
    assert_eq!(fs::metadata(desk.path("real.sh")).unwrap().permissions().mode() & 0o777, 0o750);
    let text = desk.run("no/such/dir.txt", r#""command":"create","file_text":"x""#);
    assert!(text.starts_with("Ran into [Errno 2] No such file or directory: '"), "{text}");
    assert_eq!(fs::read_dir(desk.folder.path()).unwrap().count(), 2);
}

#[test]
fn all_paths_of_a_file_give_the_same_lock() {
    let desk = Desk::new();
    desk.write("a.txt", b"");
    let key = |path: &str| {
        let arguments = serde_json::json!({ "command": "view", "path": path }).to_string();
        desk.editor.resources(&desk.editor.action(Raw::parse(&arguments).unwrap()).unwrap())
    };
    let plain = key(desk.path("a.txt").to_str().unwrap());
    assert_eq!(
        key(desk.path("x/../a.txt").to_str().unwrap()),
        key(desk.path("x/../a.txt").to_str().unwrap())
    );
    assert_eq!(key(&format!("{}//./a.txt", desk.folder.path().display())), plain);
    let real = fs::canonicalize(desk.folder.path()).unwrap();
    assert_eq!(plain, Resources::Keys(vec![format!("file:{}/a.txt", real.display())]));
    assert_eq!(
        key(&format!("{}/new/b.txt", desk.folder.path().display())),
        Resources::Keys(vec![format!("file:{}/new/b.txt", real.display())])
    );
}

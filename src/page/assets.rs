//! The table of the page's files. A test compares it with the folders: `UPDATE_GOLDEN=1 cargo test --lib page` writes it.

use super::Asset;

pub(super) const ASSETS: &[Asset] = &[
    file("icon.svg", include_bytes!("app/icon.svg")),
    file("index.html", include_bytes!("app/index.html")),
    file("lib/api.js", include_bytes!("app/lib/api.js")),
    file("lib/download.js", include_bytes!("app/lib/download.js")),
    file("lib/format.js", include_bytes!("app/lib/format.js")),
    file("lib/key.js", include_bytes!("app/lib/key.js")),
    file("lib/keys.js", include_bytes!("app/lib/keys.js")),
    file("lib/load.js", include_bytes!("app/lib/load.js")),
    file("lib/notes.js", include_bytes!("app/lib/notes.js")),
    file("lib/router.js", include_bytes!("app/lib/router.js")),
    file("lib/sheet.js", include_bytes!("app/lib/sheet.js")),
    file("lib/theme.js", include_bytes!("app/lib/theme.js")),
    file("lib/ui.js", include_bytes!("app/lib/ui.js")),
    file("main.js", include_bytes!("app/main.js")),
    file("style/answer.css", include_bytes!("app/style/answer.css")),
    file("style/base.css", include_bytes!("app/style/base.css")),
    file("style/list.css", include_bytes!("app/style/list.css")),
    file("style/numbers.css", include_bytes!("app/style/numbers.css")),
    file("style/shell.css", include_bytes!("app/style/shell.css")),
    file("style/sql.css", include_bytes!("app/style/sql.css")),
    file("ui/answer.js", include_bytes!("app/ui/answer.js")),
    file("ui/dialog.js", include_bytes!("app/ui/dialog.js")),
    file("ui/help.js", include_bytes!("app/ui/help.js")),
    file("ui/icon.js", include_bytes!("app/ui/icon.js")),
    file("ui/keyprompt.js", include_bytes!("app/ui/keyprompt.js")),
    file("ui/notes.js", include_bytes!("app/ui/notes.js")),
    file("ui/pieces.js", include_bytes!("app/ui/pieces.js")),
    file("ui/shell.js", include_bytes!("app/ui/shell.js")),
    file("ui/text.js", include_bytes!("app/ui/text.js")),
    file("ui/virtual.js", include_bytes!("app/ui/virtual.js")),
    file("vendor/hooks.mjs", include_bytes!("vendor/hooks.mjs")),
    file("vendor/htm.mjs", include_bytes!("vendor/htm.mjs")),
    file("vendor/marked.mjs", include_bytes!("vendor/marked.mjs")),
    file("vendor/preact.mjs", include_bytes!("vendor/preact.mjs")),
    file("vendor/signals-core.mjs", include_bytes!("vendor/signals-core.mjs")),
    file("vendor/signals.mjs", include_bytes!("vendor/signals.mjs")),
    file("views.js", include_bytes!("app/views.js")),
    file("views/conversations/filters.js", include_bytes!("app/views/conversations/filters.js")),
    file("views/conversations/index.js", include_bytes!("app/views/conversations/index.js")),
    file("views/conversations/paging.js", include_bytes!("app/views/conversations/paging.js")),
    file("views/conversations/row.js", include_bytes!("app/views/conversations/row.js")),
    file("views/numbers/bars.js", include_bytes!("app/views/numbers/bars.js")),
    file("views/numbers/columns.js", include_bytes!("app/views/numbers/columns.js")),
    file("views/numbers/figures.js", include_bytes!("app/views/numbers/figures.js")),
    file("views/numbers/index.js", include_bytes!("app/views/numbers/index.js")),
    file("views/reports/index.js", include_bytes!("app/views/reports/index.js")),
    file("views/sql/index.js", include_bytes!("app/views/sql/index.js")),
    file("views/sql/schema.js", include_bytes!("app/views/sql/schema.js")),
    file("views/sql/statement.js", include_bytes!("app/views/sql/statement.js")),
];

const fn file(path: &'static str, bytes: &'static [u8]) -> Asset {
    Asset { path, content_type: content_type(path.as_bytes()), bytes }
}

const fn content_type(path: &[u8]) -> &'static str {
    match path {
        [.., b'.', b'h', b't', b'm', b'l'] => "text/html; charset=utf-8",
        [.., b'.', b'c', b's', b's'] => "text/css; charset=utf-8",
        [.., b'.', b's', b'v', b'g'] => "image/svg+xml",
        [.., b'.', b'j', b's'] | [.., b'.', b'm', b'j', b's'] => "text/javascript; charset=utf-8",
        _ => "application/octet-stream",
    }
}

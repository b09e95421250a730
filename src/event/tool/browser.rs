//! Browsing the web.

use crate::event::message::Content;
use crate::event::model::{Json, Map, Text, model, take, wire, words};

words! {
    /// The direction of scrolling.
    Direction {
        /// Up.
        Up = "up",
        /// Down.
        Down = "down",
    }
}

model! {
    /// A browser action without members.
    BrowserAction: Forbid {}
    kind "BrowserAction"
}

model! {
    /// Goes to a page.
    BrowserNavigateAction: Forbid {
        /// The page.
        url: Text,
        /// Whether to open it in a new tab.
        new_tab: bool = false,
    }
    kind "BrowserNavigateAction"
}

model! {
    /// Clicks on an element.
    BrowserClickAction: Forbid {
        /// The element's number.
        index: u64,
        /// Whether to open the result in a new tab.
        new_tab: bool = false,
    }
    kind "BrowserClickAction"
}

model! {
    /// Types into an element.
    BrowserTypeAction: Forbid {
        /// The element's number.
        index: u64,
        /// The text to type.
        text: Text,
    }
    kind "BrowserTypeAction"
}

model! {
    /// Asks what is on the page.
    BrowserGetStateAction: Forbid {
        /// Whether to take a screenshot.
        include_screenshot: bool = false,
    }
    kind "BrowserGetStateAction"
}

model! {
    /// Asks for the page's text.
    BrowserGetContentAction: Forbid {
        /// Whether to list the links.
        extract_links: bool = false,
        /// The first character, 0-based.
        start_from_char: u64 = 0,
    }
    kind "BrowserGetContentAction"
}

model! {
    /// Scrolls.
    BrowserScrollAction: Forbid {
        /// The direction.
        direction: Direction = Direction::Down,
    }
    kind "BrowserScrollAction"
}

model! {
    /// Goes back.
    BrowserGoBackAction: Forbid {}
    kind "BrowserGoBackAction"
}

model! {
    /// Asks for the tabs.
    BrowserListTabsAction: Forbid {}
    kind "BrowserListTabsAction"
}

model! {
    /// Goes to another tab.
    BrowserSwitchTabAction: Forbid {
        /// The tab.
        tab_id: Text,
    }
    kind "BrowserSwitchTabAction"
}

model! {
    /// Closes a tab.
    BrowserCloseTabAction: Forbid {
        /// The tab.
        tab_id: Text,
    }
    kind "BrowserCloseTabAction"
}

model! {
    /// Asks for cookies and local storage.
    BrowserGetStorageAction: Forbid {}
    kind "BrowserGetStorageAction"
}

model! {
    /// Sets cookies and local storage.
    BrowserSetStorageAction: Forbid {
        /// What to set.
        storage_state: Map<Json>,
    }
    kind "BrowserSetStorageAction"
}

model! {
    /// Starts a recording.
    BrowserStartRecordingAction: Forbid {}
    kind "BrowserStartRecordingAction"
}

model! {
    /// Stops the recording.
    BrowserStopRecordingAction: Forbid {}
    kind "BrowserStopRecordingAction"
}

model! {
    /// What the browser shows.
    BrowserObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// A screenshot of the page, base64.
        screenshot_data: Option<Text> = None,
        /// The folder that holds the full output, if it is too long for a model.
        full_output_save_dir: Option<Text> = None,
    }
    kind "BrowserObservation"
}

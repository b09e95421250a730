//! Parquet files, read with the `parquet` crate.

use std::path::Path;

use annals::Store;
use annals::store::{ConversationFilter, Order};
use annals::transfer::{Dataset, ImportOptions, Importer, TrainingOptions, export_dataset};
use serde_json::Value;

use crate::support::{Scratch, all_events, folder::golden, without_projector};

#[test]
fn parquet_files_have_the_same_rows_as_the_lines_and_the_log() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;

    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    Importer::new(&store, ImportOptions::default()).import(&golden("foreign"), &mut |_| ()).unwrap();
    let page = store.conversations(&ConversationFilter::default(), Order::Created, None, 1000).unwrap();
    let ids: Vec<_> = page.conversations.into_iter().map(|row| row.id).collect();
    let options = TrainingOptions::default();
    let write = |dataset| export_dataset(&store, &ids, &scratch.path("set"), dataset, &mut |_| ()).unwrap();
    let read = |path: &Path| {
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        rows
    };
    let lines = write(Dataset::Chat(options));
    let chat = write(Dataset::ChatParquet(options));
    assert_eq!(lines.rows, chat.rows);
    let text = std::fs::read_to_string(&lines.path).unwrap();
    for (row, line) in read(&chat.path).iter().zip(text.lines()) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row.get_string(0).unwrap(), line["conversation_id"].as_str().unwrap());
        assert_eq!(row.get_bool(2).unwrap(), line["is_live"]);
        assert_eq!(serde_json::from_str::<Value>(row.get_string(9).unwrap()).unwrap(), line["messages"]);
    }
    let events = write(Dataset::EventsParquet);
    let read = read(&events.path);
    assert_eq!(read.len() as u64, events.rows);
    let stored: Vec<_> =
        ids.iter().flat_map(|id| all_events(&store, id).into_iter().map(move |event| (id, event))).collect();
    assert_eq!(read.len(), stored.len());
    for (row, (id, event)) in read.iter().zip(stored) {
        assert_eq!(row.get_string(0).unwrap(), id.as_str());
        assert_eq!(row.get_string(3).unwrap(), event.id.as_str());
        assert_eq!(row.get_string(5).ok(), event.source.as_ref());
        assert_eq!(row.get_string(13).unwrap(), &event.payload);
    }
}

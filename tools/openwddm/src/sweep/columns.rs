//! Rows as Parquet: the columns of [`Row`], no nesting, no compression, one row group. The schema is explained in docs/sweep.md: columns are
//! only ever added, and a change of one's meaning changes [`VERSION`]. Called by `kept`.
//!
//! What is read is an allegation of a file: another schema is refused with the first column that differs.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::Field;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::sweep::row::Row;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    /// A whole number below 2^63.
    Number,
    /// The same, or nothing.
    Known,
}

/// The columns, in order: the fields of [`Row`].
const COLUMNS: [(&str, Kind); 31] = [
    ("program", Kind::Text),
    ("workload", Kind::Text),
    ("workload_hash", Kind::Text),
    ("adapter", Kind::Text),
    ("link_bytes_per_us", Kind::Known),
    ("policy", Kind::Text),
    ("processes", Kind::Number),
    ("steps", Kind::Number),
    ("asked_bytes", Kind::Number),
    ("vram_bytes", Kind::Number),
    ("peak_bytes", Kind::Number),
    ("ops", Kind::Number),
    ("elapsed_ns", Kind::Number),
    ("ideal_ns", Kind::Number),
    ("stall_ns", Kind::Number),
    ("paged_in_bytes", Kind::Number),
    ("paged_out_bytes", Kind::Number),
    ("discarded_bytes", Kind::Number),
    ("mapped_bytes", Kind::Number),
    ("last_step_elapsed_ns", Kind::Known),
    ("last_step_ideal_ns", Kind::Known),
    ("last_step_paged_in_bytes", Kind::Known),
    ("last_step_paged_out_bytes", Kind::Known),
    ("share_millionths", Kind::Number),
    ("share_at_best_millionths", Kind::Known),
    ("fewest_bytes", Kind::Known),
    ("fewest_paged_in_bytes", Kind::Known),
    ("further_step_fewest_bytes", Kind::Known),
    ("least_ns", Kind::Known),
    ("further_step_least_ns", Kind::Known),
    ("trace_hash", Kind::Text),
];

/// The key of the file's metadata that names the schema, and its version.
const KEY: &str = "openwddm.sweep";
const VERSION: &str = "1";

/// Why a file has no rows of a sweep.
#[derive(Debug, Error)]
pub(super) enum Foreign {
    /// It is no Parquet file, or a damaged one.
    #[error("this is no Parquet file that can be read: {0}")]
    NoParquet(#[from] ParquetError),
    /// It is one of another schema.
    #[error("this is a Parquet file of another schema than a sweep's: {0}")]
    Schema(String),
    /// A value that no run has.
    #[error("row {row} of it is none of a sweep: {problem}")]
    Row {
        /// From 0.
        row: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// A Parquet file of these rows.
pub(super) fn written(rows: &[Row]) -> Vec<u8> {
    write(rows).expect("rows that match the schema are written into memory")
}

fn write(rows: &[Row]) -> Result<Vec<u8>, ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_created_by(concat!("openwddm ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![KeyValue::new(KEY.to_owned(), VERSION.to_owned())]))
        .build();
    let values: Vec<Value> = rows.iter().map(|row| serde_json::to_value(row).expect("a row is always JSON")).collect();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema()), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (name, kind) in COLUMNS {
        let mut column = group.next_column()?.expect("the schema has a column for each of the list");
        write_column(&mut column, kind, values.iter().map(|row| &row[name]))?;
        column.close()?;
    }
    group.close()?;
    writer.into_inner()
}

fn write_column<'a>(
    column: &mut SerializedColumnWriter<'_>,
    kind: Kind,
    values: impl Iterator<Item = &'a Value>,
) -> Result<(), ParquetError> {
    let values: Vec<&Value> = values.collect();
    if kind == Kind::Text {
        let text = |value: &&Value| ByteArray::from(value.as_str().unwrap_or_default());
        let texts: Vec<ByteArray> = values.iter().map(text).collect();
        column.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
        return Ok(());
    }
    // Readers know signed numbers everywhere; no figure of a run comes near their end, and one that did would stay there.
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let numbers: Vec<i64> = values.iter().filter_map(|value| value.as_u64()).map(number).collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(!value.is_null())).collect();
    let levels = (kind == Kind::Known).then_some(&levels[..]);
    column.typed::<Int64Type>().write_batch(&numbers, levels, None)?;
    Ok(())
}

/// The rows of a Parquet file.
///
/// # Errors
/// [`Foreign`].
pub(super) fn read(file: File) -> Result<Vec<Row>, Foreign> {
    let reader = SerializedFileReader::new(file)?;
    let file = reader.metadata().file_metadata();
    judge(file.schema())?;
    let marks = file.key_value_metadata().into_iter().flatten();
    let version = marks.filter(|mark| mark.key == KEY).find_map(|mark| mark.value.clone());
    if version.as_deref().is_some_and(|version| version != VERSION) {
        let version = version.unwrap_or_default();
        return Err(Foreign::Schema(format!("its version is {version}, this program's is {VERSION}")));
    }
    let mut rows = Vec::new();
    for (at, record) in reader.get_row_iter(None)?.enumerate() {
        let fields = record?.into_columns().into_iter().map(|(name, field)| (name, value(field)));
        let row = serde_json::from_value(Value::Object(fields.collect::<Map<_, _>>()));
        rows.push(row.map_err(|error| Foreign::Row { row: at, problem: error.to_string() })?);
    }
    Ok(rows)
}

/// A value of a file. What does not become one is nothing, which a row refuses where it needs something.
fn value(field: Field) -> Value {
    match field {
        Field::Str(text) => Value::from(text),
        Field::Long(number) => Value::from(number),
        _ => Value::Null,
    }
}

/// Compares a schema with that of a sweep, column by column.
fn judge(schema: &Type) -> Result<(), Foreign> {
    let wanted = self::schema();
    let (wanted, found) = (wanted.get_fields(), schema.get_fields());
    for column in wanted {
        let name = column.name();
        let Some(same) = found.iter().find(|other| other.name() == name) else {
            return Err(Foreign::Schema(format!("column {name} is missing")));
        };
        // Other programs may write texts and numbers that can be absent.
        let is_like = same.is_primitive() && same.get_physical_type() == column.get_physical_type();
        if !is_like {
            return Err(Foreign::Schema(format!("column {name} is no {}", column.get_physical_type())));
        }
    }
    match found.iter().find(|other| wanted.iter().all(|column| column.name() != other.name())) {
        Some(more) => Err(Foreign::Schema(format!("column {} is none of a sweep's", more.name()))),
        None => Ok(()),
    }
}

fn schema() -> Type {
    let column = |(name, kind): &(&str, Kind)| match kind {
        Kind::Text => format!("REQUIRED BYTE_ARRAY {name} (STRING);"),
        Kind::Number => format!("REQUIRED INT64 {name};"),
        Kind::Known => format!("OPTIONAL INT64 {name};"),
    };
    let columns: String = COLUMNS.iter().map(column).collect();
    parse_message_type(&format!("message sweep {{ {columns} }}")).expect("the list of columns is a schema")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(bytes: &[u8]) -> Result<Vec<Row>, Foreign> {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
        read(file)
    }

    fn row(nth: u64) -> Row {
        Row { workload: format!("net {nth}"), elapsed_ns: nth, least_ns: (nth > 1).then_some(nth), ..Row::default() }
    }

    #[test]
    fn every_field_of_a_row_is_a_column_and_comes_back() {
        let Value::Object(fields) = serde_json::to_value(row(1)).unwrap() else { panic!("a row is an object") };
        let columns: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        assert_eq!(fields.len(), columns.len());
        assert!(columns.iter().all(|column| fields.contains_key(*column)), "{columns:?}");
        let rows = [row(1), row(2), Row { elapsed_ns: u64::MAX, ..row(3) }];
        let back = read_back(&written(&rows)).unwrap();
        assert_eq!(back[..2], rows[..2]);
        assert_eq!(back[2].elapsed_ns, i64::MAX as u64);
        assert_eq!(read_back(&written(&[])).unwrap(), []);
    }

    #[test]
    fn a_version_that_is_not_known_is_refused() {
        let bytes = written(&[row(1)]);
        let mark = bytes.windows(KEY.len()).rposition(|part| part == KEY.as_bytes()).unwrap();
        let at = mark + KEY.len() + bytes[mark + KEY.len()..].iter().position(|byte| *byte == b'1').unwrap();
        let mut other = bytes.clone();
        other[at] = b'2';
        let fault = read_back(&other).unwrap_err().to_string();
        assert!(fault.contains("its version is 2, this program's is 1"), "{fault}");
    }

    #[test]
    fn the_document_explains_every_column() {
        let page = include_str!("../../../../docs/sweep.md");
        for (name, _) in COLUMNS {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
}

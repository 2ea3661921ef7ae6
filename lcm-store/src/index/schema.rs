//! What the index keeps of a place, and how it is opened.
//!
//! One document a place. Nothing is stored: text, order key and owner are read from truth, by arrival number. The
//! text has frequencies and no positions, which would double its size; phrases are verified on the text.
//!
//! Left out on purpose: the owner (truth says whose a timeline is), and the tools called (no query asks for them).

use std::path::Path;

use lcm_core::Role;
use tantivy::schema::{Field, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions};
use tantivy::store::Compressor;
use tantivy::tokenizer::TextAnalyzer;
use tantivy::{Index, IndexSettings};

use super::disk::Disk;
use super::tokenize::CodeTokenizer;

/// An index of another version is made anew. Counts the fields and the rules of the tokenizer. 1: first.
pub(crate) const VERSION: u32 = 1;

const TOKENIZER: &str = "code";

/// The fields of the index, in the order of the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    /// The arrival number.
    pub(crate) arrival: Field,
    /// The timeline; looked up when a scope names sessions.
    pub(crate) timeline: Field,
    /// The arrival number an order key begins with: what a branch shares ends at one.
    pub(crate) anchor: Field,
    /// Who speaks, as [`role_number`] says.
    pub(crate) role: Field,
    /// When it was said.
    pub(crate) seen: Field,
    /// See `tokenize::length`.
    pub(crate) length: Field,
    /// The tokens.
    pub(crate) text: Field,
}

/// Names of the columns, as [`Fields`].
pub(crate) mod column {
    pub(crate) const ARRIVAL: &str = "arrival";
    pub(crate) const TIMELINE: &str = "timeline";
    pub(crate) const ANCHOR: &str = "anchor";
    pub(crate) const ROLE: &str = "role";
    pub(crate) const SEEN: &str = "seen";
    pub(crate) const LENGTH: &str = "length";
    pub(crate) const TEXT: &str = "text";
}

/// The number that stands for a summary, where messages have one for their role.
pub(crate) const SUMMARY: u64 = 6;

/// The number that stands for a role in the index.
pub(crate) fn role_number(role: Role) -> u64 {
    match role {
        Role::System => 0,
        Role::Developer => 1,
        Role::User => 2,
        Role::Assistant => 3,
        Role::Tool => 4,
        Role::Other => 5,
    }
}

/// The role that a number stands for; `None` for a summary.
pub(crate) fn role_of(number: u64) -> Option<Role> {
    [Role::System, Role::Developer, Role::User, Role::Assistant, Role::Tool, Role::Other]
        .into_iter()
        .find(|&role| role_number(role) == number)
}

fn schema() -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let fast = || NumericOptions::default().set_fast();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(TOKENIZER)
        .set_index_option(IndexRecordOption::WithFreqs)
        // `length` says it exactly.
        .set_fieldnorms(false);
    let fields = Fields {
        arrival: builder.add_u64_field(column::ARRIVAL, fast()),
        timeline: builder.add_u64_field(column::TIMELINE, fast().set_indexed()),
        anchor: builder.add_u64_field(column::ANCHOR, fast()),
        role: builder.add_u64_field(column::ROLE, fast()),
        seen: builder.add_i64_field(column::SEEN, fast()),
        length: builder.add_u64_field(column::LENGTH, fast()),
        text: builder.add_text_field(column::TEXT, TextOptions::default().set_indexing_options(indexing)),
    };
    (builder.build(), fields)
}

/// Opens the index in a directory. An error or `None` (another schema) means: there is none that we can use.
pub(crate) fn open(path: &Path) -> tantivy::Result<Option<(Index, Fields)>> {
    let index = Index::open(Disk::new(path))?;
    let (schema, fields) = schema();
    if index.schema() != schema {
        return Ok(None);
    }
    register(&index, CodeTokenizer::default());
    Ok(Some((index, fields)))
}

/// Makes an empty index in an empty directory.
pub(crate) fn create(path: &Path) -> tantivy::Result<(Index, Fields)> {
    let (schema, fields) = schema();
    let settings = IndexSettings {
        docstore_compression: Compressor::None,
        docstore_compress_dedicated_thread: false,
        ..IndexSettings::default()
    };
    let index = Index::create(Disk::new(path), schema, settings)?;
    register(&index, CodeTokenizer::default());
    Ok((index, fields))
}

/// Lets an index use this tokenizer.
pub(crate) fn register(index: &Index, tokenizer: CodeTokenizer) {
    index.tokenizers().register(TOKENIZER, TextAnalyzer::builder(tokenizer).build());
}

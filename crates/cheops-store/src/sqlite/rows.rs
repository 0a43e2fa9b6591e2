//! Rows in and out of one connection: the only place that speaks SQL about records.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::Table;
use crate::batch::Write;
use crate::key::{Key, KeyRange, Value};
use crate::seal::{holds, seal};

/// A row as it was found.
pub(super) struct Found {
    pub(super) key: Key,
    pub(super) value: Value,
    pub(super) seal: Vec<u8>,
}

impl Found {
    pub(super) fn is_sound(&self, table: Table) -> bool {
        holds(table, &self.key, &self.value, &self.seal)
    }
}

pub(super) fn apply(connection: &Connection, write: &Write) -> rusqlite::Result<()> {
    match write {
        Write::Put { table, key, value } => {
            let sql = format!(
                "INSERT INTO {table} (key, value, seal) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET \
                 value = excluded.value, seal = excluded.seal"
            );
            let sealed = seal(*table, key, value);
            let mut put = connection.prepare_cached(&sql)?;
            put.execute(params![key, value, sealed]).map(drop)
        }
        Write::Delete { table, key } => delete(connection, *table, key),
    }
}

pub(super) fn delete(connection: &Connection, table: Table, key: &[u8]) -> rusqlite::Result<()> {
    let sql = format!("DELETE FROM {table} WHERE key = ?1");
    let mut delete = connection.prepare_cached(&sql)?;
    delete.execute([key]).map(drop)
}

pub(super) fn get(
    connection: &Connection,
    table: Table,
    key: &[u8],
) -> rusqlite::Result<Option<Found>> {
    let sql = format!("SELECT key, value, seal FROM {table} WHERE key = ?1");
    let mut get = connection.prepare_cached(&sql)?;
    get.query_row([key], found).optional()
}

/// Rows of `range` in order, at most `limit`, until `each` has had enough.
pub(super) fn scan(
    connection: &Connection,
    table: Table,
    range: &KeyRange,
    limit: usize,
    mut each: impl FnMut(Found) -> Continue,
) -> rusqlite::Result<()> {
    let end = if range.until().is_some() {
        "AND key < ?3"
    } else {
        "AND ?3 IS NULL"
    };
    let sql =
        format!("SELECT key, value, seal FROM {table} WHERE key >= ?1 {end} ORDER BY key LIMIT ?2");
    let mut scan = connection.prepare_cached(&sql)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = scan.query(params![range.from(), limit, range.until()])?;
    while let Some(row) = rows.next()? {
        match each(found(row)?) {
            Continue::Yes => (),
            Continue::No => break,
        }
    }
    Ok(())
}

/// Whether a scan wants another row.
pub(super) enum Continue {
    Yes,
    No,
}

fn found(row: &Row<'_>) -> rusqlite::Result<Found> {
    let (key, value, seal) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(Found { key, value, seal })
}

/// The quarantine: rows that are not as they were written, kept for whoever wants to look.
pub(super) mod quarantine {
    use super::{Found, params};
    use crate::Table;
    use crate::key::Key;
    use rusqlite::Connection;

    pub(crate) fn add(at: &Connection, table: Table, found: &Found) -> rusqlite::Result<()> {
        let sql =
            "INSERT OR REPLACE INTO quarantine (place, key, value, seal) VALUES (?1, ?2, ?3, ?4)";
        let row = params![table.name(), found.key, found.value, found.seal];
        at.execute(sql, row).map(drop)
    }

    pub(crate) fn remove(at: &Connection, table: Table, key: &[u8]) -> rusqlite::Result<()> {
        let sql = "DELETE FROM quarantine WHERE place = ?1 AND key = ?2";
        at.execute(sql, params![table.name(), key]).map(drop)
    }

    /// Every key in it; a place that is no table is left out.
    pub(crate) fn keys(at: &Connection) -> rusqlite::Result<Vec<(Table, Key)>> {
        let mut all = at.prepare("SELECT place, key FROM quarantine ORDER BY place, key")?;
        let rows = all.query_map((), |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        let mut keys = Vec::new();
        for row in rows {
            let (place, key) = row?;
            keys.extend(Table::named(&place).map(|table| (table, key)));
        }
        Ok(keys)
    }
}

//! Readers: a few connections, each seeing the last commit when it begins to read.
//!
//! They never wait for the writer, and the writer never waits for them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rusqlite::Connection;

use super::fault::reaction;
use super::rows::{self, Continue};
use super::schema;
use super::shared::Shared;
use crate::key::{KeyRange, Value};
use crate::limits::READERS_MAX;
use crate::paging::Paging;
use crate::store::Page;
use crate::{StoreError, Table};

pub(super) struct Readers {
    path: PathBuf,
    shared: Arc<Shared>,
    pool: Mutex<Pool>,
    returned: Condvar,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Connection>,
    lent: usize,
}

impl Readers {
    pub(super) fn new(path: &Path, shared: Arc<Shared>) -> Readers {
        Readers {
            path: path.to_path_buf(),
            shared,
            pool: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    pub(super) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Value>, StoreError> {
        match self.read(|connection| rows::get(connection, table, key))? {
            Some(found) if found.is_sound(table) => Ok(Some(found.value)),
            None if !self.shared.is_quarantined(table, key) => Ok(None),
            Some(_) | None => Err(corrupt(table, key)),
        }
    }

    pub(super) fn scan(
        &self,
        table: Table,
        range: KeyRange,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let mut paging = Paging::new(range, limit);
        if paging.range().is_empty() {
            return Ok(paging.end());
        }
        let mut damaged = None;
        let mut is_cut = false;
        self.read(|connection| {
            let (range, most) = (paging.range().clone(), paging.looked_at_max());
            rows::scan(connection, table, &range, most, |found| {
                is_cut = paging.is_full();
                if is_cut {
                    return Continue::No;
                }
                if !found.is_sound(table) {
                    damaged = Some(found.key);
                    return Continue::No;
                }
                paging.add(found.key, found.value);
                Continue::Yes
            })
        })?;
        match damaged {
            Some(key) => Err(StoreError::Corrupt { table, key }),
            None if is_cut => Ok(paging.cut()),
            None => Ok(paging.end()),
        }
    }

    fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.shared.usable()?;
        let named = |error| self.shared.note(reaction(error, 0));
        let lent = self.lend().map_err(named)?;
        query(lent.connection()).map_err(named)
    }

    fn lend(&self) -> rusqlite::Result<Lent<'_>> {
        let mut pool = self.lock();
        while pool.idle.is_empty() && pool.lent >= READERS_MAX {
            pool = self.returned.wait(pool).expect(UNBROKEN);
        }
        pool.lent += 1;
        let idle = pool.idle.pop();
        drop(pool);
        let mut lent = Lent {
            readers: self,
            connection: idle,
        };
        if lent.connection.is_none() {
            lent.connection = Some(schema::connect_reader(&self.path)?);
        }
        Ok(lent)
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().expect(UNBROKEN)
    }
}

const UNBROKEN: &str = "nothing panics while it holds the pool";

/// A connection on loan: comes back by itself, also when a read fails.
struct Lent<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Lent<'_> {
    fn connection(&self) -> &Connection {
        self.connection
            .as_ref()
            .expect("lent out with a connection")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut pool = self.readers.lock();
        pool.lent -= 1;
        pool.idle.extend(self.connection.take());
        self.readers.returned.notify_one();
    }
}

fn corrupt(table: Table, key: &[u8]) -> StoreError {
    let key = key.to_vec();
    StoreError::Corrupt { table, key }
}

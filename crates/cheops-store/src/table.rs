//! The tables: a closed set.
//!
//! An enum and not a name, because a table is a promise between versions: each is in the schema,
//! in every backup and in the quarantine, so a new one is a new format with a migration, never a
//! spelling mistake. What the rows mean is the owner's business.

use std::fmt;

/// Where a key lives. Keys of different tables never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// What an agent knows of itself: clock marks, promises of epochs, counters.
    Meta,
    /// Other sites: incarnations, what they confirmed.
    Sites,
    /// Replicants by meta-id, tombstones included.
    Replicants,
    /// Operations by id, with their state per site.
    Operations,
    /// The log: (replicant, position) to operation, in order of positions.
    Log,
    /// What is still to be said to each site, in order.
    Outbox,
    /// Idempotency keys and the answers given for them.
    Idempotency,
}

impl Table {
    /// Every table, in the order of the schema.
    pub const ALL: [Table; 7] = [
        Table::Meta,
        Table::Sites,
        Table::Replicants,
        Table::Operations,
        Table::Log,
        Table::Outbox,
        Table::Idempotency,
    ];

    /// The name on disk and in errors.
    pub fn name(self) -> &'static str {
        match self {
            Table::Meta => "meta",
            Table::Sites => "sites",
            Table::Replicants => "replicants",
            Table::Operations => "operations",
            Table::Log => "log",
            Table::Outbox => "outbox",
            Table::Idempotency => "idempotency",
        }
    }

    /// The table of that name, if there is one.
    pub fn named(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_found_by_its_name_and_only_once() {
        for table in Table::ALL {
            assert_eq!(Table::named(table.name()), Some(table));
        }
        assert_eq!(Table::named("replicant"), None);
        let names: std::collections::BTreeSet<_> = Table::ALL.map(Table::name).into();
        assert_eq!(names.len(), Table::ALL.len());
    }
}

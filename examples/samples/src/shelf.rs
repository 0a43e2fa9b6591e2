//! Things in the order they came, found by id.

use std::collections::{BTreeMap, HashMap};

/// An ordered collection with ids as text.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    places: HashMap<String, u64>,
    things: BTreeMap<u64, T>,
    place_next: u64,
}

impl<T> Shelf<T> {
    pub(crate) fn new() -> Shelf<T> {
        Shelf {
            places: HashMap::new(),
            things: BTreeMap::new(),
            place_next: 0,
        }
    }

    pub(crate) fn insert(&mut self, id: String, thing: T) {
        let fresh = self.places.insert(id, self.place_next).is_none();
        assert!(fresh, "an id is given once");
        self.things.insert(self.place_next, thing);
        self.place_next += 1;
    }

    pub(crate) fn get(&self, id: &str) -> Option<&T> {
        self.things.get(self.places.get(id)?)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        self.things.get_mut(self.places.get(id)?)
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<T> {
        self.things.remove(&self.places.remove(id)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.things.values()
    }

    /// What came after the thing with this id; `None` if there is no such thing.
    pub(crate) fn iter_after(&self, id: &str) -> Option<impl Iterator<Item = &T>> {
        let place = *self.places.get(id)?;
        Some(self.things.range(place + 1..).map(|(_, thing)| thing))
    }
}

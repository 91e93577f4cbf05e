//! Rows in places that stay theirs.

/// A row's place.
pub(crate) type Index = usize;

/// Rows in places that stay theirs until they leave; a free place is given out again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    rows: Vec<Option<T>>,
    free: Vec<Index>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, row: T) -> Index {
        self.insert_with(|_| row)
    }

    /// Inserts a row that knows its place.
    pub(crate) fn insert_with(&mut self, row: impl FnOnce(Index) -> T) -> Index {
        if let Some(index) = self.free.pop()
            && let Some(place) = self.rows.get_mut(index)
        {
            *place = Some(row(index));
            return index;
        }
        let index = self.rows.len();
        self.rows.push(Some(row(index)));
        index
    }

    pub(crate) fn get(&self, index: Index) -> Option<&T> {
        self.rows.get(index)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: Index) -> Option<&mut T> {
        self.rows.get_mut(index)?.as_mut()
    }

    pub(crate) fn remove(&mut self, index: Index) -> Option<T> {
        let row = self.rows.get_mut(index)?.take()?;
        self.free.push(index);
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_out_again_only_when_its_row_has_left() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert("a"), slab.insert("b"));
        assert_eq!((slab.remove(a), slab.remove(a), slab.get(a)), (Some("a"), None, None));
        assert_eq!(slab.insert("c"), a);
        assert_eq!((slab.get(a), slab.get(b)), (Some(&"c"), Some(&"b")));
        assert_eq!(slab.insert("d"), 2);
    }
}

//! A table whose entries keep their place. It grows by pieces, so that no growth copies what is there: with a million
//! messages waiting that would stop the loop for tens of milliseconds.

/// Entries of one piece.
const PIECE: usize = 4096;

/// Entries by index; the index of one that was taken is used again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    pieces: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            pieces: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, entry: T) -> u32 {
        if let Some(index) = self.free.pop() {
            *self.place(index) = Some(entry);
            return index;
        }
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        let before = (self.pieces.len() - 1) * PIECE;
        let piece = self.pieces.last_mut().expect("there is one with room");
        piece.push(Some(entry));
        u32::try_from(before + piece.len() - 1).expect("fewer than 2^32 entries")
    }

    /// # Panics
    /// If there is none at this index.
    pub(crate) fn get(&self, index: u32) -> &T {
        let entry = &self.pieces[index as usize / PIECE][index as usize % PIECE];
        entry.as_ref().expect("whoever has the index has the entry")
    }

    /// # Panics
    /// If there is none at this index.
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut T {
        self.place(index).as_mut().expect("whoever has the index has the entry")
    }

    /// # Panics
    /// If there is none at this index.
    pub(crate) fn take(&mut self, index: u32) -> T {
        let entry = self.place(index).take().expect("whoever has the index has the entry");
        self.free.push(index);
        entry
    }

    fn place(&mut self, index: u32) -> &mut Option<T> {
        &mut self.pieces[index as usize / PIECE][index as usize % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_place_and_free_ones_are_used_again() {
        let mut slab = Slab::default();
        let indices: Vec<u32> = (0..10_000).map(|n| slab.insert(n)).collect();
        assert!(indices.iter().zip(0..).all(|(index, n)| *slab.get(*index) == n));
        assert_eq!(slab.take(indices[5000]), 5000);
        assert_eq!(slab.insert(7), indices[5000]);
        assert_eq!(*slab.get(indices[5000]), 7);
    }
}

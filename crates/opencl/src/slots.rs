//! The arena: one buffer of slots, each of which holds a limb.

use crate::OpenClError;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which slots are free, as ranges in order that do not touch.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Mutex<Vec<Range<u32>>>,
    bytes: u64,
}

/// Slots in a row, or a part of them, which go back when the last part is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    whole: Arc<Whole>,
    first: u32,
}

#[derive(Debug)]
struct Whole {
    slots: Arc<Slots>,
    range: Range<u32>,
}

impl Slots {
    /// count slots of so many bytes.
    pub(crate) fn new(count: u32, bytes: u64) -> Arc<Self> {
        let all = 0..count;
        Arc::new(Self {
            free: Mutex::new(vec![all]),
            bytes,
        })
    }

    /// `count` slots in a row: the first range that has room.
    pub(crate) fn lease(self: &Arc<Self>, count: u32) -> Result<Lease, OpenClError> {
        let mut free = self.free();
        let Some(at) = free.iter().position(|range| range.len() >= count as usize) else {
            let largest = free.iter().map(|range| range.len() as u64).max().unwrap_or(0);
            return Err(OpenClError::Memory {
                wanted: u64::from(count) * self.bytes,
                free: largest * self.bytes,
            });
        };
        let start = free[at].start;
        free[at].start += count;
        if free[at].is_empty() {
            free.remove(at);
        }
        Ok(Lease {
            whole: Arc::new(Whole {
                slots: Arc::clone(self),
                range: start..start + count,
            }),
            first: start,
        })
    }

    fn free(&self) -> MutexGuard<'_, Vec<Range<u32>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// The slots from the `start`-th on.
    pub(crate) fn part(&self, start: u32) -> Self {
        Self {
            whole: Arc::clone(&self.whole),
            first: self.first + start,
        }
    }

    pub(crate) fn is_of(&self, slots: &Arc<Slots>) -> bool {
        Arc::ptr_eq(&self.whole.slots, slots)
    }
}

impl Drop for Whole {
    /// Commands run in order, so what reuses a slot runs after what still reads it.
    fn drop(&mut self) {
        if self.range.is_empty() {
            return;
        }
        let mut free = self.slots.free();
        let at = free.partition_point(|range| range.start < self.range.start);
        free.insert(at, self.range.clone());
        if at + 1 < free.len() && free[at].end == free[at + 1].start {
            free[at].end = free.remove(at + 1).end;
        }
        if at > 0 && free[at - 1].end == free[at].start {
            free[at - 1].end = free.remove(at).end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_and_join() {
        let slots = Slots::new(10, 8);
        let [a, b, c] = [3, 3, 3].map(|count| slots.lease(count).unwrap());
        assert_eq!([a.first(), b.first(), c.first()], [0, 3, 6]);
        let error = OpenClError::Memory { wanted: 16, free: 8 };
        assert_eq!(slots.lease(2).unwrap_err(), error);
        let part = b.part(1);
        assert_eq!(part.first(), 4);
        drop(b);
        assert!(slots.lease(3).is_err(), "a part keeps the whole");
        drop(part);
        assert_eq!(slots.lease(3).unwrap().first(), 3);
        drop(a);
        assert_eq!(slots.free().clone(), [0..6, 9..10]);
        drop(c);
        assert_eq!(slots.free().clone(), vec![0..10]);
        assert!(slots.lease(11).is_err());
    }
}

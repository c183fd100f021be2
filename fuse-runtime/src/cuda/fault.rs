//! Faults that kernels note in device memory, until a call that waits looks at them.
//!
//! A kernel that may fault has a word for each place where it may, which starts with all bits set and which it lowers. The
//! words of a stream are one array; each launch gets the next ones. A captured launch has words of its own. Nothing is read
//! back before somebody waits, and words in which a fault was found are set again before they are next used.

use super::handle::DevicePointer;
use super::launch::FaultPlaces;
use super::memory::LentBlock;
use super::stream::Stream;
use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Words of the array of a stream.
const WORDS: usize = 8192;

/// Launches that may have faulted, since somebody last looked.
#[derive(Default)]
pub(crate) struct PendingFaults {
    /// The array; a plain address, since a block would own the stream that owns this.
    words: Option<DevicePointer>,
    /// Whether a word of the array may not be set.
    stale: bool,
    used: usize,
    noted: Vec<Noted>,
    /// The extents of what was launched, one launch after the other.
    extents: Vec<i64>,
}

/// A launch, and where it notes its faults.
enum Noted {
    /// In the stream's array.
    Launched {
        places: FaultPlaces,
        /// The first of its words.
        word: usize,
        /// Where its extents start, and how many there are.
        extents: (usize, usize),
    },
    /// In words of its own.
    Replayed(Arc<CapturedFaults>),
}

/// A captured launch that may fault, and its words.
pub(super) struct CapturedFaults {
    places: FaultPlaces,
    extents: Vec<i64>,
    words: LentBlock,
    /// Whether a word may not be set.
    stale: AtomicBool,
    /// Whether it was replayed since somebody last looked.
    noted: AtomicBool,
}

impl PendingFaults {
    pub(super) fn is_empty(&self) -> bool {
        self.noted.is_empty()
    }

    /// The array and the words of captured launches of which the graph is gone, for whoever frees them.
    pub(super) fn take_memory(&mut self) -> Vec<DevicePointer> {
        let captured = self.noted.drain(..).filter_map(|noted| match noted {
            Noted::Launched { .. } => None,
            Noted::Replayed(captured) => Some(captured.start()),
        });
        captured.chain(self.words.take()).collect()
    }

    /// Notes that a captured launch was launched.
    pub(super) fn note_replay(&mut self, captured: &Arc<CapturedFaults>) {
        if !captured.noted.swap(true, Ordering::Relaxed) {
            self.noted.push(Noted::Replayed(Arc::clone(captured)));
        }
    }

    /// Words for a launch with these extents, set. If the array is full, what is noted is looked at first, and its error comes back beside.
    pub(super) fn reserve(
        &mut self,
        stream: &Arc<Stream>,
        places: FaultPlaces,
        extents: &[i64],
    ) -> Result<(DevicePointer, Option<Error>), Error> {
        // A kernel has far fewer places than there are words.
        let count = places.count().min(WORDS);
        let mut found = None;
        if self.used + count > WORDS {
            found = self.collect(stream)?;
        }
        let start = match self.words {
            Some(start) => start,
            None => {
                let start = stream.allocate(8 * WORDS)?;
                (self.words, self.stale) = (Some(start), true);
                start
            }
        };
        if self.stale {
            stream.fill(start, 0xff, 8 * WORDS)?;
            self.stale = false;
        }
        let first = self.used;
        self.used += count;
        self.noted.push(Noted::Launched {
            places,
            word: first,
            extents: (self.extents.len(), extents.len()),
        });
        self.extents.extend_from_slice(extents);
        Ok((start + 8 * first as u64, found))
    }

    /// Waits, and gives the first fault of all that were noted. If a copy fails, they stay noted.
    pub(super) fn collect(&mut self, stream: &Arc<Stream>) -> Result<Option<Error>, Error> {
        let mut array = vec![u64::MAX; self.used];
        if self.used > 0 {
            stream.read_words(self.words.unwrap_or(0), &mut array)?;
        }
        let mut first = None;
        for noted in &self.noted {
            let fault = match noted {
                Noted::Launched { places, word, extents: (start, count) } => {
                    let words = &array[*word..(word + places.count()).min(array.len())];
                    let fault = places.first_fault(words, &self.extents[*start..start + count]);
                    self.stale |= fault.is_some();
                    fault
                }
                Noted::Replayed(captured) => captured.look(stream)?,
            };
            first = first.or(fault);
        }
        for noted in self.noted.drain(..) {
            if let Noted::Replayed(captured) = noted {
                captured.noted.store(false, Ordering::Relaxed);
            }
        }
        self.extents.clear();
        self.used = 0;
        Ok(first)
    }
}

impl CapturedFaults {
    /// Words for a captured launch with these extents.
    pub(super) fn allocate(
        stream: &Arc<Stream>,
        places: FaultPlaces,
        extents: &[i64],
    ) -> Result<CapturedFaults, Error> {
        let words = LentBlock::allocate(stream, 8 * places.count().max(1))?;
        let (stale, noted) = (AtomicBool::new(true), AtomicBool::new(false));
        Ok(CapturedFaults { places, extents: extents.to_vec(), words, stale, noted })
    }

    /// Where the words are.
    pub(super) fn start(&self) -> DevicePointer {
        self.words.start()
    }

    /// Sets the words, if one may not be, for the launches that are queued next.
    pub(super) fn set_words(&self, stream: &Stream) -> Result<(), Error> {
        if self.stale.load(Ordering::Relaxed) {
            stream.fill(self.start(), 0xff, 8 * self.places.count())?;
            self.stale.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits, and gives the fault that was noted, if one was.
    fn look(&self, stream: &Stream) -> Result<Option<Error>, Error> {
        let mut words = vec![u64::MAX; self.places.count()];
        stream.read_words(self.start(), &mut words)?;
        let fault = self.places.first_fault(&words, &self.extents);
        if fault.is_some() {
            self.stale.store(true, Ordering::Relaxed);
        }
        Ok(fault)
    }
}

//! Faults that kernels note in device memory, until a call that waits looks at them.
//!
//! A kernel that may fault has a word for each place where it may, which starts with all bits set and which it lowers. The
//! words of a stream are one array; each launch gets the next ones. Nothing is read back before somebody waits.

use super::handle::DevicePointer;
use super::launch::FaultPlaces;
use super::memory::DeviceBlock;
use super::stream::Stream;
use crate::error::Error;
use std::sync::Arc;

/// Words of the array of a stream.
const WORDS: usize = 8192;

/// Launches that may have faulted, since somebody last looked.
#[derive(Default)]
pub(crate) struct PendingFaults {
    /// The array; a plain address, since a block would own the stream that owns this.
    words: Option<DevicePointer>,
    used: usize,
    noted: Vec<Noted>,
}

/// A launch, or a captured one that was launched again, and where it notes its faults.
pub(crate) struct Noted {
    places: FaultPlaces,
    words: NotedAt,
}

enum NotedAt {
    /// From that word of the stream's array on.
    Array(usize),
    /// In memory of a graph.
    Graph(Arc<DeviceBlock>, usize),
}

impl Noted {
    /// Of a graph: its words start at that byte of its memory.
    pub(super) fn of_graph(places: FaultPlaces, memory: Arc<DeviceBlock>, offset: usize) -> Noted {
        Noted { places, words: NotedAt::Graph(memory, offset) }
    }
}

impl PendingFaults {
    pub(super) fn is_empty(&self) -> bool {
        self.noted.is_empty()
    }

    /// The array, for whoever frees it.
    pub(super) fn take_words(&mut self) -> Option<DevicePointer> {
        self.words.take()
    }

    pub(super) fn push(&mut self, noted: Noted) {
        self.noted.push(noted);
    }

    /// Words for a launch, set. If the array is full, what is noted is looked at first, and its error comes back beside.
    pub(super) fn reserve(
        &mut self,
        stream: &Arc<Stream>,
        places: FaultPlaces,
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
                self.words = Some(start);
                stream.fill(start, 0xff, 8 * WORDS)?;
                start
            }
        };
        let first = self.used;
        self.used += count;
        self.noted.push(Noted { places, words: NotedAt::Array(first) });
        Ok((start + 8 * first as u64, found))
    }

    /// Waits, and gives the first fault of all that were noted; the words are set again.
    pub(super) fn collect(&mut self, stream: &Arc<Stream>) -> Result<Option<Error>, Error> {
        if self.noted.is_empty() {
            return Ok(None);
        }
        let mut array = vec![u64::MAX; self.used];
        let start = self.words.unwrap_or(0);
        stream.read_words(start, &mut array)?;
        let mut first = None;
        for noted in std::mem::take(&mut self.noted) {
            let count = noted.places.count();
            let fault = match &noted.words {
                NotedAt::Array(at) => noted.places.first_fault(&array[*at..(at + count).min(array.len())]),
                NotedAt::Graph(memory, offset) => {
                    let start = memory.start() + *offset as u64;
                    let mut words = vec![u64::MAX; count];
                    stream.read_words(start, &mut words)?;
                    let fault = noted.places.first_fault(&words);
                    if fault.is_some() {
                        stream.fill(start, 0xff, 8 * count)?;
                    }
                    fault
                }
            };
            first = first.or(fault);
        }
        if first.is_some() && self.used > 0 {
            stream.fill(start, 0xff, 8 * self.used)?;
        }
        self.used = 0;
        Ok(first)
    }
}

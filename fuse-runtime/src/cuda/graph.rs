//! Captured calls as a graph of the driver: one launch for all of them.

use super::fault::CapturedFaults;
use super::handle::{GraphExec, StreamHandle};
use super::launch::{Target, launch_all};
use super::memory::DeviceBlock;
use super::stream::{Stream, StreamRef};
use crate::call::Loaded;
use crate::error::Error;
use crate::lowered::BoundCall;
use crate::tensor::Storage;
use std::fmt;
use std::sync::Arc;

/// A graph that can be launched, with the memory that is its own.
pub(crate) struct CapturedGraph {
    stream: Arc<Stream>,
    exec: GraphExec,
    faults: Vec<Arc<CapturedFaults>>,
    _memory: Vec<DeviceBlock>,
    _temps: Vec<Storage>,
}

/// A capture that is under way. Calls are captured on a stream of their own, so that what other threads queue meanwhile runs.
pub(crate) struct Capture {
    stream: Arc<Stream>,
    handle: StreamHandle,
    capturing: bool,
    faults: Vec<Arc<CapturedFaults>>,
    memory: Vec<DeviceBlock>,
    temps: Vec<Storage>,
}

impl Capture {
    /// Begins one.
    pub(crate) fn begin(stream: &StreamRef) -> Result<Capture, Error> {
        let stream = Arc::clone(&stream.0);
        let handle = stream.call(|driver| driver.create_stream())?;
        let (faults, memory, temps) = (Vec::new(), Vec::new(), Vec::new());
        let mut capture = Capture { stream, handle, capturing: false, faults, memory, temps };
        capture.stream.call(|driver| driver.begin_capture(handle))?;
        capture.capturing = true;
        Ok(capture)
    }

    /// Adds a call, whose kernels have been compiled before.
    ///
    /// # Safety
    /// As [`super::run`], and the call's memory lives as long as the graph is launched.
    pub(crate) unsafe fn add(&mut self, loaded: &Arc<Loaded>, call: &BoundCall<'_>) -> Result<(), Error> {
        let mut target =
            Target::Capture { handle: self.handle, memory: &mut self.memory, faults: &mut self.faults };
        // SAFETY: by the caller; the memory and the words are kept with the graph.
        unsafe { launch_all(loaded, &self.stream, call, &mut target) }
    }

    /// Keeps intermediate buffers of a call that was added.
    pub(crate) fn keep(&mut self, mut temps: Vec<Storage>) {
        self.temps.append(&mut temps);
    }

    /// The graph.
    pub(crate) fn finish(mut self) -> Result<CapturedGraph, Error> {
        let (handle, capturing) = (self.handle, &mut self.capturing);
        let exec = self.stream.call(|driver| {
            let graph = driver.end_capture(handle)?;
            *capturing = false;
            driver.instantiate_graph(graph)
        })?;
        Ok(CapturedGraph {
            stream: Arc::clone(&self.stream),
            exec,
            faults: std::mem::take(&mut self.faults),
            _memory: std::mem::take(&mut self.memory),
            _temps: std::mem::take(&mut self.temps),
        })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Nothing was launched on this stream; that it cannot be destroyed harms nobody.
        self.stream.release(|driver| {
            if self.capturing
                && let Ok(graph) = driver.end_capture(self.handle)
            {
                // SAFETY: nothing else has the graph.
                let _ = unsafe { driver.destroy_captured(graph) };
            }
            // SAFETY: this is its last use.
            unsafe { driver.destroy_stream(self.handle) }
        });
    }
}

impl CapturedGraph {
    /// Queues the graph.
    ///
    /// # Safety
    /// The memory of the captured calls lives and belongs to the caller until the work is done in the stream's order.
    pub(crate) unsafe fn launch(&self) -> Result<(), Error> {
        self.faults.iter().try_for_each(|captured| captured.set_words(&self.stream))?;
        // SAFETY: by the caller.
        self.stream.call(|driver| unsafe { driver.launch_graph(self.exec, self.stream.handle) })?;
        if !self.faults.is_empty() {
            self.stream
                .with_faults(|faults| self.faults.iter().for_each(|captured| faults.note_replay(captured)));
        }
        Ok(())
    }
}

impl fmt::Debug for CapturedGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CapturedGraph({})", self.stream)
    }
}

impl Drop for CapturedGraph {
    fn drop(&mut self) {
        // Its kernels may still be running; the driver keeps what they need of the graph, and its memory is freed in the
        // stream's order.
        // SAFETY: this is its last use.
        self.stream.release(|driver| unsafe { driver.destroy_graph(self.exec) });
    }
}

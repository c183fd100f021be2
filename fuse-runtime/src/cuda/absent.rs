//! What stands in the place of the driver and the compiler without the feature `cuda`: types of which there are no values.
//! So all else compiles, and none of it can be reached.

use super::handle::{
    Attribute, CallError, CompileError, Context, DevicePointer, Event, Function, Graph, GraphExec,
    LaunchShape, Module, Output, StreamHandle,
};
use super::unavailable::CudaUnavailable;
use std::ffi::c_void;

/// There is none.
#[derive(Debug)]
pub(crate) enum Driver {}

/// There is none.
#[derive(Debug)]
pub(crate) enum Compiler {}

impl Driver {
    pub(crate) fn get() -> Result<&'static Driver, CudaUnavailable> {
        Err(CudaUnavailable::NotBuilt)
    }
}

impl Compiler {
    pub(crate) fn get() -> Result<&'static Compiler, CudaUnavailable> {
        Err(CudaUnavailable::NotBuilt)
    }

    pub(crate) fn version(&self) -> (i32, i32) {
        match *self {}
    }

    pub(crate) fn architectures(&self) -> &[u32] {
        match *self {}
    }

    pub(crate) fn compile(&self, _: &str, _: &[String], _: Output) -> Result<Vec<u8>, CompileError> {
        match *self {}
    }
}

macro_rules! calls {
    ($($(#[$doc:meta])* $([$unsafe:ident])? $name:ident($($of:ty),*) -> $result:ty;)*) => {
        impl Driver {
            $(
                $(#[$doc])*
                pub(crate) $($unsafe)? fn $name(&self, $(_: $of),*) -> Result<$result, CallError> {
                    match *self {}
                }
            )*
        }
    };
}

calls! {
    version() -> (i32, i32);
    device_count() -> i32;
    device_name(i32) -> String;
    attribute(i32, Attribute) -> i32;
    keep_pool_memory(i32) -> ();
    retain_primary_context(i32) -> Context;
    set_current(Context) -> ();
    create_stream() -> StreamHandle;
    synchronize(StreamHandle) -> ();
    create_event() -> Event;
    record_event(Event, StreamHandle) -> ();
    wait_event(StreamHandle, Event) -> ();
    query_event(Event) -> bool;
    free_memory() -> usize;
    allocate_async(usize, StreamHandle) -> DevicePointer;
    allocate(usize) -> DevicePointer;
    allocate_pinned(usize) -> *mut u8;
    load_module(&[u8]) -> Module;
    function(Module, &str) -> Function;
    resources(Function) -> (u32, u32);
    allow_shared_memory(Function, u32) -> ();
    begin_capture(StreamHandle) -> ();
    end_capture(StreamHandle) -> Graph;
    instantiate_graph(Graph) -> GraphExec;
    /// # Safety
    /// It cannot be called.
    [unsafe] release_primary_context(i32) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] destroy_stream(StreamHandle) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] destroy_event(Event) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] free_async(DevicePointer, StreamHandle) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] free(DevicePointer) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] free_pinned(*mut u8) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] copy_to_device(DevicePointer, *const u8, usize, StreamHandle) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] copy_to_host(*mut u8, DevicePointer, usize, StreamHandle) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] copy_on_device(DevicePointer, DevicePointer, usize, StreamHandle) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] fill(DevicePointer, u8, usize, StreamHandle) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] unload_module(Module) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] launch(Function, &LaunchShape, StreamHandle, &mut [*mut c_void]) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] launch_graph(GraphExec, StreamHandle) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] destroy_captured(Graph) -> ();
    /// # Safety
    /// It cannot be called.
    [unsafe] destroy_graph(GraphExec) -> ();
}

//! One list of tests, every device: the tests of a file run on the CPU, and those that [`on_every_device`] names run again
//! on the simulator, and on a GPU where there is one that can be used.

use fuse::{Device, Error};
use std::cell::RefCell;

thread_local! {
    static CURRENT: RefCell<Device> = RefCell::new(Device::cpu());
}

/// Where the test that runs puts its tensors.
pub(crate) fn device() -> Device {
    CURRENT.with_borrow(Device::clone)
}

/// What a test returns.
pub(crate) trait Outcome {
    /// Fails the test if it is an error.
    fn check(self);
}

impl Outcome for () {
    fn check(self) {}
}

impl Outcome for Result<(), Error> {
    #[track_caller]
    fn check(self) {
        if let Err(error) = self {
            panic!("{error}");
        }
    }
}

/// The GPU, with a stream of the test's own: faults of other tests' kernels are none of it. `None` where there is no GPU that
/// can be used.
pub(crate) fn gpu() -> Option<Device> {
    Device::cuda(0).and_then(|device| device.new_stream()).ok()
}

/// Runs a test on that device.
pub(crate) fn run_on<O: Outcome>(device: Device, test: fn() -> O) {
    CURRENT.set(device);
    test().check();
}

/// Runs the tests of that name on every other device there is.
macro_rules! on_every_device {
    ($($test:ident),* $(,)?) => {
        mod simulator {
            $(#[test] fn $test() { super::devices::run_on(fuse::Device::simulator(), super::$test) })*
        }

        /// Without a GPU that can be used these have nothing to do.
        mod cuda {
            $(#[test] fn $test() {
                if let Some(gpu) = super::devices::gpu() {
                    super::devices::run_on(gpu, super::$test);
                }
            })*
        }
    };
}

pub(crate) use on_every_device;

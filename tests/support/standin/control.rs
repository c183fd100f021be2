//! What a test tells a stand-in and asks of it, through three functions that each of the two libraries exports beside its own:
//! `standin_fail`, `standin_set` and `standin_report`.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A call that is to fail.
struct Planned {
    call: String,
    /// How many calls are still to succeed before.
    skip: u64,
    /// How many then fail.
    times: u64,
    code: u32,
}

/// What was told and noted.
pub struct Control {
    planned: Vec<Planned>,
    settings: BTreeMap<String, i64>,
    counts: BTreeMap<&'static str, u64>,
    /// What the library must never be asked for.
    misuse: Vec<String>,
    /// What it was asked for, a line each.
    events: Vec<String>,
}

static CONTROL: Mutex<Control> = Mutex::new(Control {
    planned: Vec::new(),
    settings: BTreeMap::new(),
    counts: BTreeMap::new(),
    misuse: Vec::new(),
    events: Vec::new(),
});

fn control() -> MutexGuard<'static, Control> {
    CONTROL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a call, and gives the code with which it is to fail: 0 if it is not.
pub fn arrive(call: &'static str) -> u32 {
    let mut control = control();
    *control.counts.entry(call).or_default() += 1;
    for planned in control.planned.iter_mut().filter(|planned| planned.call == call) {
        if planned.skip > 0 {
            planned.skip -= 1;
        } else if planned.times > 0 {
            planned.times -= 1;
            return planned.code;
        }
    }
    0
}

/// A setting: what a test has set, or the environment says by a variable such as `STANDIN_POOLS`, or the default.
pub fn setting(name: &str, default: i64) -> i64 {
    if let Some(value) = control().settings.get(name) {
        return *value;
    }
    let value = std::env::var(format!("STANDIN_{}", name.to_uppercase()));
    value.ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Notes a misuse, and gives the code with which the call fails.
pub fn misuse(what: String, code: u32) -> u32 {
    control().misuse.push(what);
    code
}

/// Notes what was asked for.
pub fn event(what: String) {
    control().events.push(what);
}

/// Lines that start with `call`, `misuse` or `event`. Events are given once.
pub fn report() -> String {
    let mut control = control();
    let calls = control.counts.iter().map(|(call, count)| format!("call {call} {count}\n"));
    let mut text: String = calls.collect();
    control.misuse.iter().for_each(|what| text.push_str(&format!("misuse {what}\n")));
    let events = std::mem::take(&mut control.events);
    events.iter().for_each(|what| text.push_str(&format!("event {what}\n")));
    text
}

fn text(pointer: *const c_char) -> String {
    // SAFETY: callers pass a text that ends with a zero.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// From now on `skip` calls succeed, then `times` fail with the code.
///
/// # Safety
/// The name is a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_fail(call: *const c_char, skip: u64, times: u64, code: u32) {
    control().planned.push(Planned { call: text(call), skip, times, code });
}

/// Sets a number by its name.
///
/// # Safety
/// The name is a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_set(name: *const c_char, value: i64) {
    control().settings.insert(text(name), value);
}

/// Puts a report into the buffer, and gives its length; one that does not fit is cut.
///
/// # Safety
/// The buffer has that many bytes.
pub unsafe fn write_report(report: &str, buffer: *mut u8, capacity: usize) -> usize {
    let count = report.len().min(capacity);
    // SAFETY: as many bytes fit, by the caller.
    unsafe { buffer.copy_from_nonoverlapping(report.as_ptr(), count) };
    report.len()
}

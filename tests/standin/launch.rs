//! A launch as the driver saw it.

use crate::standins::{Report, StandIn};

/// A launch, with its parameters as the entry declares them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Launch {
    pub(crate) entry: String,
    pub(crate) grid: [u64; 3],
    pub(crate) block: [u64; 3],
    pub(crate) params: Vec<Param>,
}

/// A parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Param {
    pub(crate) name: String,
    /// `pointer`, `f32`, `u32` …
    pub(crate) of: String,
    pub(crate) bits: u64,
    /// Bytes of the block from a pointer on; `None` if it points to none.
    pub(crate) room: Option<usize>,
}

impl Launch {
    /// The launches since the last report, of kernels on a stream (`launch`) or of graphs (`replay`).
    pub(crate) fn all(report: &Report, how: &str) -> Vec<Launch> {
        report.events().iter().filter_map(|line| Launch::parse(line.strip_prefix(how)?)).collect()
    }

    /// The one launch since the last report.
    #[track_caller]
    pub(crate) fn only() -> Launch {
        let mut all = Launch::all(&StandIn::Driver.report(), "launch");
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn parse(line: &str) -> Option<Launch> {
        let mut words = line.split_whitespace().skip(1);
        let entry = words.next()?.to_owned();
        let mut list = || -> Option<[u64; 3]> {
            let numbers = words.next()?.split_once('=')?.1.split(',').map(str::parse);
            numbers.collect::<Result<Vec<u64>, _>>().ok()?.try_into().ok()
        };
        let (grid, block) = (list()?, list()?);
        let params = words.skip(1).map(Param::parse).collect::<Option<_>>()?;
        Some(Launch { entry, grid, block, params })
    }

    #[track_caller]
    pub(crate) fn param(&self, name: &str) -> &Param {
        let found = self.params.iter().find(|param| param.name == name);
        found.unwrap_or_else(|| panic!("no parameter `{name}` in {self:?}"))
    }

    /// The bits of a number.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.param(name).bits
    }

    /// Reads an element of what a parameter points to, whose memory is the host's.
    #[track_caller]
    pub(crate) fn read<T: Copy>(&self, name: &str, index: usize) -> T {
        // SAFETY: the element is within the block, and kernels, which alone might write it, do not run.
        unsafe { self.element::<T>(name, index).read_unaligned() }
    }

    /// Writes one, as the kernel would.
    #[track_caller]
    pub(crate) fn write<T: Copy>(&self, name: &str, index: usize, value: T) {
        // SAFETY: likewise.
        unsafe { self.element::<T>(name, index).write_unaligned(value) }
    }

    #[track_caller]
    fn element<T>(&self, name: &str, index: usize) -> *mut T {
        let param = self.param(name);
        let end = (index + 1) * size_of::<T>();
        assert_eq!(param.of, "pointer", "{param:?}");
        assert!(param.room.is_some_and(|room| end <= room), "element {index} of {param:?}");
        (param.bits as usize + index * size_of::<T>()) as *mut T
    }
}

impl Param {
    fn parse(word: &str) -> Option<Param> {
        let (name, rest) = word.split_once(':')?;
        let (of, rest) = rest.split_once('=')?;
        let (bits, room) = match rest.split_once('@') {
            Some((bits, place)) => (bits, Some(place.split_once('+')?.1.parse().ok()?)),
            None => (rest, None),
        };
        let bits = u64::from_str_radix(bits, 16).ok()?;
        Some(Param { name: name.to_owned(), of: of.to_owned(), bits, room })
    }
}

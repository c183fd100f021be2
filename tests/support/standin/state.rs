//! What the driver's stand-in has: objects by their handles, and blocks of memory.

use crate::control::{misuse, setting};
use std::alloc::Layout;
use std::collections::BTreeMap;

pub const INVALID_HANDLE: u32 = 400;
pub const CAPTURE_UNSUPPORTED: u32 = 900;
const OUT_OF_RESOURCES: u32 = 701;

/// Everything that there is.
pub struct Driver {
    pub started: bool,
    /// The error after which nothing works.
    pub lost: u32,
    pub objects: BTreeMap<usize, Object>,
    last: usize,
    context: usize,
    /// Of the device by their first address.
    blocks: BTreeMap<u64, Block>,
    /// Of the host, likewise.
    pinned: BTreeMap<u64, Block>,
}

/// What a handle stands for.
pub enum Object {
    Context { users: usize },
    Pool,
    /// With what it captured, while it does.
    Stream { captured: Option<Vec<Launch>> },
    Event,
    Module(Entry),
    Function(Function),
    Graph(Vec<Launch>),
    Exec(Vec<Launch>),
}

struct Block {
    layout: Layout,
    bytes: usize,
    pooled: bool,
}

/// The function of a module.
#[derive(Clone)]
pub struct Entry {
    pub name: String,
    pub local_bytes: i32,
    params: Vec<(String, String)>,
}

pub struct Function {
    pub module: usize,
    pub entry: Entry,
    /// The most shared memory of a launch.
    pub shared: u32,
}

/// A launch, with the bits of its arguments.
#[derive(Clone)]
pub struct Launch {
    pub entry: Entry,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub values: Vec<u64>,
}

impl Object {
    fn kind(&self) -> &'static str {
        match self {
            Object::Context { .. } => "context",
            Object::Pool => "pool",
            Object::Stream { .. } => "stream",
            Object::Event => "event",
            Object::Module(_) => "module",
            Object::Function(_) => "function",
            Object::Graph(_) => "graph",
            Object::Exec(_) => "exec",
        }
    }
}

impl Driver {
    pub const NEW: Driver = Driver {
        started: false,
        lost: 0,
        objects: BTreeMap::new(),
        last: 0x1000,
        context: 0,
        blocks: BTreeMap::new(),
        pinned: BTreeMap::new(),
    };

    pub fn add(&mut self, object: Object) -> usize {
        self.last += 16;
        self.objects.insert(self.last, object);
        self.last
    }

    pub fn remove(&mut self, handle: usize, kind: &str) -> Result<Object, u32> {
        match self.objects.get(&handle) {
            Some(object) if object.kind() == kind => self.objects.remove(&handle).ok_or(INVALID_HANDLE),
            _ => Err(misuse(format!("{handle:#x} is no {kind} to destroy"), INVALID_HANDLE)),
        }
    }

    pub fn pool(&mut self) -> usize {
        let found = self.objects.iter().find(|(_, o)| matches!(o, Object::Pool)).map(|(handle, _)| *handle);
        found.unwrap_or_else(|| self.add(Object::Pool))
    }

    /// The context, with one user more.
    pub fn retain(&mut self) -> usize {
        if self.context == 0 {
            self.context = self.add(Object::Context { users: 0 });
        }
        if let Some(Object::Context { users }) = self.objects.get_mut(&self.context) {
            *users += 1;
        }
        self.context
    }

    pub fn release(&mut self) -> Result<(), u32> {
        match self.objects.get_mut(&self.context) {
            Some(Object::Context { users }) if *users > 0 => {
                *users -= 1;
                Ok(())
            }
            _ => Err(misuse("a context without users is released".to_owned(), INVALID_HANDLE)),
        }
    }

    pub fn context(&self, handle: usize) -> Result<(), u32> {
        match self.objects.get(&handle) {
            Some(Object::Context { users }) if *users > 0 => Ok(()),
            _ => Err(misuse(format!("{handle:#x} is no context"), INVALID_HANDLE)),
        }
    }

    pub fn event(&self, handle: usize) -> Result<(), u32> {
        match self.objects.get(&handle) {
            Some(Object::Event) => Ok(()),
            _ => Err(misuse(format!("{handle:#x} is no event"), INVALID_HANDLE)),
        }
    }

    /// What a stream captured, if it captures.
    pub fn captured(&mut self, handle: usize) -> Result<Option<&mut Vec<Launch>>, u32> {
        match self.objects.get_mut(&handle) {
            Some(Object::Stream { captured }) => Ok(captured.as_mut()),
            _ => Err(misuse(format!("{handle:#x} is no stream"), INVALID_HANDLE)),
        }
    }

    /// That it is a stream that does not capture: one that does takes launches alone.
    pub fn running_stream(&mut self, handle: usize) -> Result<(), u32> {
        match self.captured(handle)? {
            None => Ok(()),
            Some(_) => Err(misuse("a call that cannot be captured".to_owned(), CAPTURE_UNSUPPORTED)),
        }
    }

    pub fn function(&mut self, handle: usize) -> Result<&mut Function, u32> {
        match self.objects.get_mut(&handle) {
            Some(Object::Function(function)) => Ok(function),
            _ => Err(misuse(format!("{handle:#x} is no function"), INVALID_HANDLE)),
        }
    }

    /// Loads what the stand-in for NVRTC gave.
    pub fn load(&mut self, image: &str) -> Result<usize, u32> {
        let capability = setting("capability", 90);
        let mut lines = image.lines();
        let head = lines.next().and_then(|line| line.strip_prefix("stand-in code "));
        let (kind, number) = head.and_then(|a| a.split_once('_')).ok_or(crate::INVALID_IMAGE)?;
        let number: i64 = number.parse().map_err(|_| crate::INVALID_IMAGE)?;
        let fits = if kind == "sm" { number == capability } else { number <= capability };
        if !fits {
            return Err(misuse(format!("{kind}_{number} is loaded on {capability}"), crate::NO_BINARY_FOR_GPU));
        }
        let mut line = |start| lines.next().and_then(|line| line.strip_prefix(start)).ok_or(crate::INVALID_IMAGE);
        let local_bytes = line("local ")?.parse().map_err(|_| crate::INVALID_IMAGE)?;
        let name = line("entry ")?;
        let param = |line: &str| {
            let (name, ty) = line.strip_prefix("param ")?.split_once(' ')?;
            Some((name.to_owned(), ty.to_owned()))
        };
        let params = lines.map(param).collect::<Option<Vec<_>>>().ok_or(crate::INVALID_IMAGE)?;
        Ok(self.add(Object::Module(Entry { name: name.to_owned(), local_bytes, params })))
    }

    pub fn free_bytes(&self) -> usize {
        let used: usize = self.blocks.values().map(|block| block.bytes).sum();
        (setting("memory", 1 << 30) as usize).saturating_sub(used)
    }

    pub fn allocate(&mut self, bytes: usize, pooled: bool) -> Result<u64, u32> {
        if bytes == 0 {
            return Err(misuse("an allocation of nothing".to_owned(), crate::INVALID_VALUE));
        }
        if bytes > self.free_bytes() {
            return Err(crate::OUT_OF_MEMORY);
        }
        Ok(insert(&mut self.blocks, bytes, pooled))
    }

    pub fn free(&mut self, address: u64, pooled: bool) -> Result<(), u32> {
        match self.blocks.get(&address) {
            Some(block) if block.pooled == pooled => {
                remove(&mut self.blocks, address);
                Ok(())
            }
            Some(_) => Err(misuse("a block is freed the other way".to_owned(), crate::INVALID_VALUE)),
            None => Err(misuse(format!("no block at {address:#x} to free"), crate::INVALID_VALUE)),
        }
    }

    pub fn allocate_pinned(&mut self, bytes: usize) -> *mut u8 {
        insert(&mut self.pinned, bytes, false) as *mut u8
    }

    pub fn free_pinned(&mut self, start: *mut u8) -> Result<(), u32> {
        if remove(&mut self.pinned, start as u64) {
            return Ok(());
        }
        Err(misuse("no memory of the host to free".to_owned(), crate::INVALID_VALUE))
    }

    /// The block in which an address lies, or behind which it is.
    fn block_at(&self, address: u64) -> Option<(u64, usize)> {
        let (start, block) = self.blocks.range(..=address).next_back()?;
        (address - start <= block.bytes as u64).then_some((*start, block.bytes))
    }

    pub fn check_range(&self, start: u64, bytes: usize) -> Result<(), u32> {
        match self.block_at(start) {
            Some((block, size)) if (start - block) as usize + bytes <= size => Ok(()),
            _ => Err(misuse(format!("no {bytes} bytes at {start:#x}"), crate::INVALID_VALUE)),
        }
    }

    /// A launch as a line: `entry grid=x,y,z block=x,y,z shared=n name:type=bits…`. After the bits of a pointer come `@` and how
    /// many bytes of its block lie before and behind it.
    pub fn describe(&self, launch: &Launch) -> String {
        let Launch { entry, grid, block, shared, values } = launch;
        let list = |n: &[u32; 3]| n.map(|n| n.to_string()).join(",");
        let mut line = format!("{} grid={} block={} shared={shared}", entry.name, list(grid), list(block));
        for ((name, ty), value) in entry.params.iter().zip(values) {
            line.push_str(&format!(" {name}:{ty}={value:x}"));
            if let (true, Some((start, bytes))) = (ty == "pointer", self.block_at(*value)) {
                line.push_str(&format!("@{}+{}", value - start, bytes as u64 - (value - start)));
            }
        }
        line
    }

    /// A line `live KIND COUNT` for each kind.
    pub fn live(&self) -> String {
        let of = |kind| self.objects.values().filter(|o| o.kind() == kind).count();
        let kinds = ["stream", "event", "module", "function", "graph", "exec"];
        let objects: String = kinds.map(|kind| format!("live {kind} {}\n", of(kind))).concat();
        let users = match self.objects.get(&self.context) {
            Some(Object::Context { users }) => *users,
            _ => 0,
        };
        let (blocks, pinned) = (self.blocks.len(), self.pinned.len());
        format!("{objects}live context {users}\nlive block {blocks}\nlive pinned {pinned}\n")
    }
}

/// Adds a block, whose contents are nobody's.
fn insert(blocks: &mut BTreeMap<u64, Block>, bytes: usize, pooled: bool) -> u64 {
    // The last byte of a block is never the one before another.
    let layout = Layout::from_size_align(bytes + 256, 256).expect("a size that fits");
    // SAFETY: the layout is not empty.
    let start = unsafe { std::alloc::alloc(layout) };
    assert!(!start.is_null(), "no memory of the host");
    // SAFETY: the block was made above.
    unsafe { start.write_bytes(0x5a, bytes) };
    blocks.insert(start as u64, Block { layout, bytes, pooled });
    start as u64
}

fn remove(blocks: &mut BTreeMap<u64, Block>, start: u64) -> bool {
    let Some(block) = blocks.remove(&start) else { return false };
    // SAFETY: the block was allocated with this layout, and is in the list no more.
    unsafe { std::alloc::dealloc(start as *mut u8, block.layout) };
    true
}

impl Function {
    pub fn check(&self, grid: [u32; 3], block: [u32; 3], shared: u32) -> Result<(), u32> {
        let threads = block.iter().map(|&n| u64::from(n)).product::<u64>();
        let inside = grid[0] <= i32::MAX as u32 && grid[1] <= 65535 && grid[2] <= 65535 && block[2] <= 64;
        if grid.contains(&0) || threads == 0 || threads > 1024 || !inside {
            return Err(misuse(format!("grid {grid:?}, block {block:?}"), crate::INVALID_VALUE));
        }
        if shared > self.shared {
            return Err(misuse(format!("{shared} bytes of shared memory of {}", self.shared), OUT_OF_RESOURCES));
        }
        Ok(())
    }
}

impl Entry {
    /// The bits of each parameter.
    ///
    /// # Safety
    /// There is a pointer for each, to as many bytes as it has.
    pub unsafe fn read(&self, params: *const *const u8) -> Result<Vec<u64>, u32> {
        let read = |(k, (name, ty)): (usize, &(String, String))| {
            let size = match ty.as_str() {
                "pointer" | "i64" | "u64" | "f64" => 8,
                "i32" | "u32" | "f32" => 4,
                "i16" | "u16" => 2,
                "i8" | "u8" | "bool" => 1,
                _ => return Err(misuse(format!("`{name}` of type {ty}"), crate::INVALID_IMAGE)),
            };
            // SAFETY: by the caller.
            let from = unsafe { *params.add(k) };
            if from.is_null() || from as usize % size != 0 {
                return Err(misuse(format!("the argument `{name}` lies at {from:?}"), crate::INVALID_VALUE));
            }
            let mut bits = [0; 8];
            // SAFETY: by the caller.
            bits[..size].copy_from_slice(unsafe { std::slice::from_raw_parts(from, size) });
            Ok(u64::from_le_bytes(bits))
        };
        self.params.iter().enumerate().map(read).collect()
    }
}

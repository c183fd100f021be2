//! Loads, stores and atomics.

use super::expression::{print_pack, print_part};
use super::literal::print_literal;
use super::operand::{Operand, rank};
use super::statement::Statements;
use crate::dtype::{DType, Value};
use crate::id::LocalId;
use crate::kernel_ir::{Access, AtomicOp, Expr, Memory, Source, Target};

/// The type of one element in memory.
pub(super) fn memory_type(dtype: DType) -> &'static str {
    if dtype == DType::Bool { "u8" } else { dtype.name() }
}

/// The vector of CUDA that an access of several elements is made by: its type, the dtype of a part and how many parts.
fn vector_of(access: &Access) -> (&'static str, DType, usize) {
    let of = access.dtype;
    match (of, access.count) {
        (DType::F32, 2) => ("float2", of, 2),
        (DType::F32, _) => ("float4", of, 4),
        (DType::I32, 2) => ("int2", of, 2),
        (DType::I32, _) => ("int4", of, 4),
        (DType::F64, _) => ("double2", of, 2),
        (DType::I64, _) => ("longlong2", of, 2),
        (DType::U64, _) => ("ulonglong2", of, 2),
        // Narrow elements travel in words.
        _ => match access.width() {
            16 => ("uint4", DType::U32, 4),
            8 => ("uint2", DType::U32, 2),
            4 => ("u32", DType::U32, 1),
            _ => ("u16", DType::U16, 1),
        },
    }
}

/// The parts of a vector.
fn members(name: &str, parts: usize) -> Vec<String> {
    match parts {
        1 => vec![name.to_owned()],
        _ => ["x", "y", "z", "w"].iter().take(parts).map(|m| format!("{name}.{m}")).collect(),
    }
}

impl Statements<'_, '_> {
    /// The pointer by which memory is accessed as `of`.
    fn pointer(&self, access: &Access, of: &str) -> String {
        let names = self.expressions.names.borrow();
        let kernel = self.expressions.kernel;
        let (name, read_only) = match access.memory {
            Memory::Global(id) => (names.param(id), super::is_read_only(kernel.param(id))),
            Memory::Shared(id) => (names.view(id), false),
        };
        if kernel.memory_dtype(access.memory).map(memory_type) == Some(of) {
            return name.to_owned();
        }
        format!("reinterpret_cast<{}{of}*>({name})", if read_only { "const " } else { "" })
    }

    /// The first element of an access, as one of memory.
    fn element(&self, access: &Access) -> String {
        let pointer = self.pointer(access, memory_type(access.dtype));
        format!("{pointer}[{}]", self.text(&access.index))
    }

    /// The elements of an access, as one vector.
    fn vector(&self, access: &Access, vector: &str) -> String {
        let kernel = self.expressions.kernel;
        let read_only = match access.memory {
            Memory::Global(id) => super::is_read_only(kernel.param(id)),
            Memory::Shared(_) => false,
        };
        let first = self.element(access);
        format!("*reinterpret_cast<{}{vector}*>(&{first})", if read_only { "const " } else { "" })
    }

    pub(super) fn print_load(&mut self, target: &Target, access: &Access, fill: Value) {
        match target {
            Target::Let(local) => {
                let loaded = read(access.dtype, self.element(access));
                let value = self.guard(access, &loaded, &print_literal(fill).text);
                let line = format!("{} = {value};", self.declare(*local));
                self.line(line);
            }
            Target::Slots(slots) => {
                let targets = self.slots(slots);
                match access.when.as_ref().map(|e| self.text(e)) {
                    None => self.nest("", |s| s.print_vector_load(access, &targets)),
                    Some(when) => {
                        let fill = print_literal(fill).text;
                        self.branch(
                            &when,
                            |s| s.print_vector_load(access, &targets),
                            |s| targets.iter().for_each(|t| s.line(format!("{t} = {fill};"))),
                        );
                    }
                }
            }
        }
    }

    fn print_vector_load(&mut self, access: &Access, targets: &[String]) {
        if let [target] = targets {
            let loaded = read(access.dtype, self.element(access)).text;
            return self.line(format!("{target} = {loaded};"));
        }
        let (vector, part, parts) = vector_of(access);
        let name = self.helper("loaded");
        let line = format!("const {vector} {name} = {};", self.vector(access, vector));
        self.line(line);
        let members = members(&name, parts);
        let in_one = targets.len() / members.len();
        for (k, target) in targets.iter().enumerate() {
            let word = Operand::primary(&members[k / in_one], part);
            let value = if in_one == 1 && part == access.dtype {
                word
            } else {
                print_part(access.dtype, (k % in_one) as u32, &word)
            };
            self.line(format!("{target} = {};", value.text));
        }
    }

    pub(super) fn print_store(&mut self, source: &Source, access: &Access) {
        match &access.when {
            Some(when) => {
                let head = format!("if ({})", self.text(when));
                self.nest(&head, |s| s.print_whole_store(source, access));
            }
            None => self.print_whole_store(source, access),
        }
    }

    fn print_whole_store(&mut self, source: &Source, access: &Access) {
        let values: Vec<Operand> = match source {
            Source::Value(value) => vec![self.expressions.print(value)],
            Source::Slots(slots) => {
                let dtype = access.dtype.compute();
                self.slots(slots).into_iter().map(|s| Operand::primary(s, dtype)).collect()
            }
        };
        if let [value] = values.as_slice() {
            let line = format!("{} = {};", self.element(access), written(access.dtype, value));
            return self.line(line);
        }
        let (vector, part, parts) = vector_of(access);
        let in_one = values.len() / parts;
        let words: Vec<String> = if in_one == 1 && part == access.dtype {
            values.iter().map(|v| v.text.clone()).collect()
        } else {
            values.chunks(in_one).map(|chunk| written_word(access.dtype, chunk)).collect()
        };
        let line = match parts {
            1 => format!("{} = {};", self.vector(access, vector), words.join("")),
            _ => {
                let (part, words) = (memory_type(part), words.join(", "));
                format!("fuse::store_{parts}<{part}>(&{}, {words});", self.element(access))
            }
        };
        self.line(line);
    }

    pub(super) fn print_atomic(&mut self, op: AtomicOp, old: Option<LocalId>, access: &Access, value: &Expr) {
        let name = match op {
            AtomicOp::Add => "Add",
            AtomicOp::Min => "Min",
            AtomicOp::Max => "Max",
            AtomicOp::And => "And",
            AtomicOp::Or => "Or",
            AtomicOp::Xor => "Xor",
            AtomicOp::Exchange => "Exch",
        };
        let dtype = access.dtype;
        // Of 64-bit integers only minima and maxima know a sign.
        let ordered = matches!(op, AtomicOp::Min | AtomicOp::Max);
        let of = if dtype == DType::I64 && !ordered { "u64" } else { dtype.name() };
        let (place, value) = (self.element(access), self.text(value));
        let call = if of == dtype.name() {
            Operand::primary(format!("::atomic{name}(&{place}, {value})"), dtype)
        } else {
            let text = format!("::atomic{name}(reinterpret_cast<{of}*>(&{place}), {of}({value}))");
            Operand::primary(if old.is_some() { format!("{dtype}({text})") } else { text }, dtype)
        };
        let line = match (old, &access.when) {
            (Some(local), _) => {
                let zero = print_literal(Value::zero(dtype)).text;
                format!("{} = {};", self.declare(local), self.guard(access, &call, &zero))
            }
            (None, Some(when)) => format!("if ({}) {};", self.text(when), call.text),
            (None, None) => format!("{};", call.text),
        };
        self.line(line);
    }

    /// `value` where the access is made, `fill` where it is not.
    fn guard(&self, access: &Access, value: &Operand, fill: &str) -> String {
        match &access.when {
            Some(when) => {
                let when = self.expressions.print(when).at_least(rank::LOGIC_OR);
                format!("{when} ? {} : {fill}", value.at_least(rank::LOGIC_OR))
            }
            None => value.text.clone(),
        }
    }
}

/// An element of memory as a value.
fn read(dtype: DType, element: String) -> Operand {
    match dtype {
        DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 => {
            Operand::primary(format!("fuse::{dtype}_to_f32({element})"), DType::F32)
        }
        DType::Bool => Operand::new(format!("{element} != 0"), rank::EQUALITY, dtype),
        _ => Operand::primary(element, dtype),
    }
}

/// A value as an element of memory.
fn written(dtype: DType, value: &Operand) -> String {
    match dtype {
        DType::F16 | DType::Bf16 | DType::F8E4M3 => format!("fuse::f32_to_{dtype}({})", value.text),
        DType::F8E5M2 => format!("fuse::store_f8e5m2({})", value.text),
        DType::Bool => format!("u8({})", value.text),
        _ => value.text.clone(),
    }
}

/// Narrow values as one word of memory.
fn written_word(dtype: DType, values: &[Operand]) -> String {
    let bytes = |values: &[Operand]| {
        let unsigned = |v: &Operand| {
            let text = written(dtype, v);
            Operand::primary(if dtype == DType::I8 { format!("u8({text})") } else { text }, DType::U8)
        };
        values.iter().map(unsigned).collect::<Vec<_>>()
    };
    match (dtype.size(), values.len()) {
        (1, 4) => super::operation::call("fuse::pack_bytes", &bytes(values), DType::U32).text,
        (1, 2) => {
            let bytes = bytes(values);
            format!("u16({} | {} << 8)", bytes[0].text, bytes[1].text)
        }
        _ => print_pack(dtype, values).text,
    }
}

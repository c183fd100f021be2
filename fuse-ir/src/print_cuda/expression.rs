//! Expressions of kernels, and the numbers of the launch.

use super::literal::print_literal;
use super::names::Names;
use super::operand::{Operand, rank};
use super::operation::{Context, print_operation};
use crate::dtype::DType;
use crate::kernel_ir::{Builtin, Expr, Kernel, ParamKind, Size, WARP};
use std::cell::RefCell;

/// What the expressions of a kernel are printed with.
pub(super) struct Expressions<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) names: RefCell<Names>,
    /// Declarations of places of the thread that expressions have asked for.
    places: RefCell<Vec<(Builtin, String)>>,
}

impl<'a> Expressions<'a> {
    pub(super) fn new(kernel: &'a Kernel) -> Self {
        Expressions { kernel, names: RefCell::new(Names::new(kernel)), places: RefCell::default() }
    }

    /// The dtype of a verified expression.
    pub(super) fn dtype(&self, e: &Expr) -> DType {
        e.dtype(self.kernel).unwrap_or(DType::U32)
    }

    /// An expression.
    pub(super) fn print(&self, e: &Expr) -> Operand {
        match e {
            Expr::Const(value) => print_literal(*value),
            Expr::Local(id) => Operand::primary(self.names.borrow().local(*id), self.kernel.local(*id).dtype),
            Expr::Element(id, index) => {
                let index = self.print(index);
                let index = index.constant.map_or(index.text, |n| n.to_string());
                let text = format!("{}[{index}]", self.names.borrow().array(*id));
                Operand::primary(text, self.kernel.array(*id).dtype)
            }
            Expr::Param(id) => Operand::primary(self.names.borrow().param(*id), self.dtype(e)),
            Expr::Builtin(place) => self.print_place(*place),
            Expr::Fact(id) => Operand::primary(self.names.borrow().fact(*id), DType::Bool),
            Expr::Op(op, args) => {
                let args: Vec<Operand> = args.iter().map(|a| self.print(a)).collect();
                print_operation(Context { fast: self.kernel.fast, fault: None }, *op, &args)
            }
            Expr::Pack(dtype, parts) => {
                let parts: Vec<Operand> = parts.iter().map(|p| self.print(p)).collect();
                print_pack(*dtype, &parts)
            }
            Expr::Unpack(dtype, part, word) => print_part(*dtype, *part, &self.print(word)),
        }
    }

    /// The text of an expression.
    pub(super) fn text(&self, e: &Expr) -> String {
        self.print(e).text
    }

    fn print_place(&self, place: Builtin) -> Operand {
        let letter = |d: u8| ["x", "y", "z"].get(usize::from(d)).copied().unwrap_or("x");
        let text = match place {
            Builtin::Thread(d) => format!("threadIdx.{}", letter(d)),
            Builtin::Block(d) => format!("blockIdx.{}", letter(d)),
            Builtin::GridDim(d) => format!("gridDim.{}", letter(d)),
            Builtin::Lane | Builtin::Warp => self.declare_place(place),
        };
        Operand::primary(text, DType::U32)
    }

    fn declare_place(&self, place: Builtin) -> String {
        let mut places = self.places.borrow_mut();
        if let Some((_, name)) = places.iter().find(|(p, _)| *p == place) {
            return name.clone();
        }
        let wish = if place == Builtin::Lane { "lane" } else { "warp" };
        let name = self.names.borrow_mut().helper(wish);
        places.push((place, name.clone()));
        name
    }

    /// What must stand before the body: lane and warp where they are used.
    pub(super) fn print_places(&self) -> Vec<String> {
        let [x, y, z] = self.kernel.geometry.block;
        let linear = match (y, z) {
            (1, 1) => "threadIdx.x".to_owned(),
            (_, 1) => format!("(threadIdx.x + {x}u * threadIdx.y)"),
            (_, _) => format!("(threadIdx.x + {x}u * (threadIdx.y + {y}u * threadIdx.z))"),
        };
        let mut lines = Vec::new();
        for (place, name) in self.places.borrow().iter() {
            lines.push(match place {
                Builtin::Lane if x % WARP == 0 => format!("const u32 {name} = threadIdx.x % {WARP}u;"),
                Builtin::Lane => format!("const u32 {name} = {linear} % {WARP}u;"),
                _ => format!("const u32 {name} = {linear} / {WARP}u;"),
            });
        }
        lines
    }

    /// A size as a u64.
    pub(super) fn print_size(&self, size: &Size) -> Operand {
        let infix = |sign: &str, of: u8, a: &Size, b: &Size| {
            let (a, b) = (self.print_size(a), self.print_size(b));
            Operand::new(Operand::infix(sign, of, a.ranked(), b.ranked()), of, DType::U64)
        };
        let two = |name: &str, a: &Size, b: &Size| {
            super::operation::call(name, &[self.print_size(a), self.print_size(b)], DType::U64)
        };
        match size {
            Size::Const(n) => Operand::primary(format!("{n}ull"), DType::U64),
            Size::Param(id) => {
                let names = self.names.borrow();
                let name = names.param(*id);
                match self.kernel.param(*id).kind {
                    ParamKind::Scalar { dtype, .. } if dtype.is_signed_int() => {
                        Operand::primary(format!("u64({name} < 0 ? 0 : {name})"), DType::U64)
                    }
                    ParamKind::Scalar { .. } | ParamKind::Pointer { .. } => {
                        Operand::primary(format!("u64({name})"), DType::U64)
                    }
                }
            }
            Size::Add(a, b) => infix("+", rank::SUM, a, b),
            Size::Mul(a, b) => infix("*", rank::PRODUCT, a, b),
            Size::Sub(a, b) => two("fuse::size_sub", a, b),
            Size::Div(a, b) => two("fuse::div_unsigned<u64>", a, b),
            Size::CeilDiv(a, b) => two("fuse::size_ceil_div", a, b),
            Size::Min(a, b) => two("fuse::min_integer<u64>", a, b),
            Size::Max(a, b) => two("fuse::max_integer<u64>", a, b),
        }
    }
}

/// Values of a narrow dtype in one u32, the first lowest.
pub(super) fn print_pack(dtype: DType, parts: &[Operand]) -> Operand {
    let call = |name: &str, parts: &[Operand]| super::operation::call(name, parts, DType::U32);
    let bytes = |convert: &str| {
        let parts: Vec<Operand> =
            parts.iter().map(|p| Operand::primary(format!("{convert}({})", p.text), DType::U8)).collect();
        call("fuse::pack_bytes", &parts)
    };
    match dtype {
        DType::F16 | DType::Bf16 => call(&format!("fuse::pack_{dtype}"), parts),
        DType::F8E4M3 | DType::F8E5M2 => bytes(&format!("fuse::f32_to_{dtype}")),
        DType::I8 | DType::U8 | DType::Bool => bytes("u8"),
        _ => {
            let [low, high] = [0, 1].map(|k| parts.get(k).map_or("", |p| p.text.as_str()));
            Operand::new(format!("u32(u16({low})) | u32(u16({high})) << 16"), rank::BIT_OR, DType::U32)
        }
    }
}

/// Part `part` of a word of narrow values, widened.
pub(super) fn print_part(dtype: DType, part: u32, word: &Operand) -> Operand {
    let shift = part * dtype.size() as u32 * 8;
    let bits = match shift {
        0 => word.text.clone(),
        _ => format!("{} >> {shift}", word.at_least(rank::UNARY)),
    };
    widen(dtype, &bits)
}

/// The value of a narrow dtype whose bits are the low ones of `bits`.
pub(super) fn widen(dtype: DType, bits: &str) -> Operand {
    let memory = super::operation::memory_bits(dtype.size());
    let text = match dtype {
        DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 => {
            format!("fuse::{dtype}_to_f32({memory}({bits}))")
        }
        DType::Bool => {
            return Operand::new(format!("u8({bits}) != 0"), rank::EQUALITY, DType::Bool);
        }
        _ => format!("{dtype}({bits})"),
    };
    Operand::primary(text, dtype.compute())
}

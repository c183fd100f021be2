//! Type inference: unification over scalars and tuples, with rustc's literals.

use super::ScalarType;
use super::method::Class;
use fuse_ir::dtype::DType;

/// A type that may not be known yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TypeId(u32);

#[derive(Clone, Debug)]
enum Slot {
    /// The same as another.
    Link(TypeId),
    /// Nothing is known.
    Unknown,
    /// An integer, as yet of no width.
    Integer,
    /// A float, as yet of no width.
    Float,
    /// A scalar.
    Known(DType),
    /// A tuple.
    Tuple(Vec<TypeId>),
    /// The type of what has an error; fits everywhere.
    Poisoned,
}

/// The types of one function body.
#[derive(Debug, Default)]
pub(super) struct TypeTable {
    slots: Vec<Slot>,
}

impl TypeTable {
    fn push(&mut self, slot: Slot) -> TypeId {
        self.slots.push(slot);
        TypeId(self.slots.len() as u32 - 1)
    }

    /// A type of which nothing is known.
    pub(super) fn unknown(&mut self) -> TypeId {
        self.push(Slot::Unknown)
    }

    /// The type of an integer literal.
    pub(super) fn integer(&mut self) -> TypeId {
        self.push(Slot::Integer)
    }

    /// The type of a float literal.
    pub(super) fn float(&mut self) -> TypeId {
        self.push(Slot::Float)
    }

    /// A scalar type.
    pub(super) fn scalar(&mut self, dtype: DType) -> TypeId {
        self.push(Slot::Known(dtype))
    }

    /// A tuple type.
    pub(super) fn tuple(&mut self, elements: Vec<TypeId>) -> TypeId {
        self.push(Slot::Tuple(elements))
    }

    /// `()`.
    pub(super) fn unit(&mut self) -> TypeId {
        self.tuple(Vec::new())
    }

    /// The type of what has an error.
    pub(super) fn poisoned(&mut self) -> TypeId {
        self.push(Slot::Poisoned)
    }

    /// A declared type.
    pub(super) fn declared(&mut self, ty: &ScalarType) -> TypeId {
        match ty {
            ScalarType::Scalar(dtype) => self.scalar(*dtype),
            ScalarType::Tuple(elements) => {
                let elements = elements.iter().map(|element| self.declared(element)).collect();
                self.tuple(elements)
            }
        }
    }

    fn root(&self, mut ty: TypeId) -> TypeId {
        while let Slot::Link(next) = self.slots[ty.0 as usize] {
            ty = next;
        }
        ty
    }

    fn slot(&self, ty: TypeId) -> &Slot {
        &self.slots[self.root(ty).0 as usize]
    }

    /// Makes two types one. Gives whether they can be.
    pub(super) fn unify(&mut self, a: TypeId, b: TypeId) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return true;
        }
        let link = |table: &mut TypeTable, from: TypeId, to: TypeId| {
            table.slots[from.0 as usize] = Slot::Link(to);
            true
        };
        match (self.slot(a).clone(), self.slot(b).clone()) {
            (Slot::Unknown, _) => link(self, a, b),
            (_, Slot::Unknown) => link(self, b, a),
            (Slot::Poisoned, _) | (_, Slot::Poisoned) => true,
            (Slot::Integer, Slot::Integer) | (Slot::Float, Slot::Float) => link(self, a, b),
            (Slot::Integer, Slot::Known(dtype)) => dtype.is_int() && link(self, a, b),
            (Slot::Known(dtype), Slot::Integer) => dtype.is_int() && link(self, b, a),
            (Slot::Float, Slot::Known(dtype)) => dtype.is_float() && link(self, a, b),
            (Slot::Known(dtype), Slot::Float) => dtype.is_float() && link(self, b, a),
            (Slot::Known(x), Slot::Known(y)) => x == y,
            (Slot::Tuple(xs), Slot::Tuple(ys)) => {
                xs.len() == ys.len() && xs.iter().zip(&ys).all(|(&x, &y)| self.unify(x, y))
            }
            (Slot::Tuple(_), Slot::Integer | Slot::Float | Slot::Known(_))
            | (Slot::Integer | Slot::Float | Slot::Known(_), Slot::Tuple(_))
            | (Slot::Integer, Slot::Float)
            | (Slot::Float, Slot::Integer)
            | (Slot::Link(_), _)
            | (_, Slot::Link(_)) => false,
        }
    }

    /// The elements, if it is known to be a tuple.
    pub(super) fn elements(&self, ty: TypeId) -> Option<&[TypeId]> {
        if let Slot::Tuple(elements) = self.slot(ty) { Some(elements) } else { None }
    }

    /// Whether an error made it.
    pub(super) fn is_poisoned(&self, ty: TypeId) -> bool {
        matches!(self.slot(ty), Slot::Poisoned)
    }

    /// Whether it is known to be this scalar.
    pub(super) fn is_known(&self, ty: TypeId, dtype: DType) -> bool {
        matches!(self.slot(ty), Slot::Known(known) if *known == dtype)
    }

    /// Whether it is a literal's, of whatever width.
    pub(super) fn is_open_literal(&self, ty: TypeId) -> bool {
        matches!(self.slot(ty), Slot::Integer | Slot::Float)
    }

    /// Whether no scalar of a class can have this type.
    pub(super) fn excludes(&self, ty: TypeId, class: Class) -> bool {
        match self.slot(ty) {
            Slot::Poisoned | Slot::Unknown | Slot::Link(_) => false,
            Slot::Integer => class == Class::Float,
            Slot::Float => !class.contains(DType::F32),
            Slot::Known(dtype) => !class.contains(*dtype),
            Slot::Tuple(_) => true,
        }
    }

    /// How a message names it.
    pub(super) fn describe(&self, ty: TypeId) -> String {
        match self.slot(ty) {
            Slot::Link(_) | Slot::Unknown | Slot::Poisoned => "_".into(),
            Slot::Integer => "{integer}".into(),
            Slot::Float => "{float}".into(),
            Slot::Known(dtype) => dtype.to_string(),
            Slot::Tuple(elements) => {
                let names: Vec<String> = elements.iter().map(|&element| self.describe(element)).collect();
                format!("({}{})", names.join(", "), if names.len() == 1 { "," } else { "" })
            }
        }
    }

    /// The type in the end: as rustc, i32 and f64 where nothing decides.
    pub(super) fn resolve(&self, ty: TypeId) -> ScalarType {
        match self.slot(ty) {
            Slot::Known(dtype) => ScalarType::Scalar(*dtype),
            Slot::Float => ScalarType::Scalar(DType::F64),
            // rustc asks for an annotation where nothing at all is known; what is poisoned is never generated.
            Slot::Integer | Slot::Unknown | Slot::Poisoned | Slot::Link(_) => ScalarType::Scalar(DType::I32),
            Slot::Tuple(elements) => {
                ScalarType::Tuple(elements.iter().map(|&element| self.resolve(element)).collect())
            }
        }
    }

    /// The dtype in the end, if it is a scalar.
    pub(super) fn resolve_scalar(&self, ty: TypeId) -> Option<DType> {
        if let ScalarType::Scalar(dtype) = self.resolve(ty) { Some(dtype) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_adopt_and_fall_back() {
        let mut types = TypeTable::default();
        let (integer, float, f32) = (types.integer(), types.float(), types.scalar(DType::F32));
        assert_eq!(types.resolve_scalar(integer), Some(DType::I32));
        assert_eq!(types.resolve_scalar(float), Some(DType::F64));
        assert!(types.unify(float, f32));
        assert_eq!(types.resolve_scalar(float), Some(DType::F32));
        assert!(!types.unify(integer, f32));
    }

    #[test]
    fn what_is_unified_early_learns_late() {
        let mut types = TypeTable::default();
        let (a, b, c) = (types.unknown(), types.float(), types.scalar(DType::F32));
        assert!(types.unify(a, b) && types.unify(b, c));
        assert_eq!(types.describe(a), "f32");
    }

    #[test]
    fn tuples_unify_by_element() {
        let mut types = TypeTable::default();
        let (x, y) = (types.unknown(), types.integer());
        let pattern = types.tuple(vec![x, y]);
        let pair = types.declared(&ScalarType::Tuple(vec![
            ScalarType::Scalar(DType::Bool),
            ScalarType::Scalar(DType::U8),
        ]));
        assert!(types.unify(pattern, pair));
        assert_eq!((types.describe(x), types.describe(y)), ("bool".into(), "u8".into()));
        let single = types.tuple(vec![x]);
        assert!(!types.unify(single, pair));
        assert_eq!(types.describe(single), "(bool,)");
    }
}

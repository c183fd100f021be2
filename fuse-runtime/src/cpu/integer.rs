//! Integer operations of generated code that are total: division by zero gives zero (the fault is recorded beside it).

/// The integers that kernels compute in.
pub trait Integer: Copy + PartialEq {
    /// `a / b`, wrapping; 0 if `b` is.
    fn div(self, b: Self) -> Self;
    /// `a % b`, wrapping; 0 if `b` is.
    fn rem(self, b: Self) -> Self;
    /// `a.div_euclid(b)`, wrapping; 0 if `b` is.
    fn div_euclid(self, b: Self) -> Self;
    /// `a.rem_euclid(b)`, wrapping; 0 if `b` is.
    fn rem_euclid(self, b: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Integer for $t {
            #[inline(always)]
            fn div(self, b: Self) -> Self {
                if b == 0 { 0 } else { self.wrapping_div(b) }
            }
            #[inline(always)]
            fn rem(self, b: Self) -> Self {
                if b == 0 { 0 } else { self.wrapping_rem(b) }
            }
            #[inline(always)]
            fn div_euclid(self, b: Self) -> Self {
                if b == 0 { 0 } else { self.wrapping_div_euclid(b) }
            }
            #[inline(always)]
            fn rem_euclid(self, b: Self) -> Self {
                if b == 0 { 0 } else { self.wrapping_rem_euclid(b) }
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// `a / b`, wrapping; 0 if `b` is.
#[inline(always)]
pub fn div<T: Integer>(a: T, b: T) -> T {
    a.div(b)
}

/// `a % b`, wrapping; 0 if `b` is.
#[inline(always)]
pub fn rem<T: Integer>(a: T, b: T) -> T {
    a.rem(b)
}

/// `a.div_euclid(b)`, wrapping; 0 if `b` is.
#[inline(always)]
pub fn div_euclid<T: Integer>(a: T, b: T) -> T {
    a.div_euclid(b)
}

/// `a.rem_euclid(b)`, wrapping; 0 if `b` is.
#[inline(always)]
pub fn rem_euclid<T: Integer>(a: T, b: T) -> T {
    a.rem_euclid(b)
}

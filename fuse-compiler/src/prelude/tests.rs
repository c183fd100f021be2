//! Tests of the prelude.

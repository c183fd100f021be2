//! What the programs that run published networks share: their frame, a bar, reading weights, rates.

pub mod program;
pub mod progress;
pub mod rates;
pub mod weights;

// SPDX-License-Identifier: Apache-2.0
// Rust's names for the symbolizer's tests: two implementations of one trait must stay two functions.
use std::fmt;

struct Metre(u32);
struct Second(u32);

impl fmt::Display for Metre {
    #[inline(never)]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} m", self.0)
    }
}

impl fmt::Display for Second {
    #[inline(never)]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}

fn main() {
    println!("{} {}", Metre(3), Second(4));
}

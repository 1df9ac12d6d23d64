// SPDX-License-Identifier: Apache-2.0
//
// A Rust program whose allocations go to a jemalloc of its own, under the names that the crate
// tikv-jemallocator gives it (_rjem_...); malloc stays the C library's. It knows nothing of heapctl:
//
//	heapctl run ./rust_server
//	heapctl record rust_server --duration 30s -o rust.heap
//
// `heapctl run` finds out which variable this jemalloc reads for its options: that of the crate reads
// _RJEM_MALLOC_CONF, the one that is built here MALLOC_CONF. With the crate this is `#[global_allocator] static GLOBAL: tikv_jemallocator::Jemalloc = ...`.
// It reads lines, keeps each 1000 times, and prints how many strings it has.
use std::alloc::{GlobalAlloc, Layout};
use std::io::{self, BufRead};

extern "C" {
    fn _rjem_mallocx(size: usize, flags: i32) -> *mut u8;
    fn _rjem_rallocx(block: *mut u8, size: usize, flags: i32) -> *mut u8;
    fn _rjem_sdallocx(block: *mut u8, size: usize, flags: i32);
}

struct Jemalloc;

fn alignment(layout: &Layout) -> i32 {
    layout.align().trailing_zeros() as i32
}

unsafe impl GlobalAlloc for Jemalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        _rjem_mallocx(layout.size(), alignment(&layout))
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        _rjem_sdallocx(block, layout.size(), alignment(&layout))
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        _rjem_rallocx(block, size, alignment(&layout))
    }
}

#[global_allocator]
static GLOBAL: Jemalloc = Jemalloc;

#[inline(never)]
fn keep_many(kept: &mut Vec<String>, line: &str) {
    for i in 0..1000 {
        kept.push(format!("{line} {i}"));
    }
}

fn main() {
    let mut kept = Vec::new();

    for line in io::stdin().lock().lines() {
        keep_many(&mut kept, &line.expect("a line of text"));
        println!("{}", kept.len());
    }
}

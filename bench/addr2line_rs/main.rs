// SPDX-License-Identifier: Apache-2.0
//! Frames of addresses by Rust's crate addr2line, as binutils' `addr2line -f -i -C` prints them; for bench_symbol.py.
//!
//! usage: addr2line_rs FILE, with hexadecimal addresses on standard input.
//!
//! Sections are used where they are mapped, and unpacked once when they are compressed.
use std::borrow::Cow;
use std::error::Error;
use std::io::{stdin, stdout, BufRead, BufWriter, Write};

use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use addr2line::object::{File, Object, ObjectSection};
use addr2line::Context;

type Contents = EndianSlice<'static, LittleEndian>;

fn load(file: &File<'static>, id: SectionId) -> Result<Contents, addr2line::object::Error> {
    let contents: &'static [u8] = match file.section_by_name(id.name()) {
        None => &[],
        Some(section) => match section.uncompressed_data()? {
            Cow::Borrowed(bytes) => bytes,
            Cow::Owned(bytes) => Box::leak(bytes.into_boxed_slice()),
        },
    };
    Ok(EndianSlice::new(contents, LittleEndian))
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: addr2line_rs FILE")?;
    let mapped = unsafe { memmap2::Mmap::map(&std::fs::File::open(path)?)? };
    let bytes: &'static [u8] = Box::leak(Box::new(mapped));
    let file = File::parse(bytes)?;
    let dwarf = Dwarf::load(|id| load(&file, id))?;
    let context = Context::from_dwarf(dwarf)?;
    let symbols = file.symbol_map();
    let mut out = BufWriter::new(stdout().lock());
    for line in stdin().lock().lines() {
        let address = u64::from_str_radix(line?.trim_start_matches("0x"), 16)?;
        let mut frames = context.find_frames(address)?;
        let mut is_known = false;
        while let Some(frame) = frames.next()? {
            is_known = true;
            match frame.function {
                Some(function) => writeln!(out, "{}", function.demangle()?)?,
                None => match symbols.get(address) {
                    Some(symbol) => writeln!(out, "{}", addr2line::demangle_auto(symbol.name().into(), None))?,
                    None => writeln!(out, "??")?,
                },
            }
            match frame.location {
                Some(place) => writeln!(out, "{}:{}", place.file.unwrap_or("??"), place.line.unwrap_or(0))?,
                None => writeln!(out, "??:0")?,
            }
        }
        if !is_known {
            match symbols.get(address) {
                Some(symbol) => writeln!(out, "{}\n??:0", addr2line::demangle_auto(symbol.name().into(), None))?,
                None => writeln!(out, "??\n??:0")?,
            }
        }
    }
    Ok(())
}

//! What a page calls: numbers and bytes in the module's memory.

use std::cell::RefCell;

use cagey_serve::Model;

thread_local! {
    static MODEL: RefCell<Option<Model>> = const { RefCell::new(None) };
}

/// Room for so many bytes, at a place for numbers; it is never given back.
#[unsafe(no_mangle)]
pub extern "C" fn room(bytes: usize) -> *mut u64 {
    vec![0u64; bytes.div_ceil(8)].leak().as_mut_ptr()
}

/// Reads the file in memory. The result is the number of inputs, or 0 if it cannot be served.
///
/// # Safety
/// There are `length` bytes at `file`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn load(file: *const u8, length: usize) -> usize {
    // SAFETY: the caller's promise.
    let model = Model::from_bytes(unsafe { std::slice::from_raw_parts(file, length) }).ok();
    let inputs = model.as_ref().map_or(0, |model| model.inputs().len());
    MODEL.with(|own| *own.borrow_mut() = model);
    inputs
}

/// The quantile of the target at a row, or NaN.
///
/// # Safety
/// There are `count` numbers at `row`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quantile(row: *const f64, count: usize, p: f64) -> f64 {
    // SAFETY: the caller's promise.
    let row = unsafe { std::slice::from_raw_parts(row, count) };
    MODEL.with(|model| match model.borrow().as_ref().map(|model| model.predict(row)) {
        Some(Ok(found)) if found.len() == 1 => found[0].quantile(p),
        _ => f64::NAN,
    })
}

//! Key switching against integers and against itself, in one program: each program of tests takes seconds to
//! link.
mod products;
mod stationary;

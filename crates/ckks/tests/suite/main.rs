//! The CKKS layer on toy rings, against plain complex arithmetic.
mod arithmetic;
mod bootstrap;
mod chain;
mod leveled;
mod matmul;
mod products;
mod refresh;
mod shallow;
mod sparse;
mod toy;
mod wiped;

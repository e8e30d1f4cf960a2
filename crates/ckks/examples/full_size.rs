//! One full-size bootstrap with timings by stage: `cargo run --release -p tacita-ckks --example full_size`.
#[path = "../tests/suite/toy.rs"]
mod toy;
use std::time::Instant;
use tacita_ckks::bootstrap::{Bootstrapper, Content};
use toy::{average, values, worst, Toy};

fn timed<T>(name: &str, f: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let out = f();
    println!("{name:24} {:8.3} s", start.elapsed().as_secs_f64());
    out
}

fn best_ms(runs: usize, mut f: impl FnMut()) -> f64 {
    (0..runs)
        .map(|_| {
            let s = Instant::now();
            f();
            s.elapsed().as_secs_f64() * 1e3
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_else(|| "n16".into());
    let y = tacita_ring::yardstick::yardstick_ms(16, 20);
    let t = timed("keys", || Toy::new(&name, &[1], true));
    let e = &t.evaluator;
    let p = e.params();
    println!("{p:?}");
    println!("keys {:.2} GB", e.keys().bytes(p) as f64 / 1e9);
    let x = values(p.slots(), 1, true);
    let a = t.encrypt(&x, 11);
    let table = p.rlwe().table(3);
    let mut limb = a.polys[0].limbs[3].clone();
    let ntt = best_ms(50, || table.forward(&mut limb));
    println!("Y {y:.3} ms, ntt {ntt:.3} ms = {:.3} Y", ntt / y);
    let rot = best_ms(8, || drop(e.rotate(&a, 1).unwrap()));
    let mul = best_ms(8, || drop(e.mul(&a, &a).unwrap()));
    let res = best_ms(8, || drop(e.rescale(a.clone()).unwrap()));
    println!(
        "12 limbs: rotate {rot:.1} ms = {:.1} Y, mul {mul:.1} ms = {:.1} Y, rescale {res:.1}",
        rot / y,
        mul / y
    );
    let b = timed("encode matrices", || Bootstrapper::new(e).unwrap());
    println!("matrices {:.2} GB", b.bytes() as f64 / 1e9);
    let low = t.encrypt(&x, p.bottom_level());
    for content in [Content::Complex, Content::Complex, Content::Real] {
        println!("{content:?}");
        let start = Instant::now();
        let c = timed("slots to coefficients", || {
            b.slots_to_coefficients(e, &low).unwrap()
        });
        let c = timed("mod raise", || b.mod_raise(e, &c).unwrap());
        let c = timed("coefficients to slots", || b.coefficients_to_slots(e, c).unwrap());
        let c = timed("modular reduction", || {
            b.modular_reduction(e, &c, content).unwrap().remove(0)
        });
        let total = start.elapsed().as_secs_f64();
        println!("total {total:.3} s = {:.0} Y", total * 1e3 / y);
        if content == Content::Complex {
            let got = t.decrypt(&c);
            println!(
                "bits average {:.2} worst {:.2}",
                -average(&got, &x).log2(),
                -worst(&got, &x).log2()
            );
        }
    }
}

//! The longest sums of the device, at their largest terms, give the residues of `tacita-ring`.

use std::io::Write;
use std::sync::Arc;
use tacita_opencl::{devices, Basis, Build, Device, Flavour, Limbs, OpenClError, Ring, Room};
use tacita_ring::gemm::{self, Input, Weights};
use tacita_ring::{kernels, ntt_primes, Modulus};

const LOG_N: u32 = 4;
/// Terms, far more than a sum takes before it is reduced in either flavour.
const TERMS: usize = 3000;

struct OnDevice {
    ring: Ring,
    basis: Arc<Basis>,
    moduli: Vec<Modulus>,
}

/// In each flavour of each device, modulo the largest prime, one of 36 bits and one of 22; nothing but a line
/// where there is no device.
fn rings() -> Vec<OnDevice> {
    let devices = match devices() {
        Ok(devices) => devices,
        Err(error @ (OpenClError::NoLibrary | OpenClError::NoDevice)) => {
            let line = format!("skipped: no OpenCL device ({error})\n");
            std::io::stderr().write_all(line.as_bytes()).expect("stderr");
            Vec::new()
        }
        Err(error) => panic!("{error}"),
    };
    let flavours = |device: Device| {
        let flavours = device.flavours().iter();
        flavours.map(move |&flavour| on_device(&device, flavour, 24))
    };
    devices.into_iter().flat_map(flavours).collect()
}

fn on_device(device: &Device, flavour: Flavour, slots: u32) -> OnDevice {
    let prime = |bits| ntt_primes(bits, LOG_N + 1, 1, &[]).expect("such primes exist")[0];
    let moduli = [50.0, 36.0, 22.0].map(|bits| Modulus::new(prime(bits)).expect("a prime"));
    let ring = Ring::new(device, Build::new(flavour), LOG_N, &moduli, slots).expect("a small ring");
    OnDevice {
        basis: ring.basis(&[0, 1, 2]).expect("three primes"),
        ring,
        moduli: Vec::from(moduli),
    }
}

impl OnDevice {
    fn limbs(&self, value: impl Fn(&Modulus) -> u64) -> Vec<Vec<f64>> {
        let limb = |m| vec![value(m) as f64; self.ring.n()];
        self.moduli.iter().map(limb).collect()
    }

    fn upload(&self, limbs: &[Vec<f64>]) -> Limbs {
        let slices: Vec<&[f64]> = limbs.iter().map(|limb| &limb[..]).collect();
        self.ring.upload(&self.basis, &slices).expect("room")
    }

    fn download(&self, limbs: &Limbs) -> Vec<Vec<f64>> {
        self.ring.download(limbs).expect("limbs of this ring")
    }
}

#[test]
fn thousands_of_products_of_the_largest_residues() {
    for at in rings() {
        let values = at.limbs(|m| m.p() - 1);
        let slices: Vec<&[f64]> = values.iter().map(|limb| &limb[..]).collect();
        let plaintexts = at.ring.plaintexts(&at.basis, &[slices]).expect("room");
        let (a, mut x) = (at.upload(&values), at.upload(&values));
        at.ring
            .add_products_assign(&mut x, &[(&a, 0); TERMS], &plaintexts)
            .expect("limbs of one basis");
        let mut expected = values.clone();
        for (m, (x, a)) in at.moduli.iter().zip(expected.iter_mut().zip(&values)) {
            kernels::mac_runs(m, x, &[(&a[..], &a[..]); TERMS]);
        }
        assert_eq!(at.download(&x), expected);
    }
}

#[test]
fn thousands_of_tensor_products_of_the_largest_residues() {
    for at in rings() {
        let values = at.limbs(|m| m.p() - 1);
        let a = at.upload(&values);
        let sums = at.ring.sum_tensors(&at.basis, &[[&a; 4]; TERMS]).expect("room");
        // (p - 1)^2 = 1
        let terms = TERMS as u64;
        for (sum, times) in sums.iter().zip([1, 2, 1]) {
            assert_eq!(at.download(sum), at.limbs(|m| times * terms % m.p()));
        }
    }
}

/// Residues at the ends of what is centred, rows that sum to all that is exact.
#[test]
fn a_matrix_with_the_largest_rows() {
    for at in rings() {
        let ends = [at.limbs(|m| m.p() / 2), at.limbs(|m| m.p() / 2 + 1)];
        let on_device = ends.each_ref().map(|limbs| at.upload(limbs));
        let entry = |row: usize, k: usize| [1e6, -1e6, if k == 0 { 1e9 } else { 0.0 }][row];
        let entries = (0..3).flat_map(|row| (0..TERMS).map(move |k| entry(row, k)));
        let entries: Vec<f64> = entries.collect();
        let weights = Weights::round(&entries, TERMS, 48f64.exp2()).expect("a matrix");
        let matrix = at
            .ring
            .matrix(&at.basis, &weights, 0..weights.depth())
            .expect("room");
        for (input, host) in on_device.iter().zip(&ends) {
            let outs = at.ring.multiply_matrix(&matrix, &[input; TERMS]).expect("room");
            let mut expected = vec![at.limbs(|_| 0); 3];
            for (limb, m) in at.moduli.iter().enumerate() {
                let mut rows: Vec<&mut [f64]> = expected.iter_mut().map(|out| &mut out[limb][..]).collect();
                let input = Input {
                    limb: &host[limb],
                    runs: &[],
                };
                gemm::product(m, &weights, &[input; TERMS], 0, &mut rows);
            }
            for (out, expected) in outs.iter().zip(expected) {
                assert_eq!(at.download(out), expected);
            }
        }
    }
}

#[test]
fn operands_that_do_not_fit_are_errors() {
    for at in rings() {
        let OnDevice { ring, basis, .. } = &at;
        let values = at.limbs(|_| 1);
        let slices: Vec<&[f64]> = values.iter().map(|limb| &limb[..]).collect();
        let a = at.upload(&values);
        let first = ring.basis(&[0]).expect("one prime");
        let low = ring.copy(&a, 0, &first).expect("room");
        let uneven = vec![&values[0][..3]; 3];
        assert!(ring.plaintexts(basis, &[uneven]).is_err(), "3 of 16 values");
        assert!(
            ring.plaintexts(basis, &[]).is_err()
                && ring.plaintexts(&first, std::slice::from_ref(&slices)).is_err()
        );
        let plaintexts = ring.plaintexts(basis, &[slices]).expect("room");
        assert!(ring.sum_products(basis, &[], &plaintexts).is_err());
        assert!(
            ring.sum_products(basis, &[(&a, 1)], &plaintexts).is_err(),
            "plaintext 1 of 1"
        );
        assert!(
            ring.sum_products(basis, &[(&low, 0)], &plaintexts).is_err(),
            "an operand at a lower level"
        );
        assert!(
            ring.sum_products(&first, &[(&a, 0)], &plaintexts).is_err(),
            "plaintexts at another level"
        );
        assert!(ring.sum_tensors(basis, &[]).is_err() && ring.sum_tensors(basis, &[[&low; 4]]).is_err());
        let higher = ring
            .sum_tensors(&first, &[[&a; 4]])
            .expect("operands at a higher level");
        assert_eq!(at.download(&higher[1]), [vec![2.0; 16]]);
        let weights = Weights::round(&[1.0, 2.0], 2, 1.0).expect("a row");
        let matrix = ring.matrix(basis, &weights, 0..weights.depth()).expect("room");
        assert!(
            ring.multiply_matrix(&matrix, &[&a]).is_err(),
            "one input for two columns"
        );
        assert!(ring.multiply_matrix(&matrix, &[&a, &low]).is_err());
    }
}

/// Before the compiler is asked: this text has no kernels.
#[test]
fn a_ring_that_a_device_has_no_room_for_is_refused() {
    let Ok(devices) = devices() else { return };
    for mut device in devices {
        let build = Build {
            source: "nonsense".to_owned(),
            ..Build::new(Flavour::U64)
        };
        (device.buffer, device.memory) = (1 << 20, 2 << 20);
        let moduli = ntt_primes(50.0, 13, 12, &[]).expect("such primes exist");
        let moduli = moduli.into_iter().map(|p| Modulus::new(p).expect("a prime"));
        let moduli: Vec<Modulus> = moduli.collect();
        for (primes, slots, what, of) in [
            (1, 33, "the slots of a ring", "largest buffer"),
            (12, 32, "a ring", "memory"),
        ] {
            let error = Ring::new(&device, build.clone(), 12, &moduli[..primes], slots).err();
            let room = Room::of(12, primes, slots);
            let (wanted, has) = match of {
                "memory" => (room.total, device.memory),
                _ => (room.slots, device.buffer),
            };
            let expected = OpenClError::Room {
                what,
                wanted,
                has,
                of,
            };
            assert_eq!(error, Some(expected));
        }
        let fits = Ring::new(&device, build, 12, &moduli[..1], 32).err();
        assert!(matches!(fits, Some(OpenClError::Build { .. })), "{fits:?}");
    }
}

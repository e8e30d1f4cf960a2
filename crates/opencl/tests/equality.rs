//! Every kernel on every OpenCL device of this machine gives the residues of `tacita-ring`.

use std::io::Write;
use tacita_opencl::{devices, verify_build, Build, Device, Flavour, OpenClError, Ring};
use tacita_ring::{ntt_primes, Modulus};

/// The devices, or none with a line that says so, which the test harness does not capture.
fn devices_or_skip() -> Vec<Device> {
    match devices() {
        Ok(devices) => devices,
        Err(error @ (OpenClError::NoLibrary | OpenClError::NoDevice)) => {
            let line = format!("skipped: no OpenCL device ({error})\n");
            std::io::stderr().write_all(line.as_bytes()).expect("stderr");
            Vec::new()
        }
        Err(error) => panic!("{error}"),
    }
}

fn assert_equal(device: &Device, build: &Build, log_ns: &[u32]) {
    for check in verify_build(device, build, log_ns).expect("the device runs") {
        let name = &device.name;
        assert!(
            check.residues > 0 && check.differ == 0,
            "{name}, radix 2^{}: {check:?}",
            build.log_radix
        );
    }
}

#[test]
fn every_kernel_gives_the_residues_of_the_processor() {
    for device in devices_or_skip() {
        for &flavour in device.flavours() {
            assert_equal(&device, &Build::new(flavour), &[10, 16]);
        }
    }
}

/// Sides of one pass, of two and of three, of odd and of even length, the smallest too.
#[test]
fn kernels_do_not_depend_on_the_shape_of_the_transform() {
    let (doubles, integers) = (Flavour::F64, Flavour::U64);
    for device in devices_or_skip() {
        for (flavour, log_radix, log_n) in [
            (integers, 2, 2),
            (doubles, 2, 11),
            (doubles, 3, 5),
            (integers, 3, 13),
        ] {
            if device.flavours().contains(&flavour) {
                let build = Build {
                    log_radix,
                    ..Build::new(flavour)
                };
                assert_equal(&device, &build, &[log_n]);
            }
        }
    }
}

fn moduli(log_n: u32, count: usize) -> Vec<Modulus> {
    let primes = ntt_primes(50.0, log_n + 1, count, &[]).expect("such primes exist");
    primes
        .into_iter()
        .map(|p| Modulus::new(p).expect("it is one"))
        .collect()
}

#[test]
fn misuse_is_an_error() {
    for device in devices_or_skip() {
        let ring = |slots| Ring::new(&device, Build::new(Flavour::U64), 4, &moduli(4, 3), slots);
        let too_many = u32::MAX;
        assert!(matches!(ring(too_many), Err(OpenClError::Room { .. })));
        let (ring, other) = (ring(4).expect("a ring"), ring(4).expect("another"));
        assert!(ring.basis(&[3]).is_err() && ring.basis(&[]).is_err());
        let basis = ring.basis(&[0, 1]).expect("two primes");
        let limb = vec![1.0; 16];
        assert!(ring.upload(&basis, &[&limb]).is_err() && ring.upload(&basis, &[&limb, &limb[1..]]).is_err());
        let mut x = ring.upload(&basis, &[&limb, &limb]).expect("room for two");
        let y = ring
            .copy(&x, 1, &ring.basis(&[1]).expect("one prime"))
            .expect("room for one");
        assert!(ring.add(&x, &y).is_err(), "limbs of other primes");
        assert!(ring.permute(&x, 4).is_err(), "an even Galois element");
        assert!(ring.copy(&x, 0, y.basis()).is_err() && ring.copy(&x, 2, y.basis()).is_err());
        assert!(
            other.forward(&mut x).is_err() && other.download(&x).is_err(),
            "limbs of another ring"
        );
        assert!(ring.factors(&basis, &[1]).is_err() && ring.key(&basis, 1, &[&[]]).is_err());
        let full = OpenClError::Memory {
            wanted: 2 * 16 * 8,
            free: 16 * 8,
        };
        assert_eq!(ring.add(&x, &x).err(), Some(full));
        drop(y);
        let sum = ring.add(&x, &x).expect("room again");
        assert_eq!(ring.download(&sum).expect("two limbs"), vec![vec![2.0; 16]; 2]);
    }
}

/// A loader without drivers has no device, which is an error and a line, and no failure. Other systems keep
/// their drivers elsewhere.
#[cfg(target_os = "linux")]
#[test]
fn without_a_device_the_tests_say_so() {
    let test = "every_kernel_gives_the_residues_of_the_processor";
    let empty = std::env::temp_dir().join("no-opencl-drivers");
    std::fs::create_dir_all(&empty).expect("a folder for temporary files");
    let output = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test])
        .env("OCL_ICD_VENDORS", &empty)
        .output()
        .expect("this program runs again");
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).contains("skipped: no OpenCL device");
    assert!(said, "{output:?}");
}

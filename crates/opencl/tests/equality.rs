//! Every kernel on every OpenCL device of this machine gives the residues of `tacita-ring`.

use std::io::Write;
use tacita_opencl::{devices, verify, verify_build, Build, Device, Flavour, OpenClError};

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

#[test]
fn every_kernel_gives_the_residues_of_the_processor() {
    for device in devices_or_skip() {
        let checks = verify(&device).expect("the device runs");
        assert!(checks.iter().any(|check| check.flavour == Flavour::U64));
        for check in checks {
            assert!(
                check.residues > 0 && check.differ == 0,
                "{}: {check:?}",
                device.name
            );
        }
    }
}

/// Shapes of the matrix that the default radix does not meet: sides of one pass, of three, of odd length.
#[test]
fn transforms_do_not_depend_on_the_shape() {
    for device in devices_or_skip() {
        for (log_radix, log_ns) in [(1, [2, 5]), (2, [6, 11]), (3, [8, 12])] {
            for &flavour in device.flavours() {
                let build = Build {
                    log_radix,
                    ..Build::new(flavour)
                };
                for check in verify_build(&device, &build, &log_ns).expect("the device runs") {
                    assert!(
                        check.residues > 0 && check.differ == 0,
                        "radix 2^{log_radix}: {check:?}"
                    );
                }
            }
        }
    }
}

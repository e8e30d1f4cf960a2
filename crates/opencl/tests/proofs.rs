//! That the comparison with the processor, and Oclgrind, find mistakes: kernels with one mistake each. They
//! take a minute, so `make test-opencl` runs them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use tacita_opencl::{devices, sources, verify_build, Build, Flavour, OpenClError};

/// The simulator that finds races, where Debian puts it.
const OCLGRIND: &str = "/usr/lib/oclgrind/liboclgrind-rt.so";
/// Names the mutant that a child process runs under it.
const MUTANT: &str = "TACITA_OPENCL_MUTANT";

/// A mistake: in which text it is, and what stands there instead.
struct Mutant {
    name: &'static str,
    text: &'static str,
    instead: &'static str,
}

const fn mutant(name: &'static str, text: &'static str, instead: &'static str) -> Mutant {
    Mutant { name, text, instead }
}

/// None of them reads beyond a buffer, which could stop the process. Those in odd places run in integers
/// where a device has both flavours.
const MUTANTS: [Mutant; 23] = [
    mutant("a barrier is dropped", "    barrier(FENCE);", "    ;"),
    mutant(
        "roots of the wrong node",
        "roots[(top << i) + (low >> (levels - i))]",
        "roots[(top << i)]",
    ),
    mutant(
        "halves are swapped",
        "x[low] = add_lazy(u, v, m);",
        "x[low] = subtract_lazy(u, v, m);",
    ),
    mutant(
        "limb off by one",
        "slots + (size_t)(first + limb) * N",
        "slots + (size_t)(first + limb + 1) * N",
    ),
    mutant(
        "the modulus of another limb",
        "T4 m = moduli[basis[limb]];",
        "T4 m = moduli[basis[0]];",
    ),
    mutant("not canonical", "    CANONICAL", "    "),
    mutant(
        "scale of another limb",
        "(all_scales + 2 * limb)",
        "(all_scales + 2 * (limb / 2))",
    ),
    mutant(
        "a sum equal to p stays",
        "return sum >= m.x ?",
        "return sum > m.x ?",
    ),
    mutant("zero is negated to p", "return a == 0", "return a < 0"),
    mutant(
        "exponent off by one",
        "2 * reverse_bits(i) + 1",
        "2 * reverse_bits(i)",
    ),
    mutant("centred at the wrong side", "y + y > q", "y > q"),
    mutant(
        "weights of another target",
        "weights[limb * (terms + 1) + (t)]",
        "weights[t]",
    ),
    mutant("a packed residue loses its top", "word[1] << (64 - shift)", "0"),
    mutant(
        "the first half of the key twice",
        "rows[(terms + t) * limbs + limb]",
        "rows[t * limbs + limb]",
    ),
    mutant(
        "a run of a plaintext is cut",
        "+ (i >> run)]",
        "+ (i & ((N >> run) - 1))]",
    ),
    mutant(
        "an overflow is rounded down",
        "whole += rest > middle || (rest == middle && (whole & 1));",
        "",
    ),
    mutant(
        "the plaintext of another limb",
        "plaintexts[word + (size_t)(limb % limbs)",
        "plaintexts[word + (size_t)(0)",
    ),
    mutant(
        "a double is rounded down",
        "whole += rest > 1024 || (rest == 1024 && (whole & 1));",
        "",
    ),
    mutant(
        "what was there is lost",
        "T sum = is_added ? AT(out) : 0;",
        "T sum = 0;",
    ),
    mutant(
        "a negative sum of halves loses its sign",
        "return is_negative ? 4 * m.x - multiple : multiple;",
        "return multiple;",
    ),
    mutant(
        "one cross product twice",
        "product(a0, b1, m) + product(a1, b0, m)",
        "product(a0, b1, m) + product(a0, b1, m)",
    ),
    mutant(
        "rows of another block of a matrix",
        "weights[(size_t)block * depth + k]",
        "weights[k]",
    ),
    mutant(
        "the overflow of an exact conversion stays",
        "canonical(add_nearest_multiple(sum, overflow, WEIGHT(terms), m), m)",
        "canonical(sum, m)",
    ),
];

impl Mutant {
    fn build(&self, flavour: Flavour, log_radix: u32) -> Build {
        let source = sources();
        assert!(source.contains(self.text), "{}: the text has changed", self.name);
        Build {
            flavour,
            log_radix,
            source: source.replace(self.text, self.instead),
        }
    }
}

fn skip(reason: &str) {
    let line = format!("skipped: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("stderr");
}

#[test]
#[ignore = "half a minute: `make test-opencl` runs it"]
fn every_mutant_is_caught() {
    let Some(device) = devices().ok().and_then(|devices| devices.into_iter().next()) else {
        return skip("no OpenCL device");
    };
    for (at, mutant) in MUTANTS.iter().enumerate() {
        let flavours = device.flavours();
        let build = mutant.build(flavours[at % flavours.len()], 3);
        let checks = verify_build(&device, &build, &[8]).expect("a mutant runs");
        let wrong: Vec<_> = checks.iter().filter(|check| check.differ > 0).collect();
        assert!(!wrong.is_empty(), "not caught: {}", mutant.name);
        let kernels: Vec<_> = wrong.iter().map(|check| check.kernel).collect();
        println!("{} ({:?}): {kernels:?}", mutant.name, build.flavour);
    }
}

/// What the next test runs in a process of its own: the smallest transforms, of 16 values a side in blocks of
/// four, and every other kernel.
#[test]
#[ignore = "the next test runs it under Oclgrind"]
fn small_kernels() {
    let name = std::env::var(MUTANT).unwrap_or_default();
    for device in devices().expect("the simulator") {
        println!("{}", device.name);
        for &flavour in device.flavours() {
            let mutant = MUTANTS.iter().find(|mutant| mutant.name == name);
            let (log_radix, log_n) = if mutant.is_some() { (1, 4) } else { (2, 8) };
            let plain = Build {
                log_radix,
                ..Build::new(flavour)
            };
            let build = mutant.map_or(plain, |mutant| mutant.build(flavour, log_radix));
            let checks = verify_build(&device, &build, &[log_n]);
            let differ: u64 = checks
                .expect("the simulator runs")
                .iter()
                .map(|check| check.differ)
                .sum();
            assert!(differ == 0 || mutant.is_some(), "{differ} residues differ");
        }
    }
}

fn under_oclgrind(mutant: &str) -> Output {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "small_kernels", "--ignored", "--nocapture"])
        .env("OPENCL_DYLIB_PATH", OCLGRIND)
        .env("OCLGRIND_DATA_RACES", "1")
        // Optimised code has instructions that the simulator does not know.
        .env("OCLGRIND_BUILD_OPTIONS", "-cl-opt-disable")
        .env("OCLGRIND_MAX_ERRORS", "10")
        .env(MUTANT, mutant)
        .output()
        .expect("this program runs again")
}

#[test]
#[ignore = "a minute: `make test-opencl` runs it"]
fn the_simulator_finds_no_race_and_that_of_a_mutant() {
    if !Path::new(OCLGRIND).exists() {
        return skip("no Oclgrind");
    }
    let races = |output: &Output| {
        let text = [&output.stdout[..], &output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        (text.contains("data race"), text)
    };
    let plain = under_oclgrind("");
    let (found, text) = races(&plain);
    assert!(
        plain.status.success() && text.contains("Oclgrind") && !found,
        "{text}"
    );
    assert!(!text.contains("Invalid"), "an access outside of a buffer: {text}");
    let (found, text) = races(&under_oclgrind(MUTANTS[0].name));
    assert!(found, "the race of a dropped barrier: {text}");
}

/// A text that does not compile is an error with the compiler's words.
#[test]
fn a_text_that_does_not_compile_is_an_error() {
    let Some(device) = devices().ok().and_then(|devices| devices.into_iter().next()) else {
        return skip("no OpenCL device");
    };
    let build = Build {
        source: "nonsense".to_owned(),
        ..Build::new(Flavour::U64)
    };
    let error = verify_build(&device, &build, &[4]).expect_err("no kernels");
    assert!(
        matches!(error, OpenClError::Build { ref log, .. } if log.contains("nonsense")),
        "{error}"
    );
}

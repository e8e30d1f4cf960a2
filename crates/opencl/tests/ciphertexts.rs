//! Circuits on ciphertexts of a device end in the bits of the processor: every operation at every level,
//! linear transforms, series, and whole bootstraps. They are written once, over any backend.

use std::io::Write;
use std::sync::Arc;
use tacita_ckks::backend::{Backend, CiphertextOf as Of};
use tacita_ckks::bootstrap::refresh::shallow::{ShallowMatrices, ShallowRefresh};
use tacita_ckks::bootstrap::refresh::Harmonics;
use tacita_ckks::bootstrap::{required_keys, Bootstrapper, Content};
use tacita_ckks::generator::KeyGenerator;
use tacita_ckks::keys::{galois_of_rotation, KeySpec};
use tacita_ckks::linear::{LinearTransform, Term};
use tacita_ckks::matmul::Matrix;
use tacita_ckks::{Ciphertext, CkksError, CkksParameters, Complex64, EvaluationKeys, Evaluator, KeyKind};
use tacita_coefficients::{refresh, Refresh, ToCoefficients};
use tacita_opencl::{devices, Build, Device, Engine, Flavour, OpenClError, ReferenceBootstrap};
use tacita_rlwe::{encrypt, SecretKey};

/// Limbs that a toy bootstrap holds at once, and room.
const SLOTS: u32 = 8192;
const STEPS: [i64; 3] = [1, 2, 5];

type Result<T> = std::result::Result<T, CkksError>;

/// None, with a line that says so, where there is no device.
fn card() -> Option<Device> {
    match devices() {
        Ok(all) => all.into_iter().next(),
        Err(error @ (OpenClError::NoLibrary | OpenClError::NoDevice)) => {
            let line = format!("skipped: no OpenCL device ({error})\n");
            std::io::stderr().write_all(line.as_bytes()).expect("stderr");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

struct Toy {
    host: Evaluator,
    device: Evaluator<Engine>,
    secret: SecretKey,
}

impl Toy {
    /// One for each flavour of the device; none where there is no device.
    fn all() -> Vec<Self> {
        let card = card();
        let toys = card
            .iter()
            .flat_map(|card| card.flavours().iter().map(|&flavour| Self::new(card, flavour)));
        toys.collect()
    }

    fn new(card: &Device, flavour: Flavour) -> Self {
        let params = CkksParameters::preset("insecure_toy_n10").expect("a preset");
        let secret = SecretKey::generate(params.rlwe()).expect("randomness");
        let generator = KeyGenerator::new(&params, &secret).expect("a generator");
        let mut specs = required_keys(&params);
        for spec in tacita_coefficients::required_keys(&params) {
            tacita_ckks::keys::add(&mut specs, spec);
        }
        let limbs = params.rlwe().q_len();
        for step in STEPS {
            let kind = KeyKind::Galois(galois_of_rotation(&params, step));
            tacita_ckks::keys::add(&mut specs, KeySpec { kind, limbs });
        }
        let mut keys = EvaluationKeys::default();
        for spec in specs {
            keys.insert(spec.kind, generator.generate(spec).expect("a key"));
        }
        let engine = Engine::new(card, Build::new(flavour), params.rlwe(), SLOTS).expect("a device");
        let copies = keys.copied(|key| engine.upload_key(key)).expect("room for keys");
        Self {
            device: Evaluator::on(Arc::new(engine), params.clone(), Arc::new(copies)),
            host: Evaluator::new(params, Arc::new(keys)),
            secret,
        }
    }

    fn encrypt(&self, level: usize, seed: usize) -> Ciphertext {
        let (params, scale) = (self.host.params(), self.host.params().scale(level));
        let values = vector(params.slots(), seed);
        let plain = self.host.encode(&values, scale, level + 1).expect("values");
        encrypt::encrypt_secret(params.rlwe(), &self.secret, &plain, scale)
            .expect("randomness")
            .0
    }

    /// Compares results, which exist, and gives how many residues these have.
    fn assert_equal(
        &self,
        name: &str,
        host: Result<Vec<Ciphertext>>,
        device: Result<Vec<Of<Engine>>>,
    ) -> usize {
        let (host, device) = (host.expect(name), device.expect(name));
        assert!(!host.is_empty() && host.len() == device.len(), "{name}");
        let mut residues = 0;
        for (a, b) in host.iter().zip(&device) {
            let b = self.device.backend().download(b).expect("a transfer");
            assert_eq!(
                (a.scale.to_bits(), a.polys.len()),
                (b.scale.to_bits(), b.polys.len()),
                "{name}"
            );
            for (x, y) in a.polys.iter().zip(&b.polys) {
                assert_eq!((x.q_len, x.p_len()), (y.q_len, y.p_len()), "{name}");
                assert!(
                    x.limbs == y.limbs,
                    "{name} at level {}: residues differ",
                    a.level()
                );
                residues += x.limbs.iter().map(|limb| limb.len()).sum::<usize>();
            }
        }
        residues
    }
}

/// Values in the square of side 1.6 around 0.
fn vector(length: usize, seed: usize) -> Vec<Complex64> {
    let value = |j: usize| ((7 * j + seed) % 13) as f64 / 7.5 - 0.8;
    (0..length)
        .map(|j| Complex64::new(value(j), value(j + 3)))
        .collect()
}

/// Two inputs, two outputs, three giants; vectors of several periods; one input is not rotated.
fn transform(slots: usize, horner_step: Option<i64>) -> LinearTransform<'static> {
    let step = horner_step.unwrap_or(5);
    let places = [
        (0, 0, 0, 1),
        (0, 0, 0, 2),
        (0, step, 0, 0),
        (0, step, 1, 0),
        (1, 0, 0, 2),
        (1, step, 0, 1),
    ];
    let term = |(vector, (output, giant, input, baby))| Term {
        output,
        giant,
        input,
        baby,
        vector,
    };
    LinearTransform {
        vectors: (0..places.len())
            .map(|v| vector(slots >> (v % 4), v).into())
            .collect(),
        terms: places.into_iter().enumerate().map(term).collect(),
        outputs: 2,
        horner_step,
    }
}

/// Every operation of one level.
fn operations<B: Backend>(e: &Evaluator<B>, a: &Of<B>, b: &Of<B>) -> Result<Vec<Of<B>>> {
    let c = Complex64::new(0.3, -0.7);
    let mut all = vec![
        e.add(a, b)?,
        e.sub(a, b)?,
        e.neg(a)?,
        e.mul_i(a)?,
        e.mul_integer(a, -37)?,
        e.add_constant(a, c)?,
        e.add_vector(a, &vector(16, 3))?,
        e.rotate(a, 2)?,
        e.conjugate(a)?,
    ];
    all.extend(e.rotate_many(a, &[0, 1, 2, 5])?);
    if a.level() > 0 {
        all.extend([
            e.mul_constant(a, c)?,
            e.mul_vector(a, &vector(e.params().slots(), 5))?,
            e.mul(a, b)?,
            e.dot(&[(a, b), (b, b)])?,
            e.drop_to(a, a.level() - 1)?,
        ]);
    }
    Ok(all)
}

/// Products with matrices of every period, of operands at unequal levels and in parts; at period 8 there are
/// more columns than are made at once.
fn matrices<B: Backend>(e: &Evaluator<B>, a: &Of<B>, b: &Of<B>) -> Result<Vec<Of<B>>> {
    let (mut all, low) = (Vec::new(), e.drop_to(b, (a.level() - 1).max(1))?);
    for (period, inputs, outputs) in [(1, 3, 6), (2, 2, 5), (4, 2, 1), (8, 20, 3)] {
        let xs: Vec<&Of<B>> = [a, &low, b].into_iter().cycle().take(inputs).collect();
        let real = |length| vector(length, period).iter().map(|z| z.re).collect::<Vec<f64>>();
        let bias = real(outputs * period);
        let matrix = Matrix {
            weights: &real(outputs * inputs * period),
            bias: (period != 2).then_some(&bias),
            outputs,
            period,
        };
        all.extend(e.matmul(&xs, &matrix)?);
        // the same matrix in two parts, of operands of one level
        let (level, odd) = (low.level(), inputs / 2);
        let xs = xs
            .iter()
            .map(|x| e.drop_to(x, level))
            .collect::<Result<Vec<_>>>()?;
        let columns: Vec<usize> = (0..inputs).rev().collect();
        let mut sums = e.begin_matmul(&matrix, inputs, &xs[0])?;
        for columns in [&columns[..odd], &columns[odd..]] {
            let xs: Vec<&Of<B>> = columns.iter().map(|&k| &xs[k]).collect();
            sums = e.add_matmul(sums, columns, &xs)?;
        }
        all.extend(e.finish_matmul(sums)?);
    }
    Ok(all)
}

/// Linear transforms with giants, by Horner's rule and without any; series of both kinds.
fn composed<B: Backend>(e: &Evaluator<B>, a: &Of<B>, b: &Of<B>) -> Result<Vec<Of<B>>> {
    let slots = e.params().slots();
    let mut flat = transform(slots, None);
    flat.terms.iter_mut().for_each(|term| term.giant = 0);
    flat.outputs = 3;
    let mut all = Vec::new();
    for t in [transform(slots, None), transform(slots, Some(2)), flat] {
        all.extend(e.linear(&[a, b], &t)?);
    }
    let kept = e.encode_transform(
        &transform(slots, None),
        a.limbs(),
        e.params().prime(a.level()),
        false,
    )?;
    all.extend(e.apply_transform(&[a, b], &kept)?);
    all.push(e.chebyshev(a, &vector(20, 1), None)?);
    all.push(e.power_series(a, &vector(12, 2), None)?);
    let sums = e.products(&[vec![a, b], vec![b, b]], &[vec![b], vec![a]])?;
    all.extend(e.relinearise(sums)?.into_iter().flatten());
    let mut sums = e.products(&[vec![a]], &[vec![b, a]])?;
    e.add_products(&mut sums, &[vec![b]], &[vec![b, b]])?;
    all.extend(e.relinearise(sums)?.into_iter().flatten());
    Ok(all)
}

#[test]
fn every_operation_has_the_bits_of_the_processor_at_every_level() {
    for toy in Toy::all() {
        let engine = toy.device.backend();
        let top = toy.host.params().top_level();
        let mut residues = 0;
        for level in 0..=top {
            let [a, b] = [1, 2].map(|seed| toy.encrypt(level, seed));
            let [da, db] = [&a, &b].map(|x| engine.upload(x).expect("room"));
            let device = operations(&toy.device, &da, &db);
            residues += toy.assert_equal("operations", operations(&toy.host, &a, &b), device);
            if level > 0 {
                let device = matrices(&toy.device, &da, &db);
                residues += toy.assert_equal("matrices", matrices(&toy.host, &a, &b), device);
            }
            if level == top || level == top - 3 {
                let device = composed(&toy.device, &da, &db);
                residues += toy.assert_equal("composed", composed(&toy.host, &a, &b), device);
            }
        }
        assert!(residues > 1 << 20);
    }
}

fn bootstraps<B: Backend>(e: &Evaluator<B>, all: [Of<B>; 4]) -> Result<Vec<Of<B>>> {
    let b = Bootstrapper::new(e)?;
    let [real, complex, first, second] = all;
    let f = Harmonics::new(&vector(8, 4))?;
    let mut out = b.bootstrap_through(e, &real, Content::Real, &f)?;
    let inputs = [
        (real, Content::Real),
        (complex, Content::Complex),
        (first, Content::Pair),
        (second, Content::Pair),
    ];
    out.extend(b.bootstrap_many(e, &inputs)?);
    Ok(out)
}

/// What `tacita device verify` runs.
#[test]
fn a_verified_bootstrap_is_compared_whole() {
    let Some(card) = card() else { return };
    let params = CkksParameters::preset("insecure_toy_n10").expect("a preset");
    let residues = 2 * (params.top_level() + 1) * params.rlwe().n();
    let reference = ReferenceBootstrap::new(params).expect("the processor runs");
    for &flavour in card.flavours() {
        let check = reference
            .compare(&card, Build::new(flavour))
            .expect("the device runs");
        assert_eq!((check.residues, check.differ), (residues as u64, 0));
    }
}

/// Of a real input, of a complex one, of a pair, and through a function.
#[test]
fn whole_bootstraps_have_the_bits_of_the_processor() {
    for toy in Toy::all() {
        let level = toy.host.params().bottom_level();
        let inputs = [1, 2, 3, 4].map(|seed| toy.encrypt(level + seed % 2, seed));
        let uploaded = inputs
            .each_ref()
            .map(|x| toy.device.backend().upload(x).expect("room"));
        let device = bootstraps(&toy.device, uploaded);
        let residues = toy.assert_equal("bootstraps", bootstraps(&toy.host, inputs), device);
        assert!(residues > 100_000, "{residues}");
    }
}

/// Coefficients to slots as they are, through a function, and through it to every level.
fn refreshes<B: Backend>(e: &Evaluator<B>, x: &Of<B>) -> Result<Vec<Of<B>>> {
    let (b, f) = (Bootstrapper::new(e)?, Harmonics::new(&vector(4, 4))?);
    let low = b.slots_to_coefficients(e, x)?;
    let mut out = refresh(e, &Refresh::Whole(&b), &[&low, &low], 0)?;
    out.extend(refresh(e, &Refresh::Through(&b, &f), &[&low], 0)?);
    for level in e.params().bottom_level()..=f.out_level(e.params())? {
        let matrices = Arc::new(ShallowMatrices::new(e, f.depth(), level)?);
        let shallow = ShallowRefresh::new(e, matrices)?;
        let ends = refresh(e, &Refresh::Shallow(&shallow, &f), &[&low], 0)?;
        assert_eq!(ends[0].level(), level);
        out.extend(ends);
    }
    Ok(out)
}

#[test]
fn what_surrounds_products_of_coefficients_has_the_bits_of_the_processor() {
    for toy in Toy::all() {
        let (engine, p) = (toy.device.backend(), toy.host.params());
        let host = ToCoefficients::new(&toy.host).expect("matrices");
        let device = ToCoefficients::new(&toy.device).expect("room");
        let mut residues = 0;
        for level in p.bottom_level() + 1..=p.top_level() {
            let x = toy.encrypt(level, level);
            let copy = engine.upload(&x).expect("room");
            let low = device.apply(&toy.device, &copy).map(|x| vec![x]);
            residues += toy.assert_equal("to coefficients", host.apply(&toy.host, &x).map(|x| vec![x]), low);
        }
        let x = toy.encrypt(p.bottom_level(), 1);
        let device = refreshes(&toy.device, &engine.upload(&x).expect("room"));
        residues += toy.assert_equal("refreshes", refreshes(&toy.host, &x), device);
        assert!(residues >= 1 << 19, "{residues}");
    }
}

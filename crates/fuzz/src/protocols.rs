//! One party of a session against a peer that sends anything: comparisons and what is made of them,
//! functions of rows.
//!
//! Contents are masked bits and shares, so every string is taken and only the result is wrong; what is
//! tested is that nothing panics, no length follows from a content, and results stay in their ring.
use crate::hostile::Hostile;
use crate::Target;
use tacita_mpc::compare::{
    argmax_rows, below_many, equal, extend, max_rows, negative, one_hot, select_many, truncate_exact, Window,
};
use tacita_mpc::fuzzing::insecure_party;
use tacita_mpc::nonlinear::{few, reciprocal, rsqrt, Fixed, Span};
use tacita_mpc::{MpcError, Party, Result, Ring, Role};

pub(crate) const COMPARISONS: Target = Target {
    name: "comparisons",
    cap: 1 << 20,
    longest: 1 << 11,
    body: |data| session(data, compare),
};

pub(crate) const FUNCTIONS: Target = Target {
    name: "functions",
    cap: 1 << 20,
    longest: 1 << 12,
    body: |data| session(data, functions),
};

/// Which step runs, who one is, then the peer's messages. The peer leaves when its bytes are used up, or
/// sends zeros.
fn session(data: &[u8], steps: fn(&mut Party, u8) -> Result<()>) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let role = if first & 1 == 0 {
        Role::Client
    } else {
        Role::Server
    };
    let leaves = first & 2 == 0;
    let party = insecure_party(role, Hostile::new(rest, leaves));
    match party.and_then(|mut party| steps(&mut party, first >> 2)) {
        Ok(()) => {}
        Err(MpcError::Closed { .. }) if leaves => {}
        Err(other) => panic!("a message of the right length was refused: {other}"),
    }
}

fn inside(values: &[u64], ring: Ring) {
    assert!(
        values.iter().all(|&x| ring.reduce(x) == x),
        "a share outside its ring"
    );
}

const RING: Ring = Ring::new(20);

fn compare(party: &mut Party, step: u8) -> Result<()> {
    let x: [u64; 2] = [900_000, 1 << 19];
    let wide = Ring::new(33);
    match step % 7 {
        0 => drop(negative(party, &x, RING)?),
        1 => inside(&extend(party, &x, RING, wide)?, wide),
        2 => inside(&truncate_exact(party, &x, RING, 6)?, RING),
        3 => drop(below_many(party, &x, RING, &[-5, 0, 99])?),
        4 => {
            drop(equal(party, &x, RING, &[3, 4])?);
            drop(one_hot(party, &x[..1], RING, 5)?);
        }
        5 => select_many(party, &[1, 0], &[(&x, RING), (&x, wide)])?
            .iter()
            .zip([RING, wide])
            .for_each(|(values, ring)| inside(values, ring)),
        _ => {
            inside(&max_rows(party, &x, 1, 2, RING, Window::whole(RING))?, RING);
            let index = Ring::new(8);
            inside(
                &argmax_rows(party, &x, 1, 2, RING, Window::whole(RING), index)?.1,
                index,
            );
        }
    }
    Ok(())
}

fn functions(party: &mut Party, step: u8) -> Result<()> {
    let x: [u64; 1] = [99_000];
    let (from, to, span) = (Fixed::new(20, 16), Fixed::new(24, 14), Span { low: -1, high: 2 });
    match step % 4 {
        0 => inside(&few::product(party, &x, &x, RING)?, RING),
        1 => inside(&few::square(party, &x, RING)?, RING),
        2 => inside(&reciprocal(party, &x, from, span, to)?, to.ring),
        _ => inside(&rsqrt(party, &x, from, span, 1.0, to)?, to.ring),
    }
    Ok(())
}

//! Whole sessions over TCP with a server that keeps to the protocol, and with some that do not.
use crate::vectors::Vector;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tacita_mpc::channel::frame::Side;
use tacita_mpc::channel::tcp::{dial, insecure_plain, Listener};
use tacita_mpc::channel::Link;
use tacita_mpc::ot::CotKind;
use tacita_mpc::{MpcError, Party, Result, Role};
use tacita_wasm::framed::Transport;
use tacita_wasm::part::digest;
use tacita_wasm::session::{Event, Session};
use tacita_wasm::ClientError;

const PATIENCE: Duration = Duration::from_secs(60);
const WELCOME: &[u8] = b"TACITA-2PC\x0b\x00";

struct Tcp(TcpStream);

fn closed(_: std::io::Error) -> MpcError {
    MpcError::Closed { op: "test" }
}

impl Transport for Tcp {
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).map_err(closed)
    }

    fn receive(&mut self, out: &mut [u8]) -> Result<()> {
        self.0.read_exact(out).map_err(closed)
    }

    fn clock(&self) -> fn() -> f64 {
        || {
            1e3 * SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_secs_f64()
        }
    }
}

/// What a client makes of a server that does this.
fn session<T>(
    server: impl FnOnce(&mut Party) + Send,
    client: impl FnOnce(tacita_wasm::Result<Session>) -> T,
) -> T {
    let listener = Listener::bind("127.0.0.1", 0).unwrap();
    let port = listener.port().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let (stream, _) = listener.accept(PATIENCE).unwrap();
            let channel = insecure_plain(stream, Side::Accepted, PATIENCE).unwrap();
            server(&mut Party::new(Role::Server, Box::new(channel)));
        });
        let link = dial("127.0.0.1", port, PATIENCE).unwrap();
        link.set_nodelay(true).unwrap(); // small messages would wait for acknowledgements
        client(Session::greet(Tcp(link), &mut |_| ()))
    })
}

fn welcome(party: &mut Party, part: &[u8], hash: [u8; 32]) {
    assert_eq!(party.receive(12).unwrap(), WELCOME);
    let said = [WELCOME, &(part.len() as u64).to_le_bytes(), &hash].concat();
    party.send(&said).unwrap();
}

/// Up to the agreed plan.
fn greet(party: &mut Party, vector: &Vector) {
    let part = vector.part();
    welcome(party, &part, digest(&part));
    assert_eq!(party.receive(1).unwrap(), [1]);
    party.send(&part).unwrap();
    let plan = party.receive(32).unwrap();
    let digits: String = plan.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(digits, vector.program().plan);
    party.send(&[1]).unwrap();
}

/// What the client wants, once its link is measured and known.
fn wish(party: &mut Party) -> u8 {
    loop {
        match party.receive(1).unwrap()[0] {
            6 => party.send(&[6]).unwrap(),
            5 => {
                let said = party.receive(8).unwrap();
                let (numbers, _) = said.as_chunks();
                let [kilobits, micros] = [numbers[0], numbers[1]].map(u32::from_le_bytes);
                party.set_link(Link {
                    bandwidth: 1e3 * f64::from(kilobits),
                    rtt: Duration::from_micros(micros.into()),
                });
            }
            word => return word,
        }
    }
}

fn serve(party: &mut Party, vector: &Vector) {
    greet(party, vector);
    let mut ready = false;
    while wish(party) == 1 {
        party.send(&[0; 10]).unwrap();
        if !ready {
            party.setup_ot(CotKind::Ferret).unwrap();
            party.setup_linear().unwrap();
            party.setup_products().unwrap();
            ready = true;
        }
        vector.serve(party);
    }
}

fn answers_like_the_model(name: &str) {
    let vector = Vector::read(name);
    let serving = |party: &mut Party| serve(party, &vector);
    session(serving, |session| {
        let mut session = session.unwrap();
        let long = "very ".repeat(40);
        assert!(matches!(
            session.classify(&[&long], &mut |_| ()),
            Err(ClientError::Text(_))
        ));
        for asked in &vector.texts {
            let mut nodes = vec![];
            let mut watch = |event: Event| nodes.push(format!("{event:?}"));
            let answer = session.classify(&[&asked.text], &mut watch).unwrap();
            let logits = answer.logits.unwrap();
            let far = logits.iter().zip(&asked.answer).map(|(a, b)| (a - b).abs());
            assert!(
                far.fold(0.0, f64::max) < 0.03,
                "{logits:?}, wanted {:?}",
                asked.answer
            );
            assert_eq!(logits.len(), asked.answer.len());
            let best = asked.answer[0] < asked.answer[1];
            assert_eq!(
                answer.label.as_deref(),
                Some(if best { "positive" } else { "negative" })
            );
            assert!(answer.warnings.is_empty() && nodes.len() >= 3);
        }
        assert!(session.cost().sent > 1 << 20 && session.cost().rounds > 10);
        session.end().unwrap();
    });
}

#[test]
fn gelu_tanh_and_the_pooler() {
    answers_like_the_model("gelu-pooler");
}

#[test]
fn relu_and_the_mean_of_real_rows() {
    answers_like_the_model("relu-mean");
}

#[test]
fn squares_of_what_is_positive() {
    answers_like_the_model("relu2-cls");
}

#[test]
fn silu_and_the_first_row() {
    answers_like_the_model("silu-cls");
}

#[test]
fn attention_by_tiles_and_a_window() {
    answers_like_the_model("tiles");
}

#[test]
fn elu_and_the_first_row() {
    answers_like_the_model("elu-cls");
}

fn refused(server: impl FnOnce(&mut Party, &Vector) + Send) -> String {
    let vector = Vector::read("gelu-pooler");
    let error = session(|party| server(party, &vector), |session| session.err());
    error.expect("the greeting must fail").to_string()
}

#[test]
fn a_full_server_says_so() {
    let said = refused(|party, _| {
        party.receive(12).unwrap();
        let no = [
            &b"TACITA-NO!"[..],
            &1u16.to_le_bytes(),
            &8u64.to_le_bytes(),
            &[0; 32],
        ]
        .concat();
        party.send(&no).unwrap();
    });
    assert!(said.contains("full (8 sessions)"), "{said}");
}

#[test]
fn another_server_is_told_apart() {
    let said = refused(|party, _| party.send(&[b'x'; 52]).unwrap());
    assert!(said.contains("not a tacita server"), "{said}");
}

#[test]
fn a_damaged_part_is_refused() {
    let said = refused(|party, vector| {
        let mut part = vector.part();
        let hash = digest(&part);
        part[40] ^= 1;
        welcome(party, &part, hash);
        party.receive(1).unwrap();
        party.send(&part).unwrap();
    });
    assert!(said.contains("hash"), "{said}");
}

#[test]
fn a_part_without_its_program_is_refused() {
    let said = refused(|party, vector| {
        let mut part = vector.part();
        part[40] ^= 1; // in the program
        welcome(party, &part, digest(&part));
        party.receive(1).unwrap();
        party.send(&part).unwrap();
    });
    assert!(said.contains("program"), "{said}");
}

#[test]
fn a_part_beyond_all_bounds_is_not_received() {
    let said = refused(|party, _| {
        party.receive(12).unwrap();
        party
            .send(&[WELCOME, &u64::MAX.to_le_bytes(), &[0; 32]].concat())
            .unwrap();
    });
    assert!(said.contains("announces"), "{said}");
}

#[test]
fn a_server_that_leaves_is_an_error() {
    let vector = Vector::read("gelu-pooler");
    let serving = |party: &mut Party| {
        greet(party, &vector);
        assert_eq!(wish(party), 1);
        party.send(&[0; 10]).unwrap();
    };
    session(serving, |session| {
        let error = session.unwrap().classify(&["a film"], &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("closed"), "{error}");
    });
}

//! Plans of a server that means harm, or that a page has no form for.
use crate::files::World;
use serde_json::json;
use tacita_wasm::files::Plan;

#[test]
fn parameters_for_tests_are_refused_unless_asked_for() {
    let world = World::new();
    let plan = world.plan.to_string();
    assert!(Plan::parse(plan.as_bytes(), true).is_ok());
    let refused = Plan::parse(plan.as_bytes(), false).err().unwrap();
    assert!(refused.to_string().contains("keep nothing secret"));
}

#[test]
fn other_plans_are_refused() {
    let (request, response) = ("/layout/request", "/layout/response");
    let mask = "/layout/request/tensors/mask";
    let far = 1u64 << 50;
    for (pointer, value) in [
        ("/format", json!("tacita-two-party")),
        ("/version", json!(6)),
        ("/hash", json!("AB")),
        ("/parameters/preset", json!("n99")),
        ("/tokens", json!(0)),
        ("/batch", json!(2)),
        ("/model/hidden", json!(1 << 20)),
        ("/model/normalise", json!(true)),
        ("/model/labels", json!(["a", "b", "c"])),
        ("/model/embeddings", json!(null)),
        ("/model/embeddings/backwards", json!(true)),
        ("/model/embeddings/image", json!({"size": 32})),
        ("/model/task", json!("tokens")),
        ("/model/task", json!("words")),
        ("/model/task", json!("next")),
        ("/gap", json!(0.1)),
        (
            "/kept",
            json!([{"name": "x", "count": 1, "level": 1, "kind": "real"}]),
        ),
        ("/options", json!({"a": 1})),
        ("/stages/0/counts", json!({"coefficient_product": 1})),
        ("/answer", json!(0.0)),
        ("/noise", json!(0.1)),
        ("/noise", json!(1e-10)), // less than the last rescaling adds
        ("/decimals", json!(10)),
        ("/rotations", json!([[1, 99]])),
        ("/rotations", json!([[1, -1]])),
        ("/request", json!([])),
        ("/request/0/level", json!(99)),
        ("/request/0/count", json!(2)),
        ("/request/0/name", json!("../x")),
        ("/response", json!([])),
        ("/response/0/level", json!(99)),
        (&*format!("{request}/bound"), json!(0.0)),
        (&*format!("{request}/slots"), json!(256)),
        (&*format!("{request}/tokens"), json!(8)),
        (&*format!("{mask}/source"), json!("key")),
        (&*format!("{mask}/count"), json!(u64::MAX)),
        (&*format!("{mask}/runs"), json!([])),
        (&*format!("{mask}/runs"), json!([[0]])),
        (&*format!("{mask}/runs"), json!([[0, 0, 1]])),
        (&*format!("{mask}/runs"), json!([[0, 0, 0, 1, 0]])),
        (&*format!("{mask}/runs"), json!([[0, 0, 2, 0, 1]])),
        (&*format!("{mask}/runs"), json!([[127, 0, 2, 1, 0]])),
        (&*format!("{mask}/runs"), json!([[0, 16 * 64 + 128]])),
        (&*format!("{mask}/runs"), json!([[0, 0, 2, u64::MAX, 0]])),
        (&*format!("{mask}/runs"), json!([[u64::MAX, 0, 2, 1, 0]])),
        (&*format!("{mask}/runs"), json!([[0, 0, far, 1, 0, far, 1, 0]])),
        (&*format!("{mask}/runs"), json!([[0, 0, 128, 1, 0], [0, 0]])),
        (&*format!("{request}/tensors/hidden/runs"), json!([[0, 0]])),
        (&*format!("{response}/rows"), json!(2)),
        (&*format!("{response}/size"), json!(1)),
        (&*format!("{response}/count"), json!(2)),
        (&*format!("{response}/bound"), json!(-1.0)),
        (&*format!("{response}/numbers"), json!([[0, 0]])),
        (&*format!("{response}/copies"), json!([[0, 0, 2, 1, 1]])),
        (&*format!("{response}/norms"), json!([])),
        (&*format!("{response}/norms"), json!([[0, 0]])),
        (&*format!("{response}/zeros"), json!([])),
        (&*format!("{response}/zeros"), json!([[0, 1]])),
    ] {
        let mut world = World::new();
        if let Some(place) = world.plan.pointer_mut(pointer) {
            *place = value.clone();
        } else {
            let (inside, name) = pointer.rsplit_once('/').unwrap();
            world.plan.pointer_mut(inside).unwrap()[name] = value.clone();
        }
        assert!(world.client().is_err(), "{pointer} {value}");
    }
}

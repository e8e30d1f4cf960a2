//! Every target runs over the inputs kept in the tree, and over its honest ones: on stable Rust, without a
//! fuzzer.
use std::path::Path;
use tacita_fuzz::{one_thread, seeds::seeds, Counting, TARGETS};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test, one thread: bytes in use are counted over all of them.
#[test]
fn every_target_takes_its_corpus() {
    one_thread();
    for target in TARGETS {
        seeds(target.name).iter().for_each(|seed| target.run(seed)); // tables of a first call are made here
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(target.name);
        let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut count = 0;
        for file in files {
            let path = file.expect("a folder that can be read").path();
            target.run(&std::fs::read(&path).expect("a file that can be read"));
            count += 1;
        }
        assert!(count > 0, "{}: no inputs", target.name);
    }
}

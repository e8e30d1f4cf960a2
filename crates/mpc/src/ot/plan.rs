//! When a direction makes COTs, and how many: both parties compute it alike from what they have used.
use super::ferret::{Set, LARGE, SMALL};
use super::softspoken::STEP;

/// COTs that SoftSpoken makes at least at once: messages of 64 KiB.
const LEAST: usize = 16 * STEP;

/// What to do next for one direction.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// This many COTs by SoftSpoken.
    Soft(usize),
    /// One batch of Ferret.
    Batch(&'static Set),
}

/// The state that the decisions depend on.
pub(super) struct Plan {
    ferret: bool,
    reserve: usize,
    made: u64,
}

impl Plan {
    /// SoftSpoken alone, or Ferret bootstrapped from it.
    pub(super) fn new(ferret: bool) -> Self {
        let reserve = if ferret { SMALL.need() } else { 0 };
        let made = 0;
        Self {
            ferret,
            reserve,
            made,
        }
    }

    /// COTs made that were not for later batches.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// The next step, until there is none, for `wanted` COTs to be at hand beside the reserve for the next
    /// batch.
    pub(super) fn next(&mut self, held: usize, wanted: usize) -> Option<Step> {
        if let Some(count) = self.next_soft(held, wanted) {
            return Some(Step::Soft(count));
        }
        let missing = self.missing(held, wanted)?;
        let long = missing > SMALL.n() - SMALL.need() || self.made > SMALL.n() as u64;
        let set = if long && held >= LARGE.need() {
            &LARGE
        } else {
            &SMALL
        };
        self.made += (set.n() - set.need()) as u64;
        self.reserve = LARGE.need();
        Some(Step::Batch(set))
    }

    /// The COTs of the next step if that is SoftSpoken's.
    pub(super) fn next_soft(&mut self, held: usize, wanted: usize) -> Option<usize> {
        let missing = self.missing(held, wanted)?;
        if self.ferret {
            let count = SMALL.need().checked_sub(held).filter(|&count| count > 0)?;
            return Some(count.next_multiple_of(STEP));
        }
        let count = missing.max(LEAST).next_multiple_of(STEP);
        self.made += count as u64;
        Some(count)
    }

    fn missing(&self, held: usize, wanted: usize) -> Option<usize> {
        (wanted + self.reserve)
            .checked_sub(held)
            .filter(|&missing| missing > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(plan: &mut Plan, held: &mut usize, wanted: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some(step) = plan.next(*held, wanted) {
            match &step {
                Step::Soft(count) => *held += count,
                Step::Batch(set) => *held += set.n() - set.need(),
            }
            steps.push(step);
            assert!(steps.len() < 100);
        }
        assert!(*held >= wanted + plan.reserve);
        *held -= wanted;
        steps
    }

    #[test]
    fn a_short_session_runs_the_small_set_and_a_long_one_the_large() {
        let (mut plan, mut held) = (Plan::new(true), 0);
        let first = run(&mut plan, &mut held, 1000);
        assert!(matches!(first[..], [Step::Soft(_), Step::Batch(&SMALL)]));
        assert!(run(&mut plan, &mut held, 1000).is_empty());
        let long = run(&mut plan, &mut held, 5 * LARGE.n());
        assert!(long.iter().all(|step| *step == Step::Batch(&LARGE)) && (5..=7).contains(&long.len()));
        let small_again: usize = (0..100)
            .map(|_| run(&mut plan, &mut held, SMALL.n() / 8))
            .map(|s| s.len())
            .sum();
        assert!(small_again <= 4);
    }

    #[test]
    fn without_ferret_only_what_is_missing_is_made() {
        let (mut plan, mut held) = (Plan::new(false), 0);
        assert_eq!(run(&mut plan, &mut held, 1), [Step::Soft(LEAST)]);
        assert_eq!(run(&mut plan, &mut held, LEAST - 1), []);
        assert_eq!(run(&mut plan, &mut held, LEAST + 1), [Step::Soft(LEAST + STEP)]);
        assert_eq!(plan.made(), 2 * LEAST as u64 + STEP as u64);
    }
}

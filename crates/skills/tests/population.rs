//! The gate over a simulated population: good skills are promoted, harmful ones retired, and of those that do nothing at most
//! one in twenty is ever promoted, though it is looked at after every turn.

#[path = "population/sim.rs"]
mod sim;

use metaclaw_skills::proof::{LEAST_FOR_RETIREMENT, Verdict};
use sim::{Fate, KINDS, live, share};

const SKILLS: u64 = 300;
const TURNS: u32 = 1_000;

/// Turns of a conversation that a skill fits, on average.
const LONG: [u32; 3] = [1, 3, 10];

fn fates_in(kind: usize, long: u32, skills: u64) -> Vec<Fate> {
    (0..skills).map(|seed| live(KINDS[kind], long, seed * 31 + kind as u64, TURNS)).collect()
}

fn fates(kind: usize, skills: u64) -> Vec<Fate> {
    fates_in(kind, 1, skills)
}

#[test]
fn long_conversations_make_proof_slower_but_no_less_sound() {
    for long in LONG {
        let of = |kind, verdict| share(&fates_in(kind, long, 200), verdict, TURNS);
        let (very, good, none) = (of(0, Verdict::Helps), of(1, Verdict::Helps), of(2, Verdict::Helps));
        let harmful = of(3, Verdict::Harms) + of(3, Verdict::NoUse);
        let very_harmful = of(4, Verdict::Harms) + of(4, Verdict::NoUse);
        println!("{long} turns: promoted {very} {good} {none}, harmful {harmful} {very_harmful}");
        assert!(very > 0.9 && good > 0.6 && very_harmful > 0.9 && harmful > 0.5, "{long} turns a conversation");
        assert!(none <= 0.07, "{long} turns a conversation: {none}");
        assert!(of(3, Verdict::Helps) < 0.02, "{long} turns a conversation");
    }
}

#[test]
fn good_skills_are_promoted() {
    let (very, good) = (fates(0, SKILLS), fates(1, SKILLS));
    assert!(share(&very, Verdict::Helps, TURNS) > 0.95, "{}", share(&very, Verdict::Helps, TURNS));
    assert!(share(&good, Verdict::Helps, TURNS) > 0.8, "{}", share(&good, Verdict::Helps, TURNS));
    for fates in [very, good] {
        assert!(share(&fates, Verdict::Harms, TURNS) < 0.05);
    }
}

#[test]
fn harmful_skills_are_retired_and_none_of_them_is_promoted() {
    let (harmful, very) = (fates(3, SKILLS), fates(4, SKILLS));
    assert!(share(&very, Verdict::Harms, TURNS) > 0.9, "{}", share(&very, Verdict::Harms, TURNS));
    let retired = share(&harmful, Verdict::Harms, TURNS) + share(&harmful, Verdict::NoUse, TURNS);
    assert!(retired > 0.9, "{retired}");
    for fates in [harmful, very] {
        assert!(share(&fates, Verdict::Helps, TURNS) < 0.02, "{}", share(&fates, Verdict::Helps, TURNS));
    }
}

#[test]
fn of_skills_that_do_nothing_at_most_one_in_twenty_is_promoted() {
    for long in LONG {
        let promoted = share(&fates_in(2, long, 1_000), Verdict::Helps, TURNS);
        assert!(promoted <= 0.05, "{long} turns a conversation: {promoted}");
    }
}

#[test]
fn nobody_is_retired_early_without_great_harm() {
    for (kind, of) in KINDS.iter().enumerate() {
        let early = fates(kind, SKILLS)
            .iter()
            .filter(|f| f.turns < LEAST_FOR_RETIREMENT && f.verdict == Verdict::Harms)
            .count();
        let most = if of.effect < 0.0 { SKILLS as usize } else { SKILLS as usize / 100 };
        assert!(early <= most, "{}: {early}", of.name);
    }
}

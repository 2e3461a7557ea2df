//! Draws what the gate does with skills of known effect: `cargo run --release -p metaclaw-skills --example population > FILE.svg`.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

#[path = "../tests/population/sim.rs"]
mod sim;

use std::fmt::Write as _;

use metaclaw_skills::proof::Verdict;
use sim::{Fate, KINDS, live, share};

const SKILLS: u64 = 1_000;
const TURNS: u32 = 2_000;
/// Turns of a conversation that a skill fits, on average.
const LONG: u32 = 3;
const LEFT: f64 = 56.0;
const TOP: f64 = 76.0;
const WIDE: f64 = 300.0;
const HIGH: f64 = 200.0;
const GAP: f64 = 64.0;
const COLOURS: [&str; 5] = ["#1b7f4b", "#57b894", "#7a7f87", "#d98a3d", "#b3372f"];

fn main() {
    let all: Vec<Vec<Fate>> = KINDS
        .iter()
        .enumerate()
        .map(|(at, kind)| (0..SKILLS).map(|seed| live(*kind, LONG, 1_000_003 * seed + at as u64, TURNS)).collect())
        .collect();
    let panels = [("promoted", vec![Verdict::Helps]), ("retired", vec![Verdict::Harms, Verdict::NoUse])];
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"15\" font-weight=\"bold\">What becomes of skills with a known effect</text>\n\
         <text x=\"{LEFT}\" y=\"46\">{SKILLS} simulated skills of each kind; conversations of {LONG} turns, every fifth without the skill; looked at after every turn</text>\n",
        LEFT + 2.0 * WIDE + GAP + 20.0,
        TOP + HIGH + 130.0,
    );
    for (panel, (title, verdicts)) in panels.iter().enumerate() {
        let left = LEFT + panel as f64 * (WIDE + GAP);
        let x = |turns: u32| left + WIDE * f64::from(turns) / f64::from(TURNS);
        let y = |share: f64| TOP + HIGH * (1.0 - share);
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{title}</text>", TOP - 8.0);
        for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let _ = writeln!(
                svg,
                "<path d=\"M{left} {0:.1}H{1}\" stroke=\"#ddd\"/><text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{4:.0} %</text>",
                y(share),
                left + WIDE,
                left - 6.0,
                y(share) + 4.0,
                share * 100.0
            );
        }
        for turns in [0, 500, 1_000, 1_500, 2_000] {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{turns}</text>",
                x(turns),
                TOP + HIGH + 18.0
            );
        }
        if panel == 0 {
            let _ = writeln!(
                svg,
                "<path d=\"M{left} {0:.1}H{1}\" stroke=\"#b3372f\" stroke-dasharray=\"4 3\"/><text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\" fill=\"#b3372f\">5 %: the most that may happen to neutral ones</text>",
                y(0.05),
                left + WIDE,
                y(0.05) - 5.0
            );
        }
        for (fates, colour) in all.iter().zip(COLOURS) {
            let mut path = String::new();
            for turns in (0..=TURNS).step_by(20) {
                let share: f64 = verdicts.iter().map(|verdict| share(fates, *verdict, turns)).sum();
                let _ = write!(path, "{}{:.1} {:.1}", if turns == 0 { "M" } else { "L" }, x(turns), y(share));
            }
            let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
        }
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">turns that the skill fits</text>",
        LEFT + WIDE + GAP / 2.0,
        TOP + HIGH + 38.0
    );
    for (at, (kind, colour)) in KINDS.iter().zip(COLOURS).enumerate() {
        let fates = &all[at];
        let end = |verdict| share(fates, verdict, TURNS) * 100.0;
        let left = LEFT + f64::from(u32::try_from(at % 2).unwrap_or(0)) * (WIDE + GAP);
        let y = TOP + HIGH + 62.0 + 20.0 * f64::from(u32::try_from(at / 2).unwrap_or(0));
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {0}h22\" stroke=\"{colour}\" stroke-width=\"3\"/><text x=\"{1}\" y=\"{2}\">{3}: promoted {4:.1} %, retired {5:.1} %</text>",
            y - 4.0,
            left + 28.0,
            y,
            kind.name,
            end(Verdict::Helps),
            end(Verdict::Harms) + end(Verdict::NoUse)
        );
    }
    svg.push_str("</svg>");
    println!("{svg}");
}

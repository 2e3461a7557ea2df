//! One number for every state of the library: it grows when, and only when, what can be given to an agent changes. Every
//! agent has the number of the last change that concerned it, so a skill for one agent does not age the others' turns.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use xxhash_rust::xxh3::Xxh3;

use crate::bank::Bank;

/// The set of skills of one agent; `""` = what all share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// The number of its last change.
    pub number: i64,
    /// Names the set; the same on every machine.
    pub fingerprint: String,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Generations {
    number: i64,
    sets: BTreeMap<String, Set>,
}

impl Generations {
    /// As they were kept; `stamped` is the highest number that a turn has.
    pub fn new(sets: impl IntoIterator<Item = (String, Set)>, stamped: i64) -> Self {
        let sets: BTreeMap<String, Set> = sets.into_iter().collect();
        let number = sets.values().map(|set| set.number).max().unwrap_or(0).max(stamped);
        Self { number, sets }
    }

    /// The number of an agent's set.
    pub fn of(&self, agent: &str) -> i64 {
        let number = |agent: &str| self.sets.get(agent).map_or(0, |set| set.number);
        let own = if agent.is_empty() { 0 } else { number(&agent.to_ascii_lowercase()) };
        number("").max(own)
    }

    /// The number of the last change of any set.
    pub fn number(&self) -> i64 {
        self.number
    }

    /// All sets, by agent.
    pub fn sets(&self) -> impl Iterator<Item = (&str, &Set)> {
        self.sets.iter().map(|(agent, set)| (agent.as_str(), set))
    }

    /// The state of `bank` without the skills named in `off`. One change is one step, however many skills it touches.
    #[must_use]
    pub(crate) fn after(&self, bank: &Bank, off: &HashSet<String>) -> Self {
        let mut agents: BTreeSet<String> = self.sets.keys().cloned().collect();
        agents.insert(String::new());
        let used: Vec<_> =
            bank.skills().iter().filter(|s| bank.is_enabled(&s.name) && !s.manual && !off.contains(&s.name)).collect();
        agents.extend(used.iter().flat_map(|s| s.agents.iter().map(|agent| agent.to_ascii_lowercase())));
        let mut next = self.clone();
        for agent in agents {
            let mut hash = Xxh3::new();
            let mut any = false;
            let own = used.iter().filter(|s| {
                if agent.is_empty() { s.agents.is_empty() } else { !s.agents.is_empty() && s.is_for(Some(&agent)) }
            });
            for skill in own {
                any = true;
                hash.update(skill.name.as_bytes());
                hash.update(&skill.content_hash.to_le_bytes());
            }
            // An agent without skills of its own, and one that never had any, are the same.
            if !any && !agent.is_empty() && !self.sets.contains_key(&agent) {
                continue;
            }
            let fingerprint = format!("{:016x}", hash.digest());
            if self.sets.get(&agent).is_none_or(|set| set.fingerprint != fingerprint) {
                next.number = self.number + 1;
                next.sets.insert(agent, Set { number: next.number, fingerprint });
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::{Draft, parse};

    fn bank(skills: &[(&str, &str, &[&str])]) -> Bank {
        let skill = |(name, body, agents): &(&str, &str, &[&str])| {
            let draft = Draft {
                name: (*name).into(),
                description: "Use when asked.".into(),
                agents: agents.iter().map(|a| (*a).to_owned()).collect(),
                body: (*body).into(),
                ..Draft::default()
            };
            Arc::new(parse(Path::new("SKILL.md"), draft.text().as_bytes()).skill.unwrap())
        };
        Bank::new(skills.iter().map(skill).collect(), HashSet::new())
    }

    #[test]
    fn a_change_ages_only_those_whom_it_concerns() {
        let none = HashSet::new();
        let first = Generations::default().after(&bank(&[("a", "1", &[])]), &none);
        assert_eq!((first.of(""), first.of("mail")), (1, 1));
        assert_eq!(first.after(&bank(&[("a", "1", &[])]), &none), first, "no change, no step");
        let mail = first.after(&bank(&[("a", "1", &[]), ("b", "1", &["Mail"])]), &none);
        assert_eq!((mail.of(""), mail.of("mail"), mail.of("research")), (1, 2, 1));
        let shared = mail.after(&bank(&[("a", "2", &[]), ("b", "1", &["mail"]), ("c", "1", &[])]), &none);
        assert_eq!((shared.of(""), shared.of("mail"), shared.of("research")), (3, 3, 3), "one change is one step");
        let gone = shared.after(&bank(&[("a", "2", &[]), ("c", "1", &[])]), &none);
        assert_eq!((gone.of("research"), gone.of("mail")), (3, 4));
        let off = gone.after(&bank(&[("a", "2", &[]), ("c", "1", &[])]), &HashSet::from(["c".to_owned()]));
        assert_eq!(off.of("mail"), 5, "a skill that is switched off is not there");
    }

    #[test]
    fn numbers_go_on_after_a_restart() {
        let none = HashSet::new();
        let one = bank(&[("a", "1", &[])]);
        let first = Generations::default().after(&one, &none);
        let kept: Vec<_> = first.sets().map(|(agent, set)| (agent.to_owned(), set.clone())).collect();
        assert_eq!(Generations::new(kept.clone(), 1).after(&one, &none).of(""), 1);
        let changed = Generations::new(kept, 7).after(&bank(&[("a", "2", &[])]), &none);
        assert_eq!(changed.of(""), 8, "no number that a turn has is given to another set");
    }
}

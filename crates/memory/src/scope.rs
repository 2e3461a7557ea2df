//! Whose memory it is. Scope strings are the ones old clients know (`user:U|workspace:W`), with separators inside names
//! escaped, so that nobody can name himself into another's memory.

use store::Scope;

/// The scope of those who name none.
pub const DEFAULT_SCOPE: &str = "default";

/// The scope a request belongs to: an explicit one as it is, else user and workspace, else `default`. Session segments
/// are only labels and are left out.
pub fn scope_of(scope: &Scope, default: &str) -> String {
    let named = |value: &Option<String>| value.as_deref().map(clean).filter(|v| !v.is_empty());
    if let Some(explicit) = named(&scope.memory_scope) {
        return base_scope(&explicit, default);
    }
    match (named(&scope.user_id), named(&scope.workspace_id)) {
        (Some(user), Some(workspace)) => format!("user:{}|workspace:{}", escape(&user), escape(&workspace)),
        (None, Some(workspace)) => format!("workspace:{}", escape(&workspace)),
        (Some(user), None) => format!("user:{}", escape(&user)),
        (None, None) => base_scope(default, DEFAULT_SCOPE),
    }
}

/// A scope without its session segments; `default` where nothing else is left.
pub fn base_scope(scope: &str, default: &str) -> String {
    let kept: Vec<&str> =
        scope.split('|').map(str::trim).filter(|s| !s.is_empty() && !s.starts_with("session:")).collect();
    if kept.is_empty() { clean(default) } else { kept.join("|") }
}

/// What a scope is taken down to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Within<'a> {
    /// Only what this agent has heard, where agents have memories of their own.
    pub agent: Option<&'a str>,
    /// Only what was said in this session, which is a group's.
    pub group: Option<&'a str>,
}

/// What begins the part of a scope string that is an agent's, and the part that is a group's.
const AGENT: &str = "@agent:";
const GROUP: &str = "@group:";

/// The scope a request belongs to within an agent or a group; whoever it names, it stays within. Written as an explicit
/// scope, so that it is the same wherever it is read.
pub fn narrow(scope: &Scope, default: &str, within: Within<'_>) -> Scope {
    if within == Within::default() {
        return scope.clone();
    }
    let agent = within.agent.map(|agent| format!("{AGENT}{}", escape(&clean(agent))));
    let group = within.group.map(|session| format!("{GROUP}{}", escape(&clean(session))));
    let parts = [agent, Some(scope_of(scope, default)), group];
    let narrowed: Vec<String> = parts.into_iter().flatten().collect();
    Scope { memory_scope: Some(narrowed.join("|")), ..scope.clone() }
}

/// A scope as it was before it was narrowed.
pub fn widen(scope: &Scope, default: &str) -> Scope {
    let Some(told) = &scope.memory_scope else { return scope.clone() };
    let mut whole = told.as_str();
    if whole.starts_with(AGENT) {
        whole = whole.split_once('|').map_or("", |(_, rest)| rest);
    }
    if let Some((rest, last)) = whole.rsplit_once('|')
        && last.starts_with(GROUP)
    {
        whole = rest;
    }
    if whole.len() == told.len() {
        return scope.clone();
    }
    let bare = Scope { memory_scope: None, ..scope.clone() };
    let explicit = !whole.is_empty() && whole != scope_of(&bare, default);
    Scope { memory_scope: explicit.then(|| whole.to_owned()), ..bare }
}

/// Whether a scope is a group's.
pub fn is_groups(scope: &Scope) -> bool {
    let told = scope.memory_scope.as_deref().unwrap_or_default();
    told.rsplit('|').next().is_some_and(|last| last.starts_with(GROUP))
}

/// Whether a scope string is this agent's own.
pub fn is_agents(scope: &str, agent: &str) -> bool {
    let own = format!("{AGENT}{}", escape(&clean(agent)));
    scope.split('|').next() == Some(own.as_str())
}

fn clean(value: &str) -> String {
    value.trim().replace(['\n', '\r'], " ")
}

fn escape(value: &str) -> String {
    value.replace('%', "%25").replace('|', "%7C").replace(':', "%3A")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope(user: &str, workspace: &str, explicit: &str) -> String {
        let some = |v: &str| (!v.is_empty()).then(|| v.to_owned());
        let scope = Scope { user_id: some(user), workspace_id: some(workspace), memory_scope: some(explicit) };
        scope_of(&scope, DEFAULT_SCOPE)
    }

    #[test]
    fn an_explicit_scope_wins_then_user_and_workspace_then_the_default() {
        assert_eq!(scope("alice", "x", "team:red"), "team:red");
        assert_eq!(scope("alice", "x", ""), "user:alice|workspace:x");
        assert_eq!(scope("", "x", ""), "workspace:x");
        assert_eq!(scope(" alice\n", "", ""), "user:alice");
        assert_eq!(scope("", "", ""), "default");
    }

    #[test]
    fn a_session_is_only_a_label() {
        assert_eq!(scope("", "", "user:a|session:s1"), "user:a");
        assert_eq!(scope("", "", "session:s1"), "default");
    }

    fn of(user: &str, workspace: &str, explicit: &str) -> Scope {
        let some = |v: &str| (!v.is_empty()).then(|| v.to_owned());
        Scope { user_id: some(user), workspace_id: some(workspace), memory_scope: some(explicit) }
    }

    fn within(scope: &Scope, agent: Option<&str>, group: Option<&str>) -> String {
        scope_of(&narrow(scope, DEFAULT_SCOPE, Within { agent, group }), DEFAULT_SCOPE)
    }

    #[test]
    fn what_is_narrowed_says_so_and_can_be_taken_back() {
        let alice = of("alice", "", "");
        assert_eq!(within(&alice, Some("codex"), None), "@agent:codex|user:alice");
        assert_eq!(within(&of("", "", ""), None, Some("s 1")), "default|@group:s 1");
        assert_eq!(within(&of("", "", "team:red"), Some("a:b"), Some("x|y")), "@agent:a%3Ab|team:red|@group:x%7Cy");
        assert_eq!(narrow(&alice, DEFAULT_SCOPE, Within::default()), alice);
        // Old scope strings are what they were.
        for told in ["agent:planner", "user:a|group:b", "team"] {
            assert_eq!(widen(&of("", "", told), DEFAULT_SCOPE), of("", "", told));
            assert!(!is_groups(&of("", "", told)));
        }
    }

    /// Names with the letters that scope strings are made of.
    fn name() -> impl Strategy<Value = String> {
        prop::collection::vec(
            prop::sample::select(vec![
                "a",
                "b",
                "|",
                ":",
                "%",
                "@",
                " ",
                "user:",
                "workspace:",
                "@agent:",
                "@group:",
                "session:",
                "%7C",
                "\n",
                "中",
            ]),
            0..6,
        )
        .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn different_users_and_workspaces_have_different_scopes(a in (name(), name()), b in (name(), name())) {
            let clean = |(user, workspace): &(String, String)| (clean(user), clean(workspace));
            let scope = |(user, workspace): &(String, String)| scope_of(&of(user, workspace, ""), DEFAULT_SCOPE);
            prop_assert_eq!(clean(&a) == clean(&b), scope(&a) == scope(&b));
        }

        #[test]
        fn no_agent_reaches_into_anothers(
            one in "[a-z:._~-]{1,6}", other in "[a-z:._~-]{1,6}",
            a in (name(), name(), name()), b in (name(), name(), name()), group in prop::option::of("[a-z|:% ]{1,5}"),
        ) {
            prop_assume!(one != other);
            let mine = within(&of(&a.0, &a.1, &a.2), Some(&one), group.as_deref());
            let his = within(&of(&b.0, &b.1, &b.2), Some(&other), None);
            prop_assert_ne!(&mine, &his);
            prop_assert!(is_agents(&mine, &one) && !is_agents(&mine, &other));
        }

        #[test]
        fn no_group_sees_what_was_said_elsewhere(
            session in "[a-z|:%@]{1,6}", other in "[a-z|:%@]{1,6}", a in (name(), name(), name()), b in (name(), name()),
        ) {
            let group = within(&of(&a.0, &a.1, &a.2), None, Some(&session));
            prop_assert_ne!(&group, &scope_of(&of(&b.0, &b.1, ""), DEFAULT_SCOPE), "a private scope");
            if session != other {
                prop_assert_ne!(&group, &within(&of(&a.0, &a.1, &a.2), None, Some(&other)), "another group");
            }
            let within = Within { agent: None, group: Some(&session) };
            let narrowed = narrow(&of(&a.0, &a.1, &a.2), DEFAULT_SCOPE, within);
            prop_assert!(is_groups(&narrowed));
        }

        #[test]
        fn a_narrowed_scope_stays_what_it_is(a in (name(), name()), agent in "[a-z]{1,4}", session in "[a-z|:%]{1,5}") {
            let scope = of(&clean(&a.0), &clean(&a.1), "");
            for within in [
                Within { agent: Some(&agent), group: None },
                Within { agent: None, group: Some(&session) },
                Within { agent: Some(&agent), group: Some(&session) },
            ] {
                let narrowed = narrow(&scope, DEFAULT_SCOPE, within);
                let told = scope_of(&narrowed, DEFAULT_SCOPE);
                prop_assert_eq!(&base_scope(&told, DEFAULT_SCOPE), &told);
                prop_assert_eq!(&widen(&narrowed, DEFAULT_SCOPE), &scope);
                prop_assert_eq!(narrow(&widen(&narrowed, DEFAULT_SCOPE), DEFAULT_SCOPE, within), narrowed);
            }
        }
    }

    #[test]
    fn a_name_cannot_reach_into_another_scope() {
        assert_ne!(scope("alice|workspace:x", "", ""), scope("alice", "x", ""));
        assert_ne!(scope("a:b", "", ""), scope("a%3Ab", "", ""));
    }
}

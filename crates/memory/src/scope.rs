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

fn clean(value: &str) -> String {
    value.trim().replace(['\n', '\r'], " ")
}

fn escape(value: &str) -> String {
    value.replace('%', "%25").replace('|', "%7C").replace(':', "%3A")
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_name_cannot_reach_into_another_scope() {
        assert_ne!(scope("alice|workspace:x", "", ""), scope("alice", "x", ""));
        assert_ne!(scope("a:b", "", ""), scope("a%3Ab", "", ""));
    }
}

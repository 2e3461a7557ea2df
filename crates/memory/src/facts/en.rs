//! English statements.

use super::{Statement, group, patterns};

patterns! {
    question = r"(?i)\?\s*$|^(?:and |so |but |ok,? |hey,? |hi,? )*(?:what|who|whom|whose|where|when(?: do| did| is| are| was| will| should)|why|how|which|do (?:i|you|we|they)|does|did|is (?:it|this|that|there|my|the)|are (?:you|we|they|there)|am i|can (?:i|you|we)|could (?:i|you|we)|should (?:i|we)|would (?:you|it)|will (?:you|it|we)|have (?:you|i|we)|has)\b";
    maybe = r"(?i)^(?:and |so |but )*(?:if|suppose|supposing|imagine|assum(?:e|ing)|pretend|let'?s say|say (?:i|we)|what if|unless|in case)\b|\b(?:i wish|i might|i may|we might|we may|maybe|perhaps|possibly|would have|could have|hypothetically|as if|if (?:i|we) (?:were|was|had|lived|used)|were to|for example|not sure (?:if|whether)|i wonder|thinking (?:of|about)|considering)\b";
    told = r"(?i)^(?:he|she|they|someone|somebody|people|my \w+|the \w+|[A-Z]\w+) (?:said|says|told|thinks?|claims?|asked|wrote|believes?)\b|\baccording to\b";
    rule = r"(?i)^(?:(?:please|so|and|also|but|no|ok(?:ay)?|actually|well|just|remember|important|note|rule|reminder|from now on|from here on|in (?:the )?future|going forward|as a rule|in general|by default|for (?:all )?future \w+|when(?:ever)? [^,]{3,80}|if [^,]{3,80}|i want you to|i(?:'d| would) like you to|i need you to|you (?:should|must|need to|have to)|we (?:should|must)|let'?s)[,:]?\s+)*(?P<verb>always|never(?: ever)?|don'?t(?: ever)?|do not(?: ever)?|must not|mustn'?t|should not|shouldn'?t|not|avoid|refrain from|stop|make sure(?: to| that)?|ensure(?: that)?|be sure to|remember to)\s+(?P<what>.{3,})$";
    rule_inside = r"(?i)\b(?:you|we|agents?|the (?:bot|assistant|agent))\s+(?P<verb>must not|mustn'?t|must never|must always|should never|should always|shouldn'?t|should not|may not|must|are not allowed to|cannot|can'?t)\s+(?P<what>.{3,})$";
    standing = r"(?i)^(?:please |and |so |also,? |then,? |actually,? )*(?:from now on|from here on|in (?:the )?future|going forward|by default|every time|whenever [^,]{3,60}|for all \w+),?\s+(?:please )?(?P<what>[a-z].{3,})$|^(?:please )?(?P<what2>(?:use|write|answer|reply|respond|address|format|speak|keep|call|send|put|name|sign)\b.{3,}?)(?:\s+(?:from now on|going forward|in (?:the )?future|by default|every time|always|at all times))[.!]*$";
    not_rule = r"(?i)^(?:worry|know|think|mind|bother|understand|get me wrong|care|see|have time|be (?:sorry|silly|afraid))\b";
    forget_to = r"(?i)^forget to (?P<what>.{3,})$";
    allowed = r"(?i)^(?:ok(?:ay)?,? |actually,? |now,? |from now on,? |alright,? |and )*(?:you (?:can|may)|it(?:'s| is) (?:now )?(?:ok|okay|fine|alright|all right|allowed) (?:again )?to|feel free to|no need to avoid|(?:you )?(?:don'?t|do not) (?:have|need) to avoid)\s+(?:now |again )?(?P<what>.{3,}?)(?:\s+(?:again|now|from now on|after all|going forward))*[.!]*$";
    retract = r"(?i)^(?:please |actually,? |ok(?:ay)?,? |no,? )*(?:forget (?:that|what i said about|about|my|the rule (?:about|on|that))|never ?mind (?:about |what i said about )?|scratch (?:that|what i said about)|ignore what i said about|disregard what i said about|cancel the rule (?:about|on))\s*(?P<what>.*?)[.!]*$";
    prefix = r"(?i)^(?:please |and |so |also,? |oh,? |ok,? |actually,? |no,? |sorry,? |correction[,:]? |update[,:]? |well,? |hi,? |hello,? |hey,? )*(?:(?:remember|keep in mind|note|be aware|for the record|fyi|for your information|just so you know|for (?:your|future) reference|for context|by the way|btw|important)[,:]?\s*(?:that\s+)?)(?P<rest>.{5,})$";
    lead = r"(?i)^(?:(?:and|so|also|oh|ok|okay|actually|no|nope|sorry|correction|update|well|hi|hello|hey|wait|yes|yeah|in fact|these days|nowadays|now|currently|as of \w+|since \w+)[,:.!]?\s+)+";
    switched = r"(?i)\b(?P<who>i|we|they|the \w+|our \w+)\b.{0,24}\b(?:switch(?:ed|ing)?|mov(?:ed|ing)|migrat(?:ed|ing)|chang(?:ed|ing)|upgrad(?:ed|ing)|went|convert(?:ed|ing)|relocated)\b.{0,24}?\bfrom (?P<from>[^,.;]{2,40}?) (?:over )?to (?P<to>[^,;]{2,60}?)[.!]*$";
    instead = r"(?i)\b(?P<to>[^,.;]{2,50}?),? (?:instead of|rather than|and no longer|not|and not|no longer) (?P<from>[^,.;]{2,40}?)(?:\s+(?:any ?more|now))?[.!]*$";
    not_but = r"(?i)\b(?:not|isn'?t|aren'?t|wasn'?t) (?P<from>[^,.;]{2,40}?)(?:,| but|;| -|\. )\s*(?:but |it'?s |it is |they'?re |they are |rather )?(?P<to>[^,;]{2,50}?)[.!]*$";
    name = r"(?i)\b(?:my name(?:'s| is)|call me|i am called|i'm called|i go by)\s+(?:now )?(?P<what>[\w'’.-]+(?: [A-Z][\w'’.-]+){0,3})";
    live = r"(?i)\bi(?:'m| am|'ve| have)?\s+(?:now |currently |just |recently |actually |still )*(?P<not>don'?t |do not |no longer |not )?(?:live|living|based|moved?|moving|relocated|relocating|staying|settled)\s+(?:back |out |over )?(?:in|to|at|near)\s+(?P<what>[^,.;!]{2,60})";
    work = r"(?i)\bi(?:'m| am|'ve)?\s+(?:now |currently |just |recently |still )*(?P<not>don'?t |do not |no longer |not )?(?:work|working|started(?: working)?|employed)\s+(?:at|for|with|by)\s+(?P<what>[^,.;!]{2,60})|\bi\s+(?:just |have |recently )*(?P<left>left|quit|resigned from)\s+(?:my job at |working at )?(?P<what2>[^,.;!]{2,60})";
    allergic = r"(?i)\bi(?:'m| am)\s+(?P<not>not |no longer )?(?:\w+ )?allergic to\s+(?P<what>[^,.;!]{2,60})";
    age = r"(?i)\bi(?:'m| am| just turned| turned)\s+(?:now )?(?P<what>\d{1,3})(?: years old)?(?:\s*[.!]*$|,| now| today)";
    am = r"(?i)\bi(?:'m| am)\s+(?:now |actually |also |still )*(?P<not>not |no longer )?(?:an? (?P<what>[^,.;!]{3,60})|(?P<state>vegetarian|vegan|pescatarian|diabetic|married|single|divorced|engaged|retired|pregnant|left[- ]handed|colou?r[- ]?blind|lactose intolerant|gluten[- ]free|unemployed|dyslexic|deaf|blind)\b)";
    born = r"(?i)\bi (?:was born|grew up|come|am|'m) (?:in|on|from)\s+(?P<what>[^,.;!]{2,60})";
    prefer = r"(?i)\bi(?:'d| would)?\s+(?:now |really |much |strongly |generally |usually |always |still |actually )*(?P<not>don'?t |do not |no longer )?(?:prefer|rather(?: have| use| get)?|favou?r)\s+(?P<what>[^.;!]{2,80})";
    like = r"(?i)\bi\s+(?:now |really |absolutely |still |just |also |actually |do |truly |quite |simply |always |totally )*(?P<not>(?:don'?t|do not|didn'?t|never|no longer|can'?t|cannot|won'?t)\s+(?:really |actually |even |usually |want to )*)?(?P<verb>like|love|enjoy|hate|dislike|loathe|detest|stand|adore|appreciate|want|need|use|drink|eat|smoke|speak|play|drive|own|have|wear|watch|read|study|take|celebrate|gave up|quit|stopped|started)\s+(?P<what>[^;!]{2,80})";
    passing = r"(?i)^(?:to (?:know|see|go|ask|understand|find|get|make|do|be|have|learn|try|talk|write|create|build|fix|add|check|test|think|say)\b|you to\b|it\b|that\b|this\b|your\b|some help|help\b|a (?:question|problem|minute|moment|look|headache|cold|idea|feeling|lot\b)|an (?:idea|error|issue|answer)|no idea|time\b|read\b|the (?:file|error|code|log|result|function)\b|been\b|had\b|to\b)";
    my = r"(?i)\b(?:my|our)\s+(?P<what>[\w'’ -]{2,40}?)\s+(?:(?P<is>is|are)(?P<not> not| no longer|n'?t)?(?: now| called| named| currently)?|(?P<isnt>isn'?t|aren'?t)|(?:has |have )?(?:changed|moved) to|(?:will be|is going to be) (?P<wont>not )?)\s+(?P<value>[^;!]{1,80})";
    my_vague = r"(?i)^(?:question|point|guess|idea|issue|problem|error|code|bad|mistake|concern|understanding|apologies|thought|thanks|best|first|next|god|goodness)\b";
    the = r"(?i)^(?:the|this)\s+(?P<what>[\w'’ /-]{2,40}?)\s+(?:(?P<is>is|are)(?P<not> not| no longer|n'?t)?(?: now| called| named)?|(?P<isnt>isn'?t|aren'?t)|(?:has |have )?(?:been )?(?:changed|moved|renamed|rescheduled|postponed) to|will be)\s+(?P<value>[^;!]{1,80})";
    uses = r"(?i)\b(?P<who>we|our \w+(?: \w+)?|(?:the|this) (?:\w+ )?(?:project|repo|repository|codebase|service|backend|frontend|app|application|server|database|team|company|api|pipeline|site|product))\s+(?:now |currently |always |all |still |actually |only )*(?P<not>(?:don'?t|do not|doesn'?t|does not|no longer|never|aren'?t|are not|stopped) )?(?:are |is )?(?:use|uses|using|run|runs|running|deploy|deploys|deploying|target|targets|require|requires|support|supports|depend on|depends on|ship|ships|test|tests|host|hosts|build|builds)\s+(?P<what>[^,;!]{2,60})";
    passing_state = r"(?i)^(?:\w+ing\b|broken|wrong|missing|empty|slow|slower|fast|down|up|ready|done|good|bad|great|fine|ok|okay|nice|correct|right|perfect|clear|unclear|weird|strange|red|late|here|there|gone|too\b|very\b|so\b|really\b|quite\b|a bit\b|a mess|still\b|just\b|only\b|also\b|in the way|full|sick|tired|fun|hard|easy)(?:\W|$)";
    decided = r"(?i)\bwe(?:'ve| have)?\s+(?:decided|agreed|chose|settled)\s+(?P<not>not |against )?(?:to |on |that )?(?P<what>[^;!]{3,80})";
}

pub(super) fn understand(sentence: &str) -> Option<Statement> {
    let p = PATTERNS.as_ref()?;
    if p.question.is_match(sentence) {
        return None;
    }
    if let Some(found) = p.retract.captures(sentence) {
        let what = group(&found, "what");
        return (!what.is_empty()).then(|| {
            let mut statement = about(p, what).unwrap_or_else(|| Statement::new("semantic"));
            if statement.slot.is_none() {
                statement = statement.replaces(what);
            }
            Statement { retracts: true, value: None, ..statement }
        });
    }
    let sentence = sentence.replace('’', "'");
    if let Some(found) = p.prefix.captures(&sentence) {
        let rest = group(&found, "rest");
        if p.maybe.is_match(rest) {
            return None;
        }
        return Some(about(p, rest).unwrap_or_else(|| Statement::new("semantic")));
    }
    about(p, &sentence)
}

fn about(p: &Patterns, sentence: &str) -> Option<Statement> {
    if let Some(found) = p.rule.captures(sentence) {
        let what = group(&found, "what");
        let verb = group(&found, "verb").to_lowercase();
        let dont = verb.starts_with("don") || verb.starts_with("do not");
        if let Some(found) = p.forget_to.captures(what).filter(|_| dont) {
            return Some(rule(group(&found, "what"), false));
        }
        let polite = verb == "not" || (dont && p.not_rule.is_match(what));
        let negative = dont
            || matches!(verb.as_str(), "avoid" | "stop" | "refrain from")
            || verb.contains("not")
            || verb.starts_with("never")
            || verb.contains("n't")
            || verb.contains("nt");
        if !polite {
            return Some(rule(what, negative));
        }
    }
    if let Some(found) = p.allowed.captures(sentence) {
        return Some(Statement { retracts: true, ..rule(group(&found, "what"), false) });
    }
    if p.maybe.is_match(sentence) || p.told.is_match(sentence) {
        return None;
    }
    if let Some(found) = p.standing.captures(sentence) {
        let what = if group(&found, "what").is_empty() { group(&found, "what2") } else { group(&found, "what") };
        return Some(rule(what, false));
    }
    if let Some(found) = p.rule_inside.captures(sentence) {
        let verb = group(&found, "verb").to_lowercase();
        let negative = verb.contains("not") || verb.contains("n't") || verb.contains("never") || verb == "mustnt";
        if negative || verb.contains("always") || verb == "must" {
            return Some(rule(group(&found, "what"), negative));
        }
    }
    if let Some(found) = p.switched.captures(sentence) {
        let (from, to) = (group(&found, "from"), group(&found, "to"));
        let kind = if group(&found, "who").eq_ignore_ascii_case("i") { "semantic" } else { "project_state" };
        if p.live.is_match(sentence) {
            return Some(Statement::new("semantic").only("residence").value(to));
        }
        return Some(Statement::new(kind).slot("use", to).value(to).replaces(from));
    }
    let bare = p.lead.replace(sentence, "");
    let mut statement = state(p, &bare)?;
    if let Some(found) = p.instead.captures(&bare).or_else(|| p.not_but.captures(&bare)) {
        let before = &bare[..found.get(0).map_or(0, |m| m.start())];
        if before.len() < bare.len() {
            statement = statement.replaces(group(&found, "from"));
            if p.not_but.is_match(&bare) && !p.instead.is_match(&bare) {
                let to = group(&found, "to");
                statement = statement.value(to).negative(false);
            }
        }
    }
    Some(statement)
}

fn state(p: &Patterns, sentence: &str) -> Option<Statement> {
    let is = |found: &regex::Captures<'_>, name: &str| found.name(name).is_some();
    if let Some(found) = p.name.captures(sentence) {
        return Some(Statement::new("semantic").only("name").value(group(&found, "what")));
    }
    if let Some(found) = p.allergic.captures(sentence) {
        let what = clause(group(&found, "what"));
        return Some(Statement::new("semantic").slot("allergic", what).value(what).negative(is(&found, "not")));
    }
    if let Some(found) = p.live.captures(sentence) {
        return Some(
            Statement::new("semantic")
                .only("residence")
                .value(clause(group(&found, "what")))
                .negative(is(&found, "not")),
        );
    }
    if let Some(found) = p.work.captures(sentence) {
        let what = if is(&found, "left") { group(&found, "what2") } else { group(&found, "what") };
        let negative = is(&found, "not") || is(&found, "left");
        return Some(Statement::new("semantic").only("employer").value(clause(what)).negative(negative));
    }
    if let Some(found) = p.prefer.captures(sentence) {
        return Some(prefer(group(&found, "what"), is(&found, "not")));
    }
    if let Some(found) = p.decided.captures(sentence) {
        let what = clause(group(&found, "what"));
        return Some(Statement::new("project_state").slot("use", what).value(what).negative(is(&found, "not")));
    }
    if let Some(found) = p.uses.captures(sentence) {
        let what = clause(group(&found, "what"));
        return Some(Statement::new("project_state").slot("use", what).value(what).negative(is(&found, "not")));
    }
    if let Some(found) = p.my.captures(sentence).filter(|f| !p.my_vague.is_match(group(f, "what")) && lasting(p, f)) {
        return Some(attribute("semantic", &found));
    }
    if let Some(found) = p.am.captures(sentence) {
        let what = if is(&found, "state") { group(&found, "state") } else { clause(group(&found, "what")) };
        return Some(Statement::new("semantic").slot("am", what).value(what).negative(is(&found, "not")));
    }
    if let Some(found) = p.age.captures(sentence) {
        return Some(Statement::new("semantic").only("age").value(group(&found, "what")));
    }
    if let Some(found) = p.born.captures(sentence) {
        return Some(Statement::new("semantic").only("origin").value(clause(group(&found, "what"))));
    }
    if let Some(found) = p.like.captures(sentence).filter(|f| !p.passing.is_match(group(f, "what"))) {
        let what = clause(group(&found, "what"));
        let verb = group(&found, "verb").to_lowercase();
        let mut negative = is(&found, "not");
        let class = match verb.as_str() {
            "hate" | "dislike" | "loathe" | "detest" => {
                negative = !negative;
                "like"
            }
            "gave up" | "quit" | "stopped" => {
                negative = true;
                "do"
            }
            "like" | "love" | "enjoy" | "adore" | "appreciate" | "stand" | "want" | "need" => "like",
            _ => "do",
        };
        if verb == "stand" && !negative {
            return None;
        }
        let object = what
            .strip_prefix("drinking ")
            .or_else(|| what.strip_prefix("eating "))
            .or_else(|| what.strip_prefix("using "))
            .unwrap_or(what);
        let kind = if class == "like" || verb == "use" { "preference" } else { "semantic" };
        return Some(Statement::new(kind).slot(class, object).value(object).negative(negative));
    }
    if let Some(found) = p.the.captures(sentence).filter(|f| lasting(p, f)) {
        return Some(attribute("project_state", &found));
    }
    None
}

/// `is failing`, `is great` pass; what lasts is a name, a place, a date, a thing.
fn lasting(p: &Patterns, found: &regex::Captures<'_>) -> bool {
    !p.passing_state.is_match(group(found, "value"))
}

fn attribute(kind: &'static str, found: &regex::Captures<'_>) -> Statement {
    let negative = ["not", "isnt", "wont"].iter().any(|name| found.name(name).is_some());
    Statement::new(kind).slot("attr", group(found, "what")).value(clause(group(found, "value"))).negative(negative)
}

fn rule(what: &str, negative: bool) -> Statement {
    let what = clause(what);
    let bare = what.strip_prefix("to ").unwrap_or(what);
    Statement::new("procedural_observation").slot("rule", bare).value(bare).negative(negative)
}

/// `dark mode over light mode`: the kind of thing is its last word, and what it is preferred to is not preferred.
fn prefer(what: &str, negative: bool) -> Statement {
    let lower = what.to_lowercase();
    let split = [" over ", " to ", " rather than ", " instead of ", " than "]
        .iter()
        .find_map(|w| lower.find(w).and_then(|at| Some((what.get(..at)?, what.get(at + w.len()..)?))));
    let (what, other) = split.unwrap_or((what, ""));
    let what = clause(what);
    let last = |phrase: &str| phrase.split_whitespace().next_back().unwrap_or("").to_owned();
    let mut statement = Statement::new("preference").slot("prefer", &last(what)).value(what).negative(negative);
    let other = super::norm(&last(clause(other)));
    if !other.is_empty() && statement.slot.as_deref() != Some(&format!("prefer:{other}")) {
        statement.closes.push(format!("prefer:{other}"));
    }
    statement
}

/// The phrase up to where its clause ends.
fn clause(phrase: &str) -> &str {
    let lower = phrase.to_lowercase();
    let ends = [
        ", ",
        "; ",
        " because ",
        " but ",
        " since ",
        " so that ",
        " any more",
        " anymore",
        " these days",
        " at all",
        " now",
        " again",
        " when ",
        " while ",
        " if ",
        " unless ",
        " without ",
        " until ",
        " - ",
        " right now",
        " from now on",
        " and i ",
        " and we ",
        " any longer",
    ];
    let end = ends.iter().filter_map(|e| lower.find(e)).min().unwrap_or(phrase.len());
    phrase.get(..end).unwrap_or(phrase).trim_end_matches(['.', '!', ',', ' '])
}

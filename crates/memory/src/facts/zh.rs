//! Chinese statements.

use super::{Statement, group, patterns};

patterns! {
    question = r"[？?]\s*$|[吗么呢]\s*[。！]?$|是不是|有没有|要不要|会不会|能不能|可不可以|什么|怎么|怎样|为什么|哪[里个些儿]|谁|多少|几[个点号]";
    maybe = r"^(?:如果|假如|要是|假设|万一|倘若|假使|比如说?)|可能|也许|大概|或许|说不定|考虑|打算要不|要不然|本来可以";
    told = r"^(?:他|她|他们|她们|有人|别人|老板|同事|我?[的]?\p{Han}{1,4})(?:说|告诉|认为|觉得|问)";
    rule_not = r"(?:^|[，,：:、。]|请|记住|以后|今后|开始|起|你|您|我们|都|务必|一定|千万|绝对|永远|，)(?P<verb>永远不要|永远别|千万不要|千万别|绝对不要|绝对不能|绝不能|一定不要|不要再|别再|不要|不得|不能|不可以|不许|不准|禁止|切勿|请勿|避免|别)(?P<what>[^，。！；]{2,40})";
    rule_yes = r"(?:^|[，,：:、。]|请|记住|以后|今后|开始|起|你|您|我们|都)(?P<verb>一定要|务必|必须|总是要?|始终要?|永远要?|记得|每次都要?|都要|都用|一律)(?P<what>[^，。！；]{2,40})";
    standing = r"^(?:请|那|好，|好的，)?(?:以后|今后|从现在起|从现在开始|从今以后|从今天起|将来)[，,]?(?:请|都|就)*(?P<what>[^，。！；]{2,40})";
    not_rule = r"^(?:紧|客气|担心|着急|说|人|的|谢|理解|忘记(?P<what>.+))";
    allowed = r"^(?:现在|好的?，|其实，?|以后)*(?:你|您|我们)?(?:现在|以后|又)*(?:可以|允许|能)(?:再)?(?P<what>[^，。！；]{2,40}?)(?:了|啦|没问题)";
    retract = r"^(?:请|那|算了，?)*(?:忘掉|忘了|忘记|不用管|取消|作废|撤销|收回|别管)(?:我)?(?:之前|刚才|以前)?(?:说的?|提到的?)?(?:关于)?(?P<what>[^。！]{2,30}?)(?:的?(?:规定|要求|话|事|事情|那条|规则))?[。！]?$";
    prefix = r"^(?:请|对了，?|另外，?|顺便说一下，?)*(?:记住|记一下|注意|备注|提醒一下|供参考|顺便说(?:一下|一句)?|补充一下|更正(?:一下)?|说明一下)[，,：:]?(?P<rest>.{3,})$";
    switched = r"(?:从|由)(?P<from>[^，。！从由]{1,24}?)(?:换|迁移|改|切换|升级|转|迁|搬)(?:用)?(?:成|到|为|去)?了?(?P<to>[^，。！；]{1,24}?)了?[。！]?$|把(?P<from2>[^，。！]{1,20}?)(?:换|改|迁移|切换|升级)(?:成|到|为)了?(?P<to2>[^，。！；]{1,24}?)了?[。！]?$";
    not_but = r"(?:不再?是|不叫|不用|并非|并不是)(?P<from>[^，。！；]{1,24}?)[，,]?(?:了)?[，,]?(?:而是|而用|是|改成|改用|叫|用)(?P<to>[^，。！；]{1,24})";
    name = r"(?:我(?:的名字)?(?:现在)?(?:叫|名叫)|我的名字是|请?叫我)(?P<what>[^，。！；]{1,16})";
    live = r"我(?:们)?(?:现在|目前|已经|刚|刚刚|早就|其实|又|最近|上个?月|去年|今年|昨天)*(?P<not>不再|已经不|不|没有?)?(?:住在?|搬到|搬去|搬来|搬回|定居在?|移居到?)了?(?P<what>[^，。！；了]{1,20})";
    work = r"我(?:现在|目前|已经|刚|刚刚|其实)*(?P<not>不再|已经不|不|没有?)?在(?P<what>[^，。！；]{1,20}?)(?:工作|上班|任职|就职)|我(?:已经|刚|刚刚)?从(?P<left>[^，。！；]{1,20}?)(?:离职|辞职)";
    allergic = r"我(?:现在|已经|其实)*(?P<not1>不再|不)?对(?P<what>[^，。！；]{1,20}?)(?:已经)?(?P<not>不再|不|没有)?过敏";
    prefer = r"我(?:现在|还是|其实|更|比较|一般|通常)*(?P<not>不)?(?:更喜欢|偏好|偏爱|更愿意用?|宁愿用?|倾向于?)(?P<what>[^，。！；]{1,30})";
    like = r"我(?:们)?(?:现在|真的|真|很|非常|特别|最|比较|也|还是|已经|其实|一直|平时|每天|最近|早就|都|再也)*(?P<not>不再|从来不|从不|并不|再也不|已经不|不太|不怎么|不想要?|没有?|不)?(?:很|太|怎么|想|再)*(?P<verb>喜欢|热爱|爱吃|爱喝|爱|讨厌|反感|受不了|想要|需要|使用|用|喝|吃|抽|戒了?|会说|会|养了?|有|学|玩|开|看|习惯|穿|戴)(?P<what>[^，。！；]{1,30})";
    passing = r"^(?:你|问题|一个问题|这个|那个|知道|一下|时间|空|没|点事|事)";
    my = r"我(?:们)?(?:家|的)(?P<what>[^，。！；是叫]{1,12}?)(?:的名字)?(?:现在|已经)*(?P<not>不是|不叫|不再是|不在|没有)?(?P<verb>是|叫|改成了?|换成了?|变成了?|改到了?|在|为)?(?P<value>[^，。！；]{1,40})";
    uses = r"(?:我们(?:的)?(?:团队|公司|项目|后端|前端|服务|部门)?|(?:这个|本|该|整个)?(?:项目|团队|公司|仓库|代码库|后端|前端|服务|系统|数据库|应用))(?:现在|目前|已经|都|一直|其实|只)*(?P<not>不再|从不|已经不|不|没有?)?(?:是)?(?:使用|用的?|采用|部署在|运行在|支持|依赖|改用|跑在)(?:的是|了)?(?P<what>[^，。！；]{1,30})";
    the = r"^(?:这次|这个|那个|本|该)?(?P<what>\p{Han}[^，。！；]{0,12}?)(?:的?(?:时间|地点|日期))?(?:现在|已经)*(?P<not>不是|不在)?(?P<verb>改到|改在|改成|改为|推迟到|提前到|定在|是在|搬到|换成|换到)了?(?P<value>[^，。！；]{1,30})";
    decided = r"我们(?:已经|刚)?(?:决定|商定|确定|同意)(?P<not>不再?)?(?P<what>[^，。！；]{2,40})";
    am = r"我(?:现在|其实|已经)*(?P<not>不再是|已经不是|不是)?(?P<is>是|属)?(?:一[个名位])?(?P<what>[^，。！；]{0,10}(?:素食|吃素|医生|老师|教师|学生|工程师|程序员|律师|设计师|护士|经理|左撇子|色盲|单身|已婚|退休|糖尿病|人|者|员|师|生))(?:了|的)?[。！]?$";
}

pub(super) fn understand(sentence: &str) -> Option<Statement> {
    let p = PATTERNS.as_ref()?;
    if p.question.is_match(sentence) {
        return None;
    }
    if let Some(found) = p.prefix.captures(sentence) {
        let rest = group(&found, "rest");
        return Some(about(p, rest).unwrap_or_else(|| Statement::new("semantic")));
    }
    about(p, sentence)
}

fn about(p: &Patterns, sentence: &str) -> Option<Statement> {
    let is = |found: &regex::Captures<'_>, name: &str| found.name(name).is_some();
    if let Some(found) = p.retract.captures(sentence) {
        let what = group(&found, "what");
        let mut statement = about_what(p, what);
        if statement.slot.is_none() {
            statement = statement.replaces(what);
        }
        return Some(Statement { retracts: true, value: None, ..statement });
    }
    let mine = sentence.starts_with("我") && !sentence.starts_with("我们");
    if !mine {
        if let Some(found) = p.rule_not.captures(sentence) {
            let what = group(&found, "what");
            match p.not_rule.captures(what) {
                // 别忘记… is a thing to do.
                Some(forget) if is(&forget, "what") => return Some(rule(group(&forget, "what"), false)),
                Some(_) => {}
                None => return Some(rule(what, true)),
            }
        }
        if let Some(found) = p.rule_yes.captures(sentence) {
            return Some(rule(group(&found, "what"), false));
        }
        if let Some(found) = p.allowed.captures(sentence) {
            return Some(Statement { retracts: true, ..rule(group(&found, "what"), false) });
        }
    }
    if p.maybe.is_match(sentence) || p.told.is_match(sentence) {
        return None;
    }
    if let Some(found) = p.standing.captures(sentence).filter(|_| !mine) {
        return Some(rule(group(&found, "what"), false));
    }
    if let Some(found) = p.switched.captures(sentence) {
        let pick = |a, b| if is(&found, a) { group(&found, a) } else { group(&found, b) };
        let (from, to) = (pick("from", "from2"), pick("to", "to2"));
        if sentence.contains('搬') {
            return Some(Statement::new("semantic").only("residence").value(to));
        }
        let kind = if mine { "semantic" } else { "project_state" };
        return Some(Statement::new(kind).slot("use", to).value(to).replaces(from));
    }
    let statement = state(p, sentence)?;
    if let Some(found) = p.not_but.captures(sentence) {
        return Some(statement.replaces(group(&found, "from")).value(group(&found, "to")).negative(false));
    }
    Some(statement)
}

/// What somebody wants forgotten: a statement, or the object of a rule.
fn about_what(p: &Patterns, what: &str) -> Statement {
    about(p, what).unwrap_or_else(|| Statement::new("semantic"))
}

fn state(p: &Patterns, sentence: &str) -> Option<Statement> {
    let is = |found: &regex::Captures<'_>, name: &str| found.name(name).is_some();
    if let Some(found) = p.name.captures(sentence) {
        return Some(Statement::new("semantic").only("name").value(group(&found, "what")));
    }
    if let Some(found) = p.allergic.captures(sentence) {
        let what = group(&found, "what");
        let negative = is(&found, "not") || is(&found, "not1");
        return Some(Statement::new("semantic").slot("allergic", what).value(what).negative(negative));
    }
    if let Some(found) = p.live.captures(sentence) {
        return Some(
            Statement::new("semantic").only("residence").value(group(&found, "what")).negative(is(&found, "not")),
        );
    }
    if let Some(found) = p.work.captures(sentence) {
        let what = if is(&found, "left") { group(&found, "left") } else { group(&found, "what") };
        let negative = is(&found, "not") || is(&found, "left");
        return Some(Statement::new("semantic").only("employer").value(what).negative(negative));
    }
    if let Some(found) = p.prefer.captures(sentence) {
        let what = group(&found, "what");
        let (what, other) =
            ["而不是", "胜过", "超过", "多于"].iter().find_map(|w| what.split_once(w)).unwrap_or((what, ""));
        let mut statement =
            Statement::new("preference").slot("prefer", &last(what)).value(what).negative(is(&found, "not"));
        if !other.is_empty() {
            statement.closes.push(format!("prefer:{}", super::norm(&last(other))));
        }
        return Some(statement);
    }
    if let Some(found) = p.decided.captures(sentence) {
        let what = strip_verb(group(&found, "what"));
        return Some(Statement::new("project_state").slot("use", what).value(what).negative(is(&found, "not")));
    }
    if let Some(found) = p.uses.captures(sentence) {
        let what = group(&found, "what").trim_end_matches('了');
        return Some(Statement::new("project_state").slot("use", what).value(what).negative(is(&found, "not")));
    }
    if let Some(found) = p.my.captures(sentence).filter(|f| is(f, "verb") || is(f, "not")) {
        let value = group(&found, "value");
        return Some(
            Statement::new("semantic").slot("attr", group(&found, "what")).value(value).negative(is(&found, "not")),
        );
    }
    if let Some(found) =
        p.am.captures(sentence).filter(|f| is(f, "is") || is(f, "not") || group(f, "what").contains('素'))
    {
        let what = group(&found, "what");
        return Some(Statement::new("semantic").slot("am", what).value(what).negative(is(&found, "not")));
    }
    if let Some(found) = p.like.captures(sentence).filter(|f| !p.passing.is_match(group(f, "what"))) {
        let what = group(&found, "what").trim_end_matches('了').trim_start_matches('了');
        let mut negative = is(&found, "not");
        let class = match group(&found, "verb") {
            "讨厌" | "反感" | "受不了" => {
                negative = !negative;
                "like"
            }
            "戒" | "戒了" => {
                negative = true;
                "do"
            }
            "喜欢" | "热爱" | "爱吃" | "爱喝" | "爱" | "想要" | "需要" => "like",
            _ => "do",
        };
        let what = what.trim_start_matches(['喝', '吃', '用', '抽']);
        let kind = if class == "like" { "preference" } else { "semantic" };
        return Some(Statement::new(kind).slot(class, what).value(what).negative(negative));
    }
    if let Some(found) = p.the.captures(sentence) {
        let value = group(&found, "value");
        return Some(
            Statement::new("project_state")
                .slot("attr", group(&found, "what"))
                .value(value)
                .negative(is(&found, "not")),
        );
    }
    None
}

fn strip_verb(what: &str) -> &str {
    ["采用", "使用", "用", "选择", "改用"].iter().find_map(|verb| what.strip_prefix(verb)).unwrap_or(what)
}

/// The last two characters, or the last word of another script: the kind of thing.
fn last(phrase: &str) -> String {
    let phrase = phrase.trim().trim_end_matches(['的', '了']);
    match phrase.chars().next_back() {
        Some(c) if c.is_ascii() => phrase.rsplit([' ', '的']).next().unwrap_or(phrase).to_owned(),
        _ => phrase.chars().rev().take(2).collect::<Vec<_>>().into_iter().rev().collect(),
    }
}

fn rule(what: &str, negative: bool) -> Statement {
    let what = what.trim_start_matches(['要', '再', '都', '请', '就']).trim_end_matches('了');
    Statement::new("procedural_observation").slot("rule", what).value(what).negative(negative)
}

//! What the tray and the notifications say, in the three languages of the window. Written, not translated word by word;
//! `{name}` is a slot.

/// The sentences of one language.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Words {
    pub running_auto: &'static str,
    pub running_rl: &'static str,
    pub running_skills: &'static str,
    pub starting: &'static str,
    pub stopping: &'static str,
    pub stopped: &'static str,
    pub not_set_up: &'static str,
    pub attached: &'static str,
    pub config_problem: &'static str,
    pub provider_failing: &'static str,
    pub open: &'static str,
    pub copy: &'static str,
    pub mode: &'static str,
    pub mode_auto: &'static str,
    pub mode_rl: &'static str,
    pub mode_skills: &'static str,
    pub recent: &'static str,
    pub nothing_yet: &'static str,
    pub at_login: &'static str,
    pub start: &'static str,
    pub stop: &'static str,
    pub quit: &'static str,
    pub ev_started: &'static str,
    pub ev_stopping: &'static str,
    pub ev_config: &'static str,
    pub ev_config_read: &'static str,
    pub ev_config_invalid: &'static str,
    pub ev_config_held: &'static str,
    pub ev_skills: &'static str,
    pub ev_skill_trial: &'static str,
    pub ev_skill_active: &'static str,
    pub ev_skill_retired: &'static str,
    pub ev_skill_changed: &'static str,
    pub ev_skill_waits: &'static str,
    pub ev_learning_on: &'static str,
    pub ev_learning_off: &'static str,
    pub ev_skill_replayed: &'static str,
    pub ev_meaning_off: &'static str,
    pub ev_memory_meaning_off: &'static str,
    pub ev_model: &'static str,
    pub ev_model_failed: &'static str,
    pub ev_fallback: &'static str,
    pub ev_not_recorded: &'static str,
    pub ev_recorded: &'static str,
    pub ev_turn_failed: &'static str,
    pub down_title: &'static str,
    pub down_body: &'static str,
    pub not_recorded_title: &'static str,
    pub not_recorded_body: &'static str,
    pub skill_title: &'static str,
    pub skills_title: &'static str,
    pub skill_body: &'static str,
    pub look: &'static str,
    pub blank_title: &'static str,
    pub blank_body: &'static str,
}

static EN: Words = Words {
    running_auto: "Running, auto mode",
    running_rl: "Running, RL mode",
    running_skills: "Running, skills only",
    starting: "Starting…",
    stopping: "Stopping…",
    stopped: "Stopped",
    not_set_up: "Not set up yet",
    attached: "Served by process {pid}",
    config_problem: "config.yaml is not in use as it stands",
    provider_failing: "No answer from {provider} since {time}",
    open: "Open MetaClaw",
    copy: "Copy address",
    mode: "Mode: {mode}",
    mode_auto: "Auto",
    mode_rl: "RL",
    mode_skills: "Skills only",
    recent: "Recent",
    nothing_yet: "Nothing yet",
    at_login: "Start at login",
    start: "Start",
    stop: "Stop",
    quit: "Quit",
    ev_started: "Service started",
    ev_stopping: "Service stopped",
    ev_config: "Settings changed: {keys}",
    ev_config_read: "Settings read again",
    ev_config_invalid: "config.yaml cannot be used",
    ev_config_held: "config.yaml lost its provider or a key; the old one is in use",
    ev_skills: "Skills changed: {names}",
    ev_skill_trial: "{name} is on trial",
    ev_skill_active: "{name} is active",
    ev_skill_retired: "{name} is retired",
    ev_skill_changed: "{name} was changed",
    ev_skill_waits: "Skills need your yes: {n}",
    ev_learning_on: "Skills are learned",
    ev_learning_off: "No skills are learned",
    ev_skill_replayed: "A judge compared answers with {name} and without it",
    ev_meaning_off: "Skills are found by words only",
    ev_memory_meaning_off: "Memories are found by words only",
    ev_model: "{id} is here",
    ev_model_failed: "{id} could not be fetched",
    ev_fallback: "{to} answered for {from}",
    ev_not_recorded: "A turn was not recorded",
    ev_recorded: "Turns are recorded again",
    ev_turn_failed: "A turn failed: HTTP {status}",
    down_title: "{provider} does not answer",
    down_body: "{n} turns failed since {time}, the last with HTTP {status}. Agents see the error.",
    not_recorded_title: "A turn was not recorded",
    not_recorded_body: "The journal could not take it: {error}. The agent got its answer.",
    skill_title: "A skill needs your yes",
    skills_title: "{n} skills need your yes",
    skill_body: "Made from a conversation: {names}. Not used before you allow it.",
    look: "Look",
    blank_title: "The window stays blank",
    blank_body: "It does not draw on this machine. The same pages open in a browser: metaclaw start --ui-port 0",
};

static ZH: Words = Words {
    running_auto: "运行中，自动模式",
    running_rl: "运行中，RL 模式",
    running_skills: "运行中，仅技能",
    starting: "正在启动…",
    stopping: "正在停止…",
    stopped: "已停止",
    not_set_up: "尚未设置",
    attached: "由进程 {pid} 提供服务",
    config_problem: "config.yaml 现在的内容未被采用",
    provider_failing: "{provider} 自 {time} 起没有回答",
    open: "打开 MetaClaw",
    copy: "复制地址",
    mode: "模式：{mode}",
    mode_auto: "自动",
    mode_rl: "RL",
    mode_skills: "仅技能",
    recent: "最近",
    nothing_yet: "还没有",
    at_login: "登录时启动",
    start: "启动",
    stop: "停止",
    quit: "退出",
    ev_started: "服务已启动",
    ev_stopping: "服务已停止",
    ev_config: "设置已更改：{keys}",
    ev_config_read: "已重新读取设置",
    ev_config_invalid: "config.yaml 无法使用",
    ev_config_held: "config.yaml 少了提供方或密钥，仍用原来的设置",
    ev_skills: "技能有变化：{names}",
    ev_skill_trial: "{name} 开始试用",
    ev_skill_active: "{name} 生效",
    ev_skill_retired: "{name} 已退役",
    ev_skill_changed: "{name} 已修改",
    ev_skill_waits: "等你批准的技能：{n}",
    ev_learning_on: "现在学习技能",
    ev_learning_off: "现在不学习技能",
    ev_skill_replayed: "评判者比较了有和没有 {name} 的回答",
    ev_meaning_off: "只按词语查找技能",
    ev_memory_meaning_off: "只按词语查找记忆",
    ev_model: "{id} 已在本机",
    ev_model_failed: "{id} 未能下载",
    ev_fallback: "{to} 代替 {from} 作了回答",
    ev_not_recorded: "有一轮没有记录下来",
    ev_recorded: "对话又能记录了",
    ev_turn_failed: "有一轮失败：HTTP {status}",
    down_title: "{provider} 没有回答",
    down_body: "自 {time} 起有 {n} 轮失败，最近一次是 HTTP {status}。智能体会看到错误。",
    not_recorded_title: "有一轮没有记录下来",
    not_recorded_body: "日志无法写入：{error}。智能体已得到回答。",
    skill_title: "有一个技能等你批准",
    skills_title: "有 {n} 个技能等你批准",
    skill_body: "由对话提炼：{names}。批准前不会使用。",
    look: "查看",
    blank_title: "窗口是空白的",
    blank_body: "这台机器上画不出窗口。同样的页面可以在浏览器里打开：metaclaw start --ui-port 0",
};

static JA: Words = Words {
    running_auto: "動作中、自動モード",
    running_rl: "動作中、RL モード",
    running_skills: "動作中、スキルのみ",
    starting: "起動しています…",
    stopping: "停止しています…",
    stopped: "停止中",
    not_set_up: "まだ設定されていません",
    attached: "プロセス {pid} が動かしています",
    config_problem: "config.yaml の今の内容は使われていません",
    provider_failing: "{provider} は {time} から応答なし",
    open: "MetaClaw を開く",
    copy: "アドレスをコピー",
    mode: "モード：{mode}",
    mode_auto: "自動",
    mode_rl: "RL",
    mode_skills: "スキルのみ",
    recent: "最近の出来事",
    nothing_yet: "まだありません",
    at_login: "ログイン時に起動",
    start: "開始",
    stop: "停止",
    quit: "終了",
    ev_started: "サービスを開始しました",
    ev_stopping: "サービスを停止しました",
    ev_config: "設定の変更：{keys}",
    ev_config_read: "設定を読み直しました",
    ev_config_invalid: "config.yaml が使えません",
    ev_config_held: "config.yaml からプロバイダーかキーが消えたため、前の設定を使っています",
    ev_skills: "スキルの変更：{names}",
    ev_skill_trial: "{name} の試用を始めました",
    ev_skill_active: "{name} が有効になりました",
    ev_skill_retired: "{name} は引退しました",
    ev_skill_changed: "{name} を変更しました",
    ev_skill_waits: "許可待ちのスキル：{n}",
    ev_learning_on: "スキルを学んでいます",
    ev_learning_off: "スキルは学んでいません",
    ev_skill_replayed: "判定者が {name} のある答えとない答えを比べました",
    ev_meaning_off: "スキルは単語だけで探しています",
    ev_memory_meaning_off: "記憶は単語だけで探しています",
    ev_model: "{id} を取得しました",
    ev_model_failed: "{id} を取得できませんでした",
    ev_fallback: "{from} の代わりに {to} が答えました",
    ev_not_recorded: "記録できなかったターンがあります",
    ev_recorded: "ターンをまた記録しています",
    ev_turn_failed: "失敗したターン：HTTP {status}",
    down_title: "{provider} が応答しません",
    down_body: "{time} から {n} ターンが失敗しています。最後は HTTP {status}。エージェントにはエラーが返ります。",
    not_recorded_title: "記録できなかったターンがあります",
    not_recorded_body: "ジャーナルに書けませんでした：{error}。エージェントには答えが届いています。",
    skill_title: "許可を待つスキルがあります",
    skills_title: "{n} 個のスキルが許可を待っています",
    skill_body: "会話から作りました：{names}。許可するまで使いません。",
    look: "見る",
    blank_title: "ウィンドウに何も表示されません",
    blank_body: "この環境では描画できません。同じ画面をブラウザで開けます：metaclaw start --ui-port 0",
};

/// The words for the languages the system asks for, as its environment says.
pub(crate) fn words(var: impl Fn(&str) -> Option<String>) -> &'static Words {
    let set = |name: &str| var(name).filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_MESSAGES")).or_else(|| set("LANG")).unwrap_or_default();
    // LANGUAGE is a list of wishes; it counts only where the locale is not the plain one.
    let plain = locale.is_empty() || locale == "C" || locale.starts_with("C.") || locale == "POSIX";
    let wishes = if plain { None } else { set("LANGUAGE") }.unwrap_or(locale);
    wishes
        .split(':')
        .find_map(|wish| match wish.split(['_', '.', '@', '-']).next()? {
            "zh" => Some(&ZH),
            "ja" => Some(&JA),
            "en" => Some(&EN),
            _ => None,
        })
        .unwrap_or(&EN)
}

/// The sentence with its slots filled.
pub(crate) fn fill(sentence: &str, slots: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        out.push_str(slots.iter().find(|slot| slot.0 == name).map_or("", |slot| slot.1));
        rest = behind;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&[("LANG", "ja_JP.UTF-8")], &JA)]
    #[case(&[("LANG", "zh_CN.UTF-8")], &ZH)]
    #[case(&[("LANG", "de_DE.UTF-8")], &EN)]
    #[case(&[("LANG", "de_DE.UTF-8"), ("LANGUAGE", "de:ja:en")], &JA)]
    #[case(&[("LANG", "ja_JP.UTF-8"), ("LC_ALL", "C"), ("LANGUAGE", "zh")], &EN)]
    #[case(&[("LANG", "en_GB.UTF-8"), ("LC_MESSAGES", "zh_TW.UTF-8")], &ZH)]
    #[case(&[], &EN)]
    fn the_language_is_the_systems(#[case] set: &[(&str, &str)], #[case] expected: &Words) {
        let found = words(|name| set.iter().find(|one| one.0 == name).map(|one| one.1.to_owned()));
        assert_eq!(found.open, expected.open);
    }

    #[test]
    fn slots_are_filled_once_and_what_is_in_them_is_left_alone() {
        assert_eq!(fill("{a} of {b}, {a}", &[("a", "{b}"), ("b", "2")]), "{b} of 2, {b}");
        assert_eq!(fill("open { end", &[]), "open { end");
    }

    /// Every language has the slots of English, sentence by sentence; another one would show a hole.
    #[test]
    fn all_languages_have_the_same_slots() {
        assert_eq!(slots(&ZH), slots(&EN));
        assert_eq!(slots(&JA), slots(&EN));
        assert!(slots(&EN).contains(&("down_body".to_owned(), vec!["n".into(), "status".into(), "time".into()])));
    }

    /// Field and slots, out of the way the structure prints itself: no sentence can be left out.
    fn slots(words: &Words) -> Vec<(String, Vec<String>)> {
        let printed = format!("{words:#?}");
        let fields = printed.lines().filter_map(|line| line.trim().split_once(": \""));
        fields
            .map(|(field, text)| {
                let mut found: Vec<String> =
                    text.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0.to_owned())).collect();
                found.sort();
                (field.to_owned(), found)
            })
            .collect()
    }
}

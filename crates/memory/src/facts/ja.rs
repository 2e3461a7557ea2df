//! Japanese statements. What turns the sense round stands at the end of the sentence.

use super::{Statement, group, patterns};

patterns! {
    question = r"[？?]\s*$|(?:です|ます|でしょう|ました|ません|だろう|の|たい)か[。！]?\s*$|かな[。！]?$|(?:何|どこ|いつ|誰|どれ|どう|なぜ)[^。]{0,12}か[。]?$";
    maybe = r"^(?:もし|仮に|例えば|たとえば|万が一)|かもしれ|だろう|でしょう|と思っていたけど|だったら|なら[、,]|はずだった|検討中|考え中|かも[。]?$";
    told = r"(?:さん|彼|彼女|上司|同僚|みんな|先生)[はが][^。]{0,60}(?:と言|って言|と話し|と聞)|によると|らしい[。]?$|だそうです[。]?$";
    not = r"(?:ません(?:でした)?|ない(?:です|でください|で下さい|で|ように(?:して)?(?:ください)?|こと|よ|ので)?|なかった(?:です)?|なくなりました|なくなった|ず(?:に)?|やめました|やめた|嫌い(?:です|だ)?|苦手(?:です|だ)?|禁止(?:です|だ)?|避けてください|避けて|やめてください|控えてください|ではありません|じゃない(?:です)?|いけません|いけない|ダメです|だめです|ダメ|だめ)[。！ね\s]*$";
    rule_not = r"(?P<what>[^。]{2,60}?)(?:し|せ|さ|か|が|ば|ま|ら|わ|た|な|え|け|め|れ|て|べ|い|き|り)?(?:ないでください|ないで下さい|ないで(?:ね|ほしい(?:です)?)?|ないように(?:して(?:ください)?)?|てはいけません|てはいけない|ではいけない|ちゃだめ(?:です)?|は禁止(?:です|だ)?|を禁止(?:します|する)?|は避けて(?:ください)?|を避けて(?:ください)?|はやめて(?:ください)?|をやめて(?:ください)?|は控えて(?:ください)?|しないこと|ないこと)[。！\s]*$";
    rule_yes = r"(?:必ず|常に|いつも|毎回|絶対に?|今後は|これからは|これから|以後|次から|次回から)[、,]?(?P<what>[^。]{2,60}?)(?:してください|てください|で(?:ください)|お願いします|こと|ように(?:して(?:ください)?)?|ましょう|すること)[。！\s]*$|(?P<forget>[^。]{2,60}?)(?:の)?を忘れないで(?:ください)?[。！\s]*$";
    allowed = r"^(?:もう|今は|これからは|やっぱり|やはり|実は)?[、,]?(?P<what>[^。]{2,40}?)(?:ても|でも|って|て)(?:もう)?(?:いい|良い|よい|構いません|かまいません|大丈夫|OK|問題ありません)(?:です|よ|ですよ|になりました)*[。！\s]*$";
    retract = r"(?P<what>[^。]{2,40}?)(?:(?:の|という)(?:ルール|話|件|こと|指示))?(?:は|を|のことは)(?:忘れて|取り消し|撤回|なかったことに|無視して)(?:します|ください|して(?:ください)?|です)*[。！\s]*$";
    prefix = r"^(?:ちなみに|念のため|補足ですが|訂正です(?:が)?|訂正します)[、,。]?(?P<rest>.{3,})$|^(?P<rest2>[^。]{3,60}?)(?:のを|ことを|と|って)?(?:覚えておいて|覚えて|メモして)(?:ください|ね)*[。！]?$";
    switched = r"(?P<from>[^、。は]{1,24}?)から(?P<to>[^、。]{1,24}?)(?:に|へ)(?P<verb>移行|変更|乗り換え|切り替え|引っ越|移り|変わり|変え|アップグレード|移動)";
    not_but = r"(?P<from>[^、。はがのを]{1,24}?)(?:では|じゃ)なく(?:て)?[、,]?(?P<to>[^、。]{1,24}?)(?:です|だ|になりました|でした|を)?[。！]?\s*$";
    name = r"(?:私|僕|俺|わたし|ぼく)の名前は(?P<what>[^、。]{1,16}?)(?:です|だ|といいます|に変わりました)?[。！]?\s*$|(?P<what2>[^、。はが]{1,16}?)と(?:申します|いいます|呼んで)";
    live = r"(?:今は|現在は?|先月|去年|最近|もう)*(?:私|僕|俺|わたし)?(?:は|も)?(?:今|現在|もう)?[、,]?(?P<what>[^、。はも]{1,20}?)(?:に|へ|には)(?:もう)?(?:住ん|引っ越し|引越し|移住し|住み|暮らし)";
    work = r"(?:私|僕|俺|わたし)?(?:は|も)?(?:今|現在|もう)?[、,]?(?P<what>[^、。はも]{1,20}?)(?:で(?:は)?(?:もう)?(?:働い|勤務し)|に(?:は)?(?:もう)?(?:勤め|入社))|(?P<left>[^、。はも]{1,20}?)を(?:退職|辞め)";
    allergic = r"(?:私|僕|俺|わたし)?(?:は|には)?(?P<what>[^、。はに]{1,16}?)(?:の)?アレルギー";
    prefer = r"(?:(?P<other>[^、。はも]{1,24}?)より(?:も)?)?(?P<what>[^、。はも]{1,24}?)(?:の方)?が(?:好み|いい|良い|好き)(?:です|だ)?";
    like = r"(?:私|僕|俺|わたし)?(?:は|も)?(?:今は|もう)?[、,]?(?P<what>[^、。はも]{1,24}?)(?:が|は)(?:もう|あまり|本当に|とても|一番|大)*(?P<verb>好き|大好き|嫌い|大嫌い|苦手|欲しく|欲しい|必要|要り|いりま|いらな|得意)";
    does = r"(?:私|僕|俺|わたし)?(?:は|も)?(?:今は|もう|毎日|普段は?)*[、,]?(?P<what>[^、。はも]{1,24}?)(?:を|は)(?:もう|毎日|普段|全く|まったく)*(?P<verb>飲|食べ|使|吸|話|飼|やめ|辞め|観|読|習|勉強|弾|着|運転)";
    uses = r"(?:私たち|我々|うち|弊社|当社|チーム|プロジェクト|このプロジェクト|バックエンド|フロントエンド|サーバー|会社|このリポジトリ|このアプリ|サービス)(?:のチーム|のプロジェクト)?(?:で)?(?:は|では)(?:今|現在|もう)?[、,]?(?P<what>[^、。]{1,30}?)(?:を|は|で)(?:もう)?(?:使|採用|利用|運用|動い|サポート|デプロイ|導入)";
    my = r"(?:私|僕|俺|わたし|うち|我が家)の(?P<what>[^、。は]{1,16}?)(?:の名前)?は(?:今|もう|現在)?[、,]?(?P<value>[^。]{1,40}?)(?:です|だ|になりました|に変わりました|に変更(?:しました|になりました)?|といいます|ではありません|じゃないです|ではない|じゃない)[。！]?\s*$";
    the = r"^(?:その|この|次の|今度の)?(?P<what>[^、。はが]{1,20}?)(?:は|が)(?P<value>[^。]{1,30}?)(?:になりました|に変更(?:しました|になりました|です)?|に変わりました|に延期(?:になりました|です)?|に移動|からです|です)[。！]?\s*$";
    am = r"(?:私|僕|俺|わたし)は(?:もう)?(?P<what>[^、。]{1,16}?)(?:です|だ|になりました|ではありません|じゃないです|ではない|じゃない)[。！]?\s*$";
    decided = r"(?P<what>[^、。]{2,40}?)(?:を|に|と)?(?:することに|に|と)(?:決め|決まり|決定し)(?:ました|た)";
}

pub(super) fn understand(sentence: &str) -> Option<Statement> {
    let p = PATTERNS.as_ref()?;
    if p.question.is_match(sentence) {
        return None;
    }
    if let Some(found) = p.prefix.captures(sentence) {
        let rest = if found.name("rest").is_some() { group(&found, "rest") } else { group(&found, "rest2") };
        return Some(about(p, rest).unwrap_or_else(|| Statement::new("semantic")));
    }
    about(p, sentence)
}

fn about(p: &Patterns, sentence: &str) -> Option<Statement> {
    if let Some(found) = p.rule_yes.captures(sentence) {
        if found.name("forget").is_some() {
            return Some(rule(group(&found, "forget"), false));
        }
        if !p.not.is_match(sentence) {
            return Some(rule(group(&found, "what"), false));
        }
    }
    if let Some(found) = p.rule_not.captures(sentence) {
        return Some(rule(group(&found, "what"), true));
    }
    if let Some(found) = p.allowed.captures(sentence) {
        return Some(Statement { retracts: true, ..rule(group(&found, "what"), false) });
    }
    if let Some(found) = p.retract.captures(sentence) {
        let what = group(&found, "what");
        let mut statement =
            about(p, what).or_else(|| about(p, &format!("{what}です"))).unwrap_or_else(|| Statement::new("semantic"));
        if statement.slot.is_none() {
            statement = statement.replaces(what);
        }
        return Some(Statement { retracts: true, value: None, ..statement });
    }
    if p.maybe.is_match(sentence) || p.told.is_match(sentence) {
        return None;
    }
    let statement = state(p, sentence)?;
    Some(match p.not_but.captures(sentence) {
        Some(found) => statement.replaces(group(&found, "from")).value(group(&found, "to")).negative(false),
        None => statement,
    })
}

fn state(p: &Patterns, sentence: &str) -> Option<Statement> {
    let negative = p.not.is_match(sentence);
    if let Some(found) = p.switched.captures(sentence) {
        let (from, to) = (group(&found, "from"), group(&found, "to"));
        if group(&found, "verb") == "引っ越" {
            return Some(Statement::new("semantic").only("residence").value(to));
        }
        return Some(Statement::new("project_state").slot("use", to).value(to).replaces(from));
    }
    if let Some(found) = p.name.captures(sentence) {
        let what = if found.name("what").is_some() { group(&found, "what") } else { group(&found, "what2") };
        return Some(Statement::new("semantic").only("name").value(what));
    }
    if let Some(found) = p.allergic.captures(sentence) {
        let what = group(&found, "what");
        return Some(Statement::new("semantic").slot("allergic", what).value(what).negative(negative));
    }
    if let Some(found) = p.live.captures(sentence) {
        return Some(Statement::new("semantic").only("residence").value(group(&found, "what")).negative(negative));
    }
    if let Some(found) = p.work.captures(sentence) {
        let left = found.name("left").is_some();
        let what = if left { group(&found, "left") } else { group(&found, "what") };
        return Some(Statement::new("semantic").only("employer").value(what).negative(negative || left));
    }
    if let Some(found) = p.uses.captures(sentence) {
        let what = group(&found, "what");
        return Some(Statement::new("project_state").slot("use", what).value(what).negative(negative));
    }
    if let Some(found) = p.my.captures(sentence) {
        let value = group(&found, "value");
        return Some(Statement::new("semantic").slot("attr", group(&found, "what")).value(value).negative(negative));
    }
    if let Some(found) =
        p.prefer.captures(sentence).filter(|f| f.name("other").is_some() || sentence.contains("の方が"))
    {
        let (what, other) = (group(&found, "what"), group(&found, "other"));
        let mut statement = Statement::new("preference").slot("prefer", &last(what)).value(what).negative(negative);
        let other = super::norm(&last(other));
        if !other.is_empty() && statement.slot.as_deref() != Some(&format!("prefer:{other}")) {
            statement.closes.push(format!("prefer:{other}"));
        }
        return Some(statement);
    }
    if let Some(found) = p.like.captures(sentence) {
        let what = group(&found, "what");
        return Some(Statement::new("preference").slot("like", what).value(what).negative(negative));
    }
    if let Some(found) = p.does.captures(sentence) {
        let what = group(&found, "what");
        return Some(Statement::new("semantic").slot("do", what).value(what).negative(negative));
    }
    if let Some(found) = p.decided.captures(sentence) {
        let what = group(&found, "what");
        return Some(
            Statement::new("project_state").slot("use", what).value(what).negative(negative || what.contains("ない")),
        );
    }
    if let Some(found) = p.am.captures(sentence) {
        let what = group(&found, "what");
        return Some(Statement::new("semantic").slot("am", what).value(what).negative(negative));
    }
    if let Some(found) = p.the.captures(sentence) {
        let value = group(&found, "value");
        return Some(
            Statement::new("project_state").slot("attr", group(&found, "what")).value(value).negative(negative),
        );
    }
    None
}

/// The last word: what follows the last の, or the last run of one script.
fn last(phrase: &str) -> String {
    let phrase = phrase.rsplit('の').next().unwrap_or(phrase).trim();
    let kind = |c: char| (matches!(c, '\u{30a1}'..='\u{30ff}'), c.is_ascii());
    let Some(end) = phrase.chars().next_back().map(kind) else { return String::new() };
    let run: Vec<char> = phrase.chars().rev().take_while(|c| kind(*c) == end).collect();
    run.into_iter().rev().collect()
}

fn rule(what: &str, negative: bool) -> Statement {
    let what = ["必ず", "常に", "いつも", "毎回", "絶対に", "決して", "今後は", "これからは", "もう"]
        .iter()
        .fold(what.to_owned(), |what, word| what.replace(word, ""));
    Statement::new("procedural_observation").slot("rule", &what).value(&what).negative(negative)
}

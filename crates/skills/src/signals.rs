//! What a user's words say about the answer before them, in English, Chinese and Japanese, and whether a tool failed. Only
//! plain signs count: what is not clear is no sign.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};

/// How the user took the answer before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reaction {
    /// It was wrong, or not what was asked for.
    Correction,
    /// It was right.
    Thanks,
    /// Neither was said.
    #[default]
    None,
}

impl Reaction {
    /// Its name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Correction => "correction",
            Self::Thanks => "thanks",
            Self::None => "none",
        }
    }
}

/// People say how they take an answer at the beginning of the next message; what they paste comes later.
const HEAD: usize = 280;

/// Words that look like a correction and are none.
static NO_CORRECTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\bno (?:problem|worries|need|rush|thanks|thank you|doubt)\b|\bnot (?:bad|wrong)\b|\bnothing wrong\b|\bwhat(?:'s| is) wrong\b|\bgo(?:es|ing)? wrong\b|不错|没错|沒錯|对不起|對不起|間違いな",
    )
    .ok()
});

static CORRECTION: LazyLock<Option<RegexSet>> = LazyLock::new(|| {
    RegexSet::new([
        r"(?i)^\W*(?:no+|nope|nah|wrong|incorrect|stop)\b",
        r"(?i)\b(?:that|this|it)(?:'s| is| was| are)? (?:still |all |completely |just |plain )?(?:wrong|incorrect|not (?:right|correct|true|it|what|working)|broken)\b",
        r"(?i)\bnot what i (?:asked|wanted|meant|said|need)\b|\bi (?:asked|said|told you|meant|wanted)\b.{0,40}\b(?:not|instead|rather)\b|\bi (?:already )?(?:told|asked) you\b|\bi never (?:asked|said)\b",
        r"(?i)\byou (?:forgot|missed|misunderstood|ignored|skipped|broke|left out|got (?:it|that|this) wrong|didn't|did not|should(?:n't| not) have|should have)\b",
        r"(?i)\b(?:still|again) (?:does ?n[o']t|doesn't|not|fails?|failing|broken|wrong|the same (?:error|problem))\b|\b(?:does|did)(?:n't| not) (?:work|help|compile|run|fix)\b|\bsame (?:error|mistake) (?:again|as before)\b",
        r"(?i)^\W*(?:try again|redo|undo|revert|start over|do it again|do that over)\b|\bwhy did you\b|\bdon't do that\b|\bstop (?:doing|adding|using|changing)\b",
        r"不对|错了|錯了|不是这样|不是這樣|不是这个意思|我(?:说|要|问|指)的(?:是|不是)|你(?:忘|漏|弄错|搞错|理解错|没(?:有)?(?:按|照|看|做))|还是(?:不行|不对|错|报错|一样)|還是(?:不行|不對|錯)|没用|不起作用|不管用|重新(?:做|写|来|生成)|重做|别这样|不要这样|撤销|不正确|有误",
        r"違(?:う|い(?:ます|ました)?)[。、！!\s]|^違|ちが(?:う|います)|そうじゃな|そうではな|間違(?:っ|い(?:です|が))|やり直し|もう一度|動(?:かない|きません|作しない)|直って(?:い)?(?:ない|ません)|頼んで(?:い)?(?:ない|ません)|と言った|と言いました|まだ(?:だめ|ダメ|エラー|直|おかし)|忘れて(?:る|い)|駄目|ダメです|だめです",
    ])
    .ok()
});

static THANKS: LazyLock<Option<RegexSet>> = LazyLock::new(|| {
    RegexSet::new([
        r"(?i)\b(?:thanks|thank you|thx|ty|cheers|much appreciated)\b",
        r"(?i)^\W*(?:perfect|great|excellent|awesome|amazing|wonderful|lovely|brilliant|nice|exactly|well done|good (?:job|work)|looks good|lgtm)\b",
        r"(?i)\b(?:that|this|it) (?:now )?(?:works|worked|helps|helped|did it|fixed it)\b|\bworks (?:now|perfectly|great|fine)\b|\bexactly what i (?:wanted|needed|asked)\b",
        r"谢谢|謝謝|多谢|感谢|太好了|太棒|很好|完美|正是(?:我|这)|搞定|可以了|解决了|成功了|不错",
        r"ありがとう|有難う|助かり|助かっ|完璧|素晴らし|すばらし|いいね|いい感じ|バッチリ|ばっちり|感謝|うまくいき|うまく行き|できました|動きました|直りました",
    ])
    .ok()
});

static WISH: LazyLock<Option<RegexSet>> = LazyLock::new(|| {
    RegexSet::new([
        r"(?i)\b(?:always|never|from now on|next time|in (?:the )?future|every time|whenever|make sure (?:to|you)|remember to|do not ever|please don't|i prefer|i'd rather|the (?:rule|convention|house style) (?:is|here))\b",
        r"以后|以後|下次|总是|總是|永远不要|记住|記住|务必|每次|一定要|不要再|我(?:喜欢|希望|习惯)",
        r"今後|次から|次回|これから(?:は|も)|必ず|いつも|毎回|覚えて|しないで|してほしい|のルール",
    ])
    .ok()
});

static FAILED: LazyLock<Option<RegexSet>> = LazyLock::new(|| {
    RegexSet::new([
        r"(?i)^[\s*#>\[(]*(?:fatal |internal |syntax |runtime )?(?:error|exception|fatal|failed|failure|traceback|panic(?:ked)?)\b",
        r"(?im)^traceback \(most recent call last\)|^\w+(?:Error|Exception): |\bcommand not found\b|\bno such file or directory\b|\bpermission denied\b",
        r"(?i)\b(?:exit(?:ed)?(?: with)?(?: code| status)?|return code)[:= ]+(?:[1-9]\d*)\b",
        r#"(?i)"(?:is_?error|error)"\s*:\s*(?:true|"[^"]+"|\{)|"(?:ok|success)"\s*:\s*false"#,
        r"^(?:错误|錯誤|失败|異常|异常|エラー|失敗)",
    ])
    .ok()
});

fn head(text: &str) -> &str {
    text.char_indices().nth(HEAD).map_or(text, |(end, _)| &text[..end])
}

fn has(set: &LazyLock<Option<RegexSet>>, text: &str) -> bool {
    set.as_ref().is_some_and(|set| set.is_match(text))
}

/// How the user's next words take the answer before them. A correction counts more than the thanks around it.
pub fn reaction(next: &str) -> Reaction {
    let words = head(next.trim());
    let told = NO_CORRECTION.as_ref().map_or(words.into(), |none| none.replace_all(words, " "));
    if has(&CORRECTION, told.trim()) {
        Reaction::Correction
    } else if has(&THANKS, words) {
        Reaction::Thanks
    } else {
        Reaction::None
    }
}

/// The user says how things are to be done, not only this once.
pub fn is_wish(text: &str) -> bool {
    has(&WISH, head(text.trim()))
}

/// What a tool gave back says that it failed. Only its beginning and its end are looked at.
pub fn is_failure(output: &str) -> bool {
    let tail = output.len().saturating_sub(400);
    let tail = output.ceil_char_boundary(tail);
    has(&FAILED, head(output.trim())) || (tail > 0 && has(&FAILED, output[tail..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_are_heard_in_three_languages() {
        for text in [
            "No, that's wrong. Use ISO dates.",
            "nope",
            "That is not what I asked for",
            "you forgot the tests",
            "It still doesn't compile",
            "Thanks, but it's still wrong",
            "Stop adding comments",
            "I said metres, not feet",
            "不对，应该用 ISO 日期",
            "你忘了加测试",
            "还是报错",
            "還是不行",
            "違います。ISO 形式でお願いします",
            "まだエラーが出ます",
            "やり直してください",
            "そうじゃなくて、表にして",
        ] {
            assert_eq!(reaction(text), Reaction::Correction, "{text}");
        }
    }

    #[test]
    fn thanks_are_heard_in_three_languages() {
        for text in [
            "Thanks!",
            "perfect, now add a title",
            "It works now",
            "谢谢，很好",
            "不错",
            "太棒了",
            "ありがとうございます",
            "助かりました",
        ] {
            assert_eq!(reaction(text), Reaction::Thanks, "{text}");
        }
    }

    #[test]
    fn what_says_neither_is_no_sign() {
        for text in [
            "Now write the same for Berlin.",
            "No problem, go on with the second file",
            "Is it possible that something goes wrong here?",
            "What's wrong with this code?",
            "Write a stop-word list",
            "下一个文件呢？",
            "对不起，我想问另一个问题",
            "次のファイルもお願いします",
            "",
        ] {
            assert_eq!(reaction(text), Reaction::None, "{text}");
        }
        let late = format!("{} no, that is wrong", "word ".repeat(100));
        assert_eq!(reaction(&late), Reaction::None, "a pasted text is not the user's own reaction");
    }

    #[test]
    fn failures_of_tools_are_told_from_their_words() {
        for text in [
            "Error: file not found",
            "Traceback (most recent call last):\n  File \"x.py\"\nKeyError: 'a'",
            "bash: foo: command not found",
            "compiled\nexit code 2",
            r#"{"ok": false, "why": "limit"}"#,
            "错误：没有权限",
            "エラー：見つかりません",
        ] {
            assert!(is_failure(text), "{text}");
        }
        for text in ["ok", "0 errors, 12 passed", "exit code 0", "The error page was restyled", r#"{"error": null}"#] {
            assert!(!is_failure(text), "{text}");
        }
    }

    #[test]
    fn wishes_for_next_time_are_heard() {
        for text in ["From now on use tabs", "always answer in French", "以后都用中文", "今後は敬語で"] {
            assert!(is_wish(text), "{text}");
        }
        assert!(!is_wish("Translate this sentence"));
    }
}

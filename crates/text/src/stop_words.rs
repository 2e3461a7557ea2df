//! Words that say little about what a request is about, by language. Function words are never searched;
//! words of everyday talk count for less, so that small talk does not call for anything.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

static STOP_SET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| STOP.split_whitespace().collect());
static COMMON_SET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| COMMON.split_whitespace().collect());

pub(crate) fn is_stop(word: &str) -> bool {
    STOP_SET.contains(word)
}

pub(crate) fn is_common(word: &str) -> bool {
    COMMON_SET.contains(word)
}

const STOP: &str = "
a about after again all also am an and any are aren't as at be been before being between both but by can can't cannot
could couldn't did didn't do does doesn't doing don't down during each else ever every few for from had has hasn't have
haven't having he her here hers him his how i if in into is isn't it it's its itself just let let's like me might more
most must my myself no nor not now of off ok okay on once one only or other our ours out over own per please same shall
she should shouldn't so some such than that that's the their theirs them themselves then there there's these they this
those through to too under until up upon us very via was wasn't we were weren't what what's when where which while who
whom whose why will with won't would wouldn't yes you your yours yourself
am im ive id ill dont cant doesnt didnt isnt whats thats lets wanna gonna gotta u r pls plz
";

const COMMON: &str = "
able actually add ago air already always amazing another answer anyone anything apple area around ask asked asking away awesome back bad
bag ball bank beautiful become bed begin best better big birthday bit black blue body book books born bored boring bottom box
boy bread break breakfast bring brother brown bus buy bye called came car care cat center chance change cheap check child
children choose city clear close clothes coffee cold color colour come coming cook cooking cool cost country couple course cream cup
cute dad dance dark daughter day days dear deep did die digital dinner dog done door dream drink drive dry
ear early earth easy eat eating egg else end english enjoy enough even evening everybody everyone everything example explain eye face fact
fall family famous far fast father favorite favourite feel feeling feet fell felt film fine finger finish fire first fish five floor
flower fly follow food foot football forever forget found four free fresh friday friend friends fruit full fun funny
game games garden gave gets getting gift girl give gives glad glass goes going gold gone good goodbye got great green
ground group grow guess guitar guy hair half hand happen happened happens happy hard hat hate hear heard heart heavy hello
help helpful hey hi high history hit hobby hold holiday home hope horse hot hotel hour hours house hungry husband idea
ideas important interesting joke jokes keep kid kids kind king kitchen knew know known lake land large last late later latest
laugh lead learn leave left leg less life light line lion listen little live lives living lonely long look looking looks
lot lots love loved lovely low luck lucky lunch made main make makes making man mars many married matter maybe mean means meant
meet men milk mind minute minutes miss mom moment monday money month months mood moon morning mother mountain mouth movie movies
much mum music name named names near need needs never new news next nice night nobody noon nose nothing number ocean oh old
older onto open opinion orange page pain paint paper park part party past pay peace people perfect person pet phone photo
piano pick picture pictures piece pink place places planet play played player playing plus pm poem point poor
possible power president pretty price probably problem problems program purple put question questions quick quickly quiet quite
rain read ready real really reason recipe recommend red remember rest rice rich right river road room round run sad said
same sat saturday saw say saying says school sea season second see seem seems seen sell send sense sentence serious set seven
several shirt shoe shoes shop short show side simple since sing singer sister sit six sky sleep sleepy slow small smart smile snow
someone something sometimes son song songs soon sorry sort sound soup south space speak special sport sports spring stand
star stars start started stay still stop store story strange street strong student stuff summer sun sunday sure surprise
sweet table take taken takes taking talk talking tall tea teacher team tell telling ten term thank thanks theory thing
things think thinking third thought thoughts three thursday time times tired today together told tomorrow tonight took top
tough town toy train travel tree trip trouble true truth try trying tuesday turn tv two type understand use used useful using usually
vacation wait waiting walk wall want wanted wants warm wash watch water way ways wear weather wednesday week weekend weeks weight well
went white whole wife wind window winter wish woman women wonder wonderful word words work worked working works
world worry worse worst wow write writing wrong yeah year years yellow yesterday yet yo young
";

/// Chinese and Japanese function phrases in Han characters.
pub(crate) static HAN: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(HAN_PHRASES));
const HAN_PHRASES: &str = "
能不能帮我 会不会 可不可以 是不是 为什么 有没有 请帮我 能不能 怎么样 怎么办 一下子 请问 帮我 帮忙
一下 一个 一些 这个 那个 哪个 哪些 这些 那些 什么 怎么 怎样 如何 可以 需要 应该 能够 我们
你们 他们 她们 大家 自己 现在 今天 明天 昨天 时候 时间 已经 还是 或者 以及 并且 而且 但是
因为 所以 如果 然后 还有 没有 不是 不要 知道 觉得 告诉 谢谢 你好 您好 关于 最近 最新 非常
比较 真的 东西 事情 问题 今日 明日 昨日 一番 何か 今回 次回 以下 以上 方法 场合 自分 的 了
吗 呢 吧 啊 我 你 您 他 她 它 们 是 把 被 给 请 帮 这 那 么 哪 很 都 也 就 还 私 何
君 彼
";

/// Japanese function phrases in Hiragana.
pub(crate) static HIRAGANA: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(HIRAGANA_PHRASES));
const HIRAGANA_PHRASES: &str = "
よろしくおねがいします おねがいします していただけますか いただけますか してください してほしい
ありがとう こんにちは こんばんは おはよう ございます くださいませ でしょうか ましょうか ください
てほしい なさい ですか ますか でしょう ました ません ている ておく という として について における
ための ために ような ように どうやって どのように どうすれば どうしたら いいですか どんな そして
しかし それから とても すごく ちょっと できる できます したい したら すれば します しよう して
した する され される せる れる られる です ます から まで など だけ より ので のに けど ても
では には とは これ それ あれ どれ この その あの どの ここ そこ どこ こと もの とき よう
ない なる ある いる いい よい ほしい たい なに わたし ぼく あなた みんな もう まだ また
";

/// Single letters that are particles or endings at the border of a Hiragana run.
pub(crate) const PARTICLES: &str = "おごをはがのにへともでやかねよなしたてるいくうれりすさんえけせらきっ";

/// Phrases by their first character, longest first.
pub(crate) struct Phrases(HashMap<char, Vec<&'static str>>);

impl Phrases {
    fn new(list: &'static str) -> Self {
        let mut by_first: HashMap<char, Vec<&'static str>> = HashMap::new();
        for phrase in list.split_whitespace() {
            by_first.entry(phrase.chars().next().unwrap_or_default()).or_default().push(phrase);
        }
        for phrases in by_first.values_mut() {
            phrases.sort_by_key(|p| std::cmp::Reverse(p.len()));
        }
        Self(by_first)
    }

    /// The longest phrase that `text` begins with.
    pub(crate) fn at_start_of(&self, text: &str) -> Option<&'static str> {
        self.0.get(&text.chars().next()?)?.iter().find(|p| text.starts_with(**p)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_spelled_as_the_text_that_is_looked_at() {
        for phrase in HAN_PHRASES.split_whitespace() {
            assert_eq!(crate::simplify(phrase), phrase);
        }
    }

    #[test]
    fn the_longest_stop_phrase_is_taken() {
        assert_eq!(HAN.at_start_of("请帮我总结"), Some("请帮我"));
        assert_eq!(HIRAGANA.at_start_of("されるので"), Some("される"));
        assert_eq!(HAN.at_start_of("总结"), None);
    }
}

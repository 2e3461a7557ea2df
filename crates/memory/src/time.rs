//! Times that words name: `yesterday`, `先週`, `下个月`, `May 2023`. In what is remembered, relative ones get their date; in a
//! question they say when the answer was said.

use std::ops::Range;
use std::sync::LazyLock;

use jiff::civil::{Date, Weekday, date};
use jiff::tz::TimeZone;
use jiff::{Span as Length, Timestamp};
use regex::{Captures, Regex};

/// Days, from the first to before the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct When {
    /// First day.
    pub from: Date,
    /// The day after the last.
    pub to: Date,
}

/// A time that stands in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Where it stands.
    pub range: Range<usize>,
    /// Which days it means.
    pub when: When,
    /// It depends on when it was said.
    pub relative: bool,
}

impl When {
    /// As milliseconds since 1970.
    pub fn millis(&self, zone: &TimeZone) -> Range<i64> {
        let ms = |day: Date| day.to_zoned(zone.clone()).map_or(i64::MAX, |z| z.timestamp().as_millisecond());
        ms(self.from)..ms(self.to)
    }

    /// `2026-11-30`, `2026-11-23..2026-11-29`, `2026-11` or `2026`.
    fn name(&self) -> String {
        let last = self.to.yesterday().unwrap_or(self.to);
        if self.from == last {
            return self.from.to_string();
        }
        let whole_months = self.from.day() == 1 && self.to.day() == 1;
        if whole_months && self.from.month() == 1 && self.to == date(self.from.year() + 1, 1, 1) {
            return self.from.year().to_string();
        }
        if whole_months && last.month() == self.from.month() && last.year() == self.from.year() {
            return self.from.strftime("%Y-%m").to_string();
        }
        format!("{}..{last}", self.from)
    }
}

type Reading = fn(&Captures<'_>, Date) -> Option<When>;

struct Rule {
    pattern: Regex,
    relative: bool,
    read: Reading,
}

fn day(day: Date) -> Option<When> {
    Some(When { from: day, to: day.tomorrow().ok()? })
}

fn days(today: Date, offset: i64) -> Option<When> {
    day(today.checked_add(Length::new().days(offset)).ok()?)
}

fn weeks(today: Date, offset: i64) -> Option<When> {
    let monday = today.checked_sub(Length::new().days(i64::from(today.weekday().to_monday_zero_offset()))).ok()?;
    let from = monday.checked_add(Length::new().weeks(offset)).ok()?;
    Some(When { from, to: from.checked_add(Length::new().weeks(1)).ok()? })
}

fn months(today: Date, offset: i64) -> Option<When> {
    let from = today.first_of_month().checked_add(Length::new().months(offset)).ok()?;
    Some(When { from, to: from.checked_add(Length::new().months(1)).ok()? })
}

fn years(today: Date, offset: i64) -> Option<When> {
    let from = today.first_of_year().checked_add(Length::new().years(offset)).ok()?;
    Some(When { from, to: from.checked_add(Length::new().years(1)).ok()? })
}

fn step(unit: &str, today: Date, n: i64) -> Option<When> {
    match unit.to_ascii_lowercase().as_str() {
        "day" | "天" | "日" => days(today, n),
        "week" | "周" | "星期" | "礼拜" | "週間" => weeks(today, n),
        "month" | "月" | "ヶ月" | "か月" | "ヵ月" => months(today, n),
        "year" | "年" => years(today, n),
        _ => None,
    }
}

fn number(word: &str) -> Option<i64> {
    Some(match word.to_lowercase().as_str() {
        "a" | "an" | "one" | "一" => 1,
        "two" | "a couple of" | "二" | "两" | "兩" => 2,
        "three" | "三" => 3,
        "four" | "四" => 4,
        "five" | "五" => 5,
        "six" | "六" => 6,
        "seven" | "七" => 7,
        "eight" | "八" => 8,
        "nine" | "九" => 9,
        "ten" | "十" => 10,
        digits => digits.parse().ok().filter(|n| (0..=1000).contains(n))?,
    })
}

fn toward(word: &str) -> i64 {
    match word.to_lowercase().as_str() {
        "last" | "上" | "上个" | "上個" | "先" | "去" | "昨" => -1,
        "next" | "下" | "下个" | "下個" | "来" | "明" => 1,
        _ => 0,
    }
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

fn month(name: &str) -> Option<i8> {
    let name = name.to_lowercase();
    let at = MONTHS.iter().position(|m| name.starts_with(m))?;
    i8::try_from(at + 1).ok()
}

fn weekday(name: &str) -> Option<Weekday> {
    Some(match name.to_lowercase().get(..3)? {
        "mon" => Weekday::Monday,
        "tue" => Weekday::Tuesday,
        "wed" => Weekday::Wednesday,
        "thu" => Weekday::Thursday,
        "fri" => Weekday::Friday,
        "sat" => Weekday::Saturday,
        "sun" => Weekday::Sunday,
        _ => return None,
    })
}

fn at<'t>(found: &'t Captures<'_>, group: usize) -> &'t str {
    found.get(group).map_or("", |m| m.as_str())
}

fn ymd(found: &Captures<'_>, _: Date) -> Option<When> {
    let year = at(found, 1).parse().ok()?;
    let from = match (at(found, 2).parse().ok(), at(found, 3).parse().ok()) {
        (Some(month), Some(day)) => Date::new(year, month, day).ok()?,
        (Some(month), None) => return months(Date::new(year, month, 1).ok()?, 0),
        _ => return years(Date::new(year, 1, 1).ok()?, 0),
    };
    day(from)
}

fn month_day(today: Date, name: &str, number: &str, year: &str) -> Option<When> {
    let month = month(name)?;
    let year = if year.is_empty() { today.year() } else { year.parse().ok()? };
    match number.parse() {
        Ok(number) => day(Date::new(year, month, number).ok()?),
        Err(_) => months(Date::new(year, month, 1).ok()?, 0),
    }
}

const MONTH: &str = "(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)";
const WEEKDAY: &str = "(mon|tues|wednes|thurs|fri|satur|sun)day";

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let rules: Vec<(String, bool, Reading)> = vec![
        (r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b".into(), false, ymd),
        (r"(\d{4})年(?:(\d{1,2})月(?:(\d{1,2})[日号])?)?".into(), false, ymd),
        (
            format!(r"(?i)\b{MONTH}\.? (\d{{1,2}})(?:st|nd|rd|th)?(?:,? (\d{{4}}))?\b"),
            false,
            |f, today| month_day(today, at(f, 1), at(f, 2), at(f, 3)),
        ),
        (
            format!(r"(?i)\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {MONTH}\b(?:,? (\d{{4}}))?"),
            false,
            |f, today| month_day(today, at(f, 2), at(f, 1), at(f, 3)),
        ),
        (format!(r"(?i)\b{MONTH},? (\d{{4}})\b"), false, |f, today| month_day(today, at(f, 1), "", at(f, 2))),
        (r"(?i)\bin ((?:19|20)\d{2})\b".into(), false, ymd),
        (r"(?i)\bthe day before yesterday\b|前天|一昨日|おととい".into(), true, |_, d| days(d, -2)),
        (r"(?i)\bthe day after tomorrow\b|后天|後天|明後日|あさって".into(), true, |_, d| days(d, 2)),
        (r"(?i)\byesterday\b|\blast night\b|昨天|昨日|昨晚|昨夜|きのう".into(), true, |_, d| days(d, -1)),
        (r"(?i)\btomorrow\b|明天|明日|明晚|あした".into(), true, |_, d| days(d, 1)),
        (r"(?i)\btoday\b|\btonight\b|\bthis (?:morning|afternoon|evening)\b|今天|今晚|今日|今夜|今朝".into(), true, |_, d| days(d, 0)),
        (
            r"(?i)\b(\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|a couple of) (day|week|month|year)s? ago\b".into(),
            true,
            |f, d| step(at(f, 2), d, -number(at(f, 1))?),
        ),
        (
            r"(?i)\bin (\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten) (day|week|month|year)s?\b".into(),
            true,
            |f, d| step(at(f, 2), d, number(at(f, 1))?),
        ),
        (
            r"([0-9]{1,3}|[一二两兩三四五六七八九十])\s?个?個?(天|日|周|星期|礼拜|週間|ヶ月|か月|ヵ月|月|年)(?:之)?(前|后|後)".into(),
            true,
            |f, d| step(at(f, 2), d, number(at(f, 1))? * if at(f, 3) == "前" { -1 } else { 1 }),
        ),
        (r"(?i)\b(last|this|next) (week|month|year)\b".into(), true, |f, d| step(at(f, 2), d, toward(at(f, 1)))),
        (r"(?i)\b(last|this|next) weekend\b".into(), true, |f, d| {
            let week = weeks(d, toward(at(f, 1)))?;
            Some(When { from: week.from.checked_add(Length::new().days(5)).ok()?, to: week.to })
        }),
        (format!(r"(?i)\b(last|next) {WEEKDAY}\b"), true, |f, d| {
            let weekday = weekday(at(f, 2))?;
            day(d.nth_weekday(toward(at(f, 1)) as i32, weekday).ok()?)
        }),
        (r"(上|下|这|這|本)(?:个|個)?(周|星期|礼拜)(?:[^一二三四五六日天末]|$)".into(), true, |f, d| weeks(d, toward(at(f, 1)))),
        (r"(上|下|这|這|本)(?:个|個)?月".into(), true, |f, d| months(d, toward(at(f, 1)))),
        (r"(先|今|来)(週|月|年)".into(), true, |f, d| match at(f, 2) {
            "週" => weeks(d, toward(at(f, 1))),
            "月" => months(d, toward(at(f, 1))),
            _ => years(d, toward(at(f, 1))),
        }),
        (r"(去|昨|今|明)年".into(), true, |f, d| years(d, toward(at(f, 1)))),
    ];
    let build = |(pattern, relative, read): (String, bool, Reading)| {
        Some(Rule { pattern: Regex::new(&pattern).ok()?, relative, read })
    };
    rules.into_iter().filter_map(build).collect()
});

/// The day of a moment.
pub(crate) fn day_of(at_ms: i64, zone: &TimeZone) -> Date {
    Timestamp::from_millisecond(at_ms).unwrap_or_default().to_zoned(zone.clone()).date()
}

/// Words of a day, for the index: year, month, day.
pub(crate) fn words(at_ms: i64, zone: &TimeZone) -> String {
    day_of(at_ms, zone).strftime("%-d %B %Y").to_string()
}

/// The times in a text said at `at_ms`, in order, none inside another.
pub fn spans(text: &str, at_ms: i64, zone: &TimeZone) -> Vec<Span> {
    let today = day_of(at_ms, zone);
    let mut found: Vec<Span> = Vec::new();
    for rule in RULES.iter() {
        for captures in rule.pattern.captures_iter(text) {
            let Some(range) = captures.get(0).map(|m| m.range()) else { continue };
            if found.iter().any(|f| f.range.start < range.end && range.start < f.range.end) {
                continue;
            }
            if let Some(when) = (rule.read)(&captures, today) {
                found.push(Span { range, when, relative: rule.relative });
            }
        }
    }
    found.sort_by_key(|f| f.range.start);
    found
}

/// The text with its date behind every time that depends on when it was said.
pub fn absolute(text: &str, at_ms: i64, zone: &TimeZone) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut copied = 0;
    for span in spans(text, at_ms, zone).into_iter().filter(|s| s.relative) {
        let end = span.range.start + text[span.range.clone()].trim_end().len();
        out.push_str(&text[copied..end]);
        out.push_str(&format!(" ({})", span.when.name()));
        copied = end;
    }
    out.push_str(&text[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Monday, 30 November 2026, noon.
    const NOW: i64 = 1_796_040_000_000;

    fn shown(text: &str) -> String {
        absolute(text, NOW, &TimeZone::UTC)
    }

    #[test]
    fn relative_times_get_their_date_in_three_languages() {
        assert_eq!(day_of(NOW, &TimeZone::UTC), date(2026, 11, 30));
        assert_eq!(shown("I ran yesterday."), "I ran yesterday (2026-11-29).");
        assert_eq!(shown("We moved two weeks ago"), "We moved two weeks ago (2026-11-16..2026-11-22)");
        assert_eq!(shown("see you next Friday!"), "see you next Friday (2026-12-04)!");
        assert_eq!(shown("I start next month"), "I start next month (2026-12)");
        assert_eq!(shown("我昨天去了医院"), "我昨天 (2026-11-29)去了医院");
        assert_eq!(shown("下个月搬家"), "下个月 (2026-12)搬家");
        assert_eq!(shown("3天前开始"), "3天前 (2026-11-27)开始");
        assert_eq!(shown("来週引っ越します"), "来週 (2026-12-07..2026-12-13)引っ越します");
        assert_eq!(shown("去年から"), "去年 (2025)から");
    }

    #[test]
    fn dates_that_are_absolute_stay_as_they_are() {
        assert_eq!(shown("on 2026-05-03 and May 4, 2025"), "on 2026-05-03 and May 4, 2025");
        let found = spans("since May 2023", NOW, &TimeZone::UTC);
        assert_eq!(found[0].when, When { from: date(2023, 5, 1), to: date(2023, 6, 1) });
    }

    proptest::proptest! {
        #[test]
        fn any_text_keeps_its_words(text in "\\PC{0,60}", at in -1_000_000_000_000i64..4_000_000_000_000) {
            let dated = absolute(&text, at, &TimeZone::UTC);
            assert!(dated.len() >= text.len());
        }
    }
}
